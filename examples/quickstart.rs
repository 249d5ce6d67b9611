//! Two tasks contend for one resource: each grant has a larger fencing token than the one before.
//!
//! Runs on five in-memory nodes, or on real ones:
//!
//! ```text
//! cargo run --example quickstart
//! REDQUORUM_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3 cargo run --example quickstart
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use redquorum::{ConnectError, Quorum};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let quorum = connect().await?;

    let (first, second) = tokio::join!(worker("first", &quorum), worker("second", &quorum));
    first?;
    second?;

    quorum.shutdown().await;
    Ok(())
}

async fn worker(name: &str, quorum: &Quorum) -> Result<(), Box<dyn std::error::Error>> {
    let lock = quorum.red_lock("invoice:42");
    for _ in 0..3 {
        let guard = lock.lock().await?;
        // Whatever the lock protects should refuse a token smaller than the largest it has seen.
        println!("{name:>6} holds {:?} with token {}", guard.votes(), guard.fencing_token());
        guard.unlock().await?;
    }
    Ok(())
}

async fn connect() -> Result<Quorum, ConnectError> {
    match std::env::var("REDQUORUM_NODES") {
        Ok(nodes) => Quorum::builder().nodes(nodes.split(',')).admit_new_nodes().connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
