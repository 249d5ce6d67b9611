//! `run`: a closure under a lease, which the watchdog renews while the closure runs.
//!
//! `run` returns the value of the closure. If the lease is lost, `run` drops the closure at its present `await`,
//! and returns an error.
//!
//! `cargo run --example run_closure`

#![expect(clippy::print_stdout, reason = "the example prints what happens")]
#![expect(clippy::disallowed_methods, reason = "a sleep stands for work")]

use std::time::Duration;

use redquorum::{Error, LockOptions, Quorum};

/// A ttl shorter than the import, so that the lease has to be renewed.
const IMPORT: LockOptions = LockOptions::new().ttl(Duration::from_millis(900));

/// Options with a limit for an import that hangs. The lease ends after this time, in spite of renewals.
const LIMITED: LockOptions = IMPORT.hold_at_most(Duration::from_millis(100));

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let quorum = connect().await?;
    let lock = quorum.red_lock("example:import").options(IMPORT);
    let imported = lock.run(async |guard| {
        tokio::time::sleep(Duration::from_millis(1200)).await;
        guard.fencing_token()
    });
    // `Ok` means that the lease was valid until the closure returned.
    println!("imported under token {}", imported.await?);

    let limited = lock.clone().options(LIMITED);
    let hung = limited.run(async |_guard| {
        tokio::time::sleep(Duration::from_secs(60)).await;
        println!("never reached");
    });
    match hung.await {
        Ok(()) => anyhow::bail!("the closure ended after its lease"),
        // Another client may hold the lock now. The earlier steps of the closure are not undone.
        Err(Error::LeaseLost(lost)) => println!("stopped: {lost}"),
        // The closure has not run, because too few nodes answered: a later call may succeed.
        Err(Error::NoQuorum(shortage)) => anyhow::bail!("try later: {shortage}"),
        Err(error) => return Err(error.into()),
    }

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
