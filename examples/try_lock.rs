//! Not waiting, or not for long: "somebody else has it" is an answer, "no quorum" is an error.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use redquorum::{
    Quorum,
    error::{ConnectError, LockError},
};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let quorum = connect().await?;
    let report = quorum.red_lock("example:nightly-report");

    let Some(holder) = report.try_lock().await? else {
        println!("another process makes the report; nothing to do here");
        return Ok(());
    };
    println!("first caller: has it");

    // One attempt. That another client holds the resource is no error.
    let second = report.try_lock().await?;
    println!("second caller: {}", if second.is_some() { "has it, too" } else { "told that it is held" });
    assert!(second.is_none());

    // Waiting for a while. Here, the end of the time is an error, and says what every node answered
    // last.
    match report.try_lock_for(Duration::from_millis(50)).await {
        Err(LockError::TimedOut { waited, votes, .. }) => {
            println!(
                "third caller: waited {waited:?}, {} of {} nodes granted",
                votes.granted(),
                votes.nodes()
            );
        }
        Err(error) => return Err(error.into()), // no quorum, for instance
        Ok(_) => unreachable!("the first caller still holds it"),
    }

    holder.unlock().await?;
    let guard = report.try_lock_for(Duration::from_secs(5)).await?;
    println!("fourth caller: has it");
    guard.unlock().await?;

    quorum.shutdown().await;
    Ok(())
}

async fn connect() -> Result<Quorum, ConnectError> {
    match Quorum::builder().nodes_from_env() {
        Ok(builder) => builder.admit_new_nodes().connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
