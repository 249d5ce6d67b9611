//! Readers, a writer that was paused, and what a store has to remember of both.
//!
//! First, a writer's lease ends while it stands still between its read and its write, and another
//! writes meanwhile. A store without a fence takes both writes, and loses the second.
//!
//! Then nobody writes meanwhile, but somebody reads. The writer's lease ends while it stands still;
//! a reader comes after it and decides by what it reads. Then the writer wakes up. A store that
//! remembers the tokens of writers alone takes its write, and the reader has decided by what is no
//! longer so. One that remembers readers too refuses it.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use redquorum::{Fence, Quorum, error::ConnectError};

/// A row of a table: in SQL, the fence is two columns, compared in the statement that reads or
/// writes.
#[derive(Default)]
struct Row {
    price: i64,
    fence: Fence,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let quorum = connect().await?;
    for has_fence in [false, true] {
        let price = write_late(&quorum, has_fence).await?;
        println!("the store has a fence: {has_fence}; 100 and twice 10 more are {price}");
        assert_eq!(price, if has_fence { 120 } else { 110 });
    }
    for remembers_readers in [false, true] {
        let is_lost = play(&quorum, remembers_readers).await?;
        println!("the store remembers readers: {remembers_readers}; the reader was misled: {is_lost}");
        assert_eq!(is_lost, !remembers_readers);
    }
    quorum.shutdown().await;
    Ok(())
}

/// Two writers add 10 each, the first of them late: the price in the end.
async fn write_late(quorum: &Quorum, has_fence: bool) -> anyhow::Result<i64> {
    let lock = quorum.rw_lock("example:price");
    let mut row = Row { price: 100, ..Row::default() };

    let paused = lock.clone().ttl(Duration::from_millis(300)).without_renewal().write().await?;
    let old = row.price;
    let writer = lock.write().await?; // once the first lease is over
    row.fence.write(writer.fencing_token())?;
    row.price += 10;
    writer.unlock().await?;

    match row.fence.write(paused.fencing_token()) {
        Err(refused) if has_fence => {
            println!("the paused writer wakes up: {refused}");
            let again = lock.write().await?;
            row.fence.write(again.fencing_token())?;
            row.price += 10;
            again.unlock().await?;
        }
        _ => row.price = old + 10,
    }
    Ok(row.price)
}

/// Whether the row changes after the reader has decided by it, although its lease is still valid.
async fn play(quorum: &Quorum, remembers_readers: bool) -> anyhow::Result<bool> {
    let lock = quorum.rw_lock("example:price");
    let mut row = Row { price: 100, ..Row::default() };

    let paused = lock.clone().ttl(Duration::from_millis(300)).without_renewal().write().await?;
    row.fence.write(paused.fencing_token())?;
    let old = row.price;
    // The writer stops between its read and its write, until its lease is over and somebody reads.
    let reader = lock.read().await?;
    if remembers_readers {
        row.fence.read(reader.fencing_token())?;
    }
    let quoted = row.price;

    match row.fence.write(paused.fencing_token()) {
        Ok(()) => row.price = old + 50,
        Err(refused) => println!("the paused writer wakes up: {refused}"),
    }
    reader.ensure()?;
    let is_misled = row.price != quoted;
    reader.unlock().await?;
    Ok(is_misled)
}

async fn connect() -> Result<Quorum, ConnectError> {
    match Quorum::builder().nodes_from_env() {
        Ok(builder) => builder.admit_new_nodes().connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
