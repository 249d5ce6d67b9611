//! What a lock cannot do and a token can: a holder that was paused wakes up, and the store refuses
//! its write.
//!
//! The store registers the token at the first access of a lease, a *read* included. The second
//! holder below has only read when the first one wakes up, and that is enough.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use redquorum::{
    Fence, FencingToken, Quorum,
    error::{ConnectError, Fenced},
};

/// A store that remembers the largest token it has seen. In SQL it is a `WHERE fence <= :token`.
#[derive(Default)]
struct Store {
    balance: i64,
    fence: Fence,
}

impl Store {
    /// For reading and for writing: both are what a writer does.
    fn access(&mut self, token: FencingToken) -> Result<&mut i64, Fenced> {
        self.fence.write(token)?;
        Ok(&mut self.balance)
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let quorum = connect().await?;
    let lock = quorum.red_lock("example:balance");
    let mut store = Store { balance: 100, ..Store::default() };

    let paused = lock.clone().ttl(Duration::from_millis(300)).without_renewal().lock().await?;
    let old = *store.access(paused.fencing_token())?;
    // The first holder stops between its read and its write: a long pause, a suspended machine. Its
    // lease ends.
    let next = lock.lock().await?;
    let new = *store.access(next.fencing_token())?;
    println!("{} has read and is paused; {} has read", paused.fencing_token(), next.fencing_token());

    let refused = store.access(paused.fencing_token()).map(|balance| *balance = old + 50).unwrap_err();
    println!("the paused holder wakes up and writes: refused, {refused}");
    *store.access(next.fencing_token())? = new + 10;
    assert_eq!((store.balance, paused.is_valid()), (110, false));
    println!("the other one writes: balance {}", store.balance);

    next.unlock().await?;
    quorum.shutdown().await;
    Ok(())
}

async fn connect() -> Result<Quorum, ConnectError> {
    match Quorum::builder().nodes_from_env() {
        Ok(builder) => builder.admit_new_nodes().connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
