//! `try_lock` and `try_lock_for` return `Ok(None)` for a held lock, and an error without a quorum.
//!
//! `cargo run --example try_lock`

#![expect(clippy::print_stdout, reason = "the example prints what happens")]

use std::time::Duration;

use redquorum::{Error, Quorum};

const REPORT: &str = "example:nightly-report";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let quorum = connect().await?;

    // The guard needs a name. `try_lock().await?.is_some()` would drop the guard, and unlock at once.
    let Some(guard) = quorum.red_lock(REPORT).try_lock().await? else {
        println!("first call: the lock is held");
        return Ok(());
    };
    println!("first call: locked under token {}", guard.fencing_token());

    assert!(!write_report(&quorum, "second call", Duration::from_millis(50)).await?);
    guard.unlock().await?;
    assert!(write_report(&quorum, "third call", Duration::from_secs(5)).await?);

    quorum.shutdown().await;
    Ok(())
}

/// Writes the report if the lock is free within `wait`. Returns whether the report was written.
async fn write_report(quorum: &Quorum, caller: &str, wait: Duration) -> Result<bool, Error> {
    match quorum.red_lock(REPORT).try_lock_for(wait).await {
        Ok(Some(guard)) => {
            println!("{caller}: locked under token {}", guard.fencing_token());
            guard.unlock().await?;
            Ok(true)
        }
        Ok(None) => {
            match quorum.inspect(REPORT).await?.holder() {
                Some(holder) => println!("{caller}: held by {holder}"),
                None => println!("{caller}: the lock was held, and is free now"),
            }
            Ok(false)
        }
        // Too few nodes answered: a later call may succeed.
        Err(Error::NoQuorum(shortage)) => {
            println!("{caller}: try later: {shortage}");
            Ok(false)
        }
        // The settings are wrong, or the client was shut down: a later call fails, too.
        Err(error) => Err(error),
    }
}

/// Connects to the nodes that `REDQUORUM_NODES` names. Without the variable: to five nodes in memory.
async fn connect() -> Result<Quorum, Error> {
    match Quorum::builder().nodes_from_env() {
        // For examples only: with this setting, a node that lost all data votes at once, like a new node.
        Ok(builder) => builder.admit_new_nodes().connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
