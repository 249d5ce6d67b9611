//! Two tasks contend for one resource and take turns: each grant has a larger fencing token than
//! the one before.
//!
//! Runs on five in-memory nodes, or on real ones:
//!
//! ```text
//! cargo run --example quickstart
//! REDQUORUM_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3 cargo run --example quickstart
//! ```

#![expect(clippy::disallowed_methods, reason = "the work under the lock is made up")]
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use redquorum::{Quorum, error::ConnectError};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let quorum = connect().await?;

    let (first, second) = tokio::join!(worker("first", &quorum), worker("second", &quorum));
    first?;
    second?;

    quorum.shutdown().await;
    Ok(())
}

async fn worker(name: &str, quorum: &Quorum) -> anyhow::Result<()> {
    let lock = quorum.red_lock("invoice:42");
    for _ in 0..3 {
        let guard = lock.lock().await?;
        // Whatever the lock protects should refuse a token smaller than the largest it has seen.
        println!("{name:>6} holds {:?} with token {}", guard.votes(), guard.fencing_token());
        // The work under the lock, for which the other task waits.
        tokio::time::sleep(Duration::from_millis(20)).await;
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
