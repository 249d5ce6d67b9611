//! Two workers take turns under one lock, and each lease has a larger fencing token.
//!
//! Runs on five in-memory nodes, or on real ones:
//!
//! ```text
//! cargo run --example quickstart
//! REDQUORUM_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3 cargo run --example quickstart
//! ```

#![expect(clippy::print_stdout, reason = "the example prints what happens")]
#![expect(clippy::disallowed_methods, reason = "a sleep stands for work")]

use std::time::Duration;

use redquorum::{Error, FencingToken, Quorum};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let quorum = connect().await?;
    tokio::try_join!(worker("first", &quorum), worker("second", &quorum))?;
    quorum.shutdown().await;
    Ok(())
}

async fn worker(name: &str, quorum: &Quorum) -> Result<(), Error> {
    let lock = quorum.red_lock("invoice:42");
    for _ in 0..3 {
        let guard = lock.lock().await?;
        // `while_valid` stops the work when the lease is lost, because another client may hold the lock then.
        guard.while_valid(charge(name, guard.fencing_token())).await?;
        guard.unlock().await?;
    }
    Ok(())
}

/// Stands for a write to a database. The database would refuse a token that is smaller than its largest token.
async fn charge(worker: &str, token: FencingToken) {
    println!("{worker:>6} charges under token {token}");
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// Connects to the nodes that `REDQUORUM_NODES` names. Without the variable: to five nodes in memory.
async fn connect() -> Result<Quorum, Error> {
    match Quorum::builder().nodes_from_env() {
        // For examples only: with this setting, a node that lost all data votes at once, like a new node.
        Ok(builder) => builder.admit_new_nodes().connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
