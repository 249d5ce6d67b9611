//! Several resources, all or none: transfers in both directions between two accounts, without a
//! deadlock.
//!
//! Two tasks that lock the accounts one by one, each in its own order, can wait for each other for
//! ever. A group takes both with one question to each node, whatever the order they are named in.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::atomic::{AtomicI64, Ordering};

use redquorum::{Quorum, error::ConnectError};

type Accounts = [AtomicI64; 2];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let quorum = connect().await?;
    let accounts = [AtomicI64::new(100), AtomicI64::new(100)];

    let there = transfers(&quorum, &accounts, 0, 1, 30);
    let back = transfers(&quorum, &accounts, 1, 0, 10);
    tokio::try_join!(there, back)?;

    let [first, second] = accounts.map(AtomicI64::into_inner);
    println!("account 0: {first}, account 1: {second}, together: {}", first + second);
    assert_eq!((first, second), (0, 200));
    quorum.shutdown().await;
    Ok(())
}

/// Five transfers of `amount` each.
async fn transfers(
    quorum: &Quorum,
    accounts: &Accounts,
    from: usize,
    to: usize,
    amount: i64,
) -> anyhow::Result<()> {
    let both = quorum.multi_lock([from, to].map(|account| format!("example:account:{account}")));
    for _ in 0..5 {
        let guard = both.lock().await?;
        let balances = [from, to].map(|account| accounts[account].load(Ordering::SeqCst));
        tokio::task::yield_now().await; // the other task runs here
        accounts[from].store(balances[0] - amount, Ordering::SeqCst);
        accounts[to].store(balances[1] + amount, Ordering::SeqCst);
        guard.unlock().await?;
    }
    Ok(())
}

async fn connect() -> Result<Quorum, ConnectError> {
    match Quorum::builder().nodes_from_env() {
        Ok(builder) => builder.admit_new_nodes().connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
