//! `multi_lock`: transfers in both directions between two accounts, without a deadlock.
//!
//! If two tasks lock the accounts one after the other, in different orders, the tasks can wait for each
//! other forever. A `multi_lock` locks both accounts with one request to each node, so the order does not
//! matter. `MultiLock::across` locks resources of several quorums.
//!
//! `cargo run --example multi_lock`

#![expect(clippy::print_stdout, reason = "the example prints what happens")]

use std::sync::atomic::{AtomicI64, Ordering};

use redquorum::{Error, MemoryCluster, MultiLock, Quorum};

type Accounts = [AtomicI64; 2];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let quorum = connect().await?;
    let accounts = [AtomicI64::new(100), AtomicI64::new(100)];

    let forth = transfers(&quorum, &accounts, 0, 1, 30);
    let back = transfers(&quorum, &accounts, 1, 0, 10);
    tokio::try_join!(forth, back)?;

    let [first, second] = accounts.map(AtomicI64::into_inner);
    println!("account 0: {first}, account 1: {second}, together: {}", first + second);
    assert_eq!((first, second), (0, 200));
    quorum.shutdown().await;

    move_customer().await?;
    Ok(())
}

/// Makes five transfers of `amount` each.
async fn transfers(
    quorum: &Quorum,
    accounts: &Accounts,
    from: usize,
    to: usize,
    amount: i64,
) -> Result<(), Error> {
    let both = quorum.multi_lock([from, to].map(|account| format!("example:account:{account}")));
    for _ in 0..5 {
        both.run(async |_guard| {
            let balances = [from, to].map(|account| accounts[account].load(Ordering::SeqCst));
            tokio::task::yield_now().await; // the other task runs here
            accounts[from].store(balances[0] - amount, Ordering::SeqCst);
            accounts[to].store(balances[1] + amount, Ordering::SeqCst);
        })
        .await?;
    }
    Ok(())
}

/// Moves a customer between two regions, under a lock of each region's quorum.
async fn move_customer() -> Result<(), Error> {
    // The names of the quorums decide the order in which all clients lock them, so each quorum needs its own name.
    let east = Quorum::builder().name("east").connect_in_memory(&MemoryCluster::new(3))?;
    let west = Quorum::builder().name("west").connect_in_memory(&MemoryCluster::new(3))?;
    let from = east.red_lock("example:east:customer:7");
    let to = west.red_lock("example:west:customer:7");
    let both = MultiLock::across([from, to]);

    let guard = both.lock().await?;
    // Each region has a lease and a token of its own. Tokens of two quorums are not comparable.
    for lease in guard.leases() {
        println!("{} is locked under token {}", lease.resource(), lease.fencing_token());
    }
    // Stops if either lease is lost.
    guard.while_valid(async { println!("the customer moves") }).await?;
    guard.unlock().await?;

    east.shutdown().await;
    west.shutdown().await;
    Ok(())
}

/// Connects to the nodes that `REDQUORUM_NODES` names. Without the variable: to five nodes in memory.
async fn connect() -> Result<Quorum, Error> {
    match Quorum::builder().nodes_from_env() {
        // For examples only: with this setting, a node that lost all data votes at once, like a new node.
        Ok(builder) => builder.admit_new_nodes().connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
