//! A writer that is paused past the end of its lease, and the tokens that a store has to record.
//!
//! In the first part, a second writer writes while the first writer is paused between its read and its write. A
//! store without a fence accepts the late write of the first writer, and loses an update.
//!
//! In the second part, a reader reads the price while the writer is paused. If the store records only the tokens of
//! writers, the store accepts the late write, and the reader uses an old price under a valid lease. If the store
//! also records the tokens of readers, the store refuses the late write.
//!
//! `cargo run --example read_write`

#![expect(clippy::print_stdout, reason = "the example prints what happens")]

use std::time::Duration;

use redquorum::{Error, Fence, LockOptions, Quorum};

const PRICE: &str = "example:price";

/// The options of a writer that is paused. During the pause, no watchdog renews the lease.
const PAUSED: LockOptions = LockOptions::new().ttl(Duration::from_millis(300)).without_renewal();

/// A row of a table. In SQL, the fence consists of two columns, and each statement compares the columns.
#[derive(Default)]
struct Row {
    price: i64,
    fence: Fence,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let quorum = connect().await?;
    for has_fence in [false, true] {
        let price = late_write_after_writer(&quorum, has_fence).await?;
        println!("fence: {has_fence}; 100 and twice 10 more are {price}");
        assert_eq!(price, if has_fence { 120 } else { 110 });
    }
    for records_readers in [false, true] {
        let is_misled = late_write_after_reader(&quorum, records_readers).await?;
        println!("fence records readers: {records_readers}; the reader was misled: {is_misled}");
        assert_eq!(is_misled, !records_readers);
    }
    quorum.shutdown().await;
    Ok(())
}

/// Lets two writers add 10 each, the first of them late, and returns the final price.
async fn late_write_after_writer(quorum: &Quorum, has_fence: bool) -> anyhow::Result<i64> {
    let lock = quorum.rw_lock(PRICE);
    let mut row = Row { price: 100, ..Row::default() };

    let paused = lock.clone().options(PAUSED).write().await?;
    let old = row.price;
    // Waits until the lease of the paused writer has ended.
    let writer = lock.write().await?;
    row.fence.write(writer.fencing_token())?;
    row.price += 10;
    writer.unlock().await?;

    match row.fence.write(paused.fencing_token()) {
        Err(refused) if has_fence => {
            println!("the paused writer wakes up: {refused}");
            // A refused writer starts over: a new lease, and a new read.
            let again = lock.write().await?;
            row.fence.write(again.fencing_token())?;
            row.price += 10;
            again.unlock().await?;
        }
        _ => row.price = old + 10,
    }
    Ok(row.price)
}

/// Returns whether the price changes under a valid lease of a reader.
async fn late_write_after_reader(quorum: &Quorum, records_readers: bool) -> anyhow::Result<bool> {
    let lock = quorum.rw_lock(PRICE);
    let mut row = Row { price: 100, ..Row::default() };

    let paused = lock.clone().options(PAUSED).write().await?;
    row.fence.write(paused.fencing_token())?;
    let old = row.price;
    // Waits until the lease of the paused writer has ended.
    let reader = lock.read().await?;
    if records_readers {
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

/// Connects to the nodes that `REDQUORUM_NODES` names. Without the variable: to five nodes in memory.
async fn connect() -> Result<Quorum, Error> {
    match Quorum::builder().nodes_from_env() {
        // For examples only: with this setting, a node that lost all data votes at once, like a new node.
        Ok(builder) => builder.admit_new_nodes().connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
