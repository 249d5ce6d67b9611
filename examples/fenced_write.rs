//! Fencing tokens: the store refuses the late write of a holder that was paused past the end of its lease. No
//! lock can prevent this write.
//!
//! The store records the token at each access under a lease, including a *read*. In this example, the second
//! holder has only read when the first holder continues. Nevertheless, the store refuses the write of the first
//! holder.
//!
//! `cargo run --example fenced_write`

#![expect(clippy::print_stdout, reason = "the example prints what happens")]

use std::time::Duration;

use redquorum::{Error, Fence, FencingToken, LockOptions, Quorum, error::StaleToken};

/// The options of a holder that is paused. During the pause, no watchdog renews the lease.
const PAUSED: LockOptions = LockOptions::new().ttl(Duration::from_millis(300)).without_renewal();

/// A store that records the largest token. In SQL, the rule is `WHERE fence <= :token`.
#[derive(Default)]
struct Store {
    balance: i64,
    fence: Fence,
}

impl Store {
    /// Checks the token, and returns the balance for a read or a write.
    fn access(&mut self, token: FencingToken) -> Result<&mut i64, StaleToken> {
        self.fence.write(token)?;
        Ok(&mut self.balance)
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let quorum = connect().await?;
    let lock = quorum.red_lock("example:balance");
    let mut store = Store { balance: 100, ..Store::default() };

    let paused = lock.clone().options(PAUSED).lock().await?;
    let old = *store.access(paused.fencing_token())?;
    // The first holder stops between the read and the write, as in a long garbage collection.
    // `lock` waits until the lease has ended.
    let next = lock.lock().await?;
    let new = *store.access(next.fencing_token())?;
    println!("{} has read and is paused; {} has read", paused.fencing_token(), next.fencing_token());

    let refused = store.access(paused.fencing_token()).map(|balance| *balance = old + 50).unwrap_err();
    println!("the paused holder wakes up, and its write is refused: {refused}");
    *store.access(next.fencing_token())? = new + 10;
    assert_eq!((store.balance, paused.is_valid()), (110, false));
    println!("the second holder writes: balance {}", store.balance);

    next.unlock().await?;
    quorum.shutdown().await;
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
