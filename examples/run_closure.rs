//! `run`: a closure under a lock. It is renewed while it runs, stopped if the lease is lost, and
//! its value comes back with the outcome of the unlock beside it.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]
#![expect(
    clippy::disallowed_methods,
    reason = "sleeping stands for work; only the library must not sleep so"
)]

use std::time::Duration;

use redquorum::{
    LockOptions, Quorum,
    error::{ConnectError, RunError},
};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let quorum = connect().await?;
    let lock = quorum.red_lock("example:import").ttl(Duration::from_millis(900));

    // Longer than the ttl: the lease is renewed meanwhile.
    let done = lock
        .run(async |lease| {
            tokio::time::sleep(Duration::from_millis(1200)).await;
            lease.ensure().map(|()| lease.fencing_token())
        })
        .await?;
    println!("imported under token {}", done.value?);
    match done.unlock {
        Ok(unlocked) => println!("unlocked; {} nodes have confirmed so far", unlocked.confirmed.len()),
        Err(problem) => println!("imported, but the unlock is not confirmed: {problem}"),
    }

    // A lease that ends before the work does: the closure is dropped at its await and goes no
    // further.
    let short = lock.clone().options(LockOptions::new().max_hold(Duration::from_millis(100)));
    let outcome = short
        .run(async |_lease| {
            tokio::time::sleep(Duration::from_secs(60)).await;
            println!("never reached");
        })
        .await;
    match outcome {
        Err(RunError::LeaseLost(lost)) => println!("stopped: {lost}"),
        Err(error) => anyhow::bail!("expected a lost lease, found another error: {error}"),
        Ok(_) => anyhow::bail!("expected a lost lease, found that the closure has ended"),
    }

    quorum.shutdown().await;
    Ok(())
}

async fn connect() -> Result<Quorum, ConnectError> {
    match Quorum::builder().nodes_from_env() {
        Ok(builder) => builder.admit_new_nodes().connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
