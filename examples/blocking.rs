//! The blocking API: threads without a runtime count under one lock, and one thread leads.
//!
//! Runs on five in-memory nodes, or on real ones:
//!
//! ```text
//! cargo run --features blocking --example blocking
//! REDQUORUM_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3 cargo run --features blocking --example blocking
//! ```

#![expect(clippy::print_stdout, reason = "the example prints what happens")]

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use redquorum::{Error, Quorum, blocking};

fn main() -> anyhow::Result<()> {
    let quorum = connect()?;
    let counter = AtomicU64::new(0);

    thread::scope(|scope| {
        let workers = ["first", "second"].map(|name| {
            let (quorum, counter) = (&quorum, &counter);
            scope.spawn(move || count(name, quorum, counter))
        });
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(counted) => counted.map_err(anyhow::Error::from),
            Err(_) => Err(anyhow::anyhow!("a worker panicked")),
        })
    })?;
    println!("counted to {}", counter.load(Ordering::SeqCst));
    assert_eq!(counter.into_inner(), 6);

    lead(&quorum)?;
    quorum.shutdown();
    Ok(())
}

/// Counts by a read and a write: without the lock, updates would be lost.
fn count(worker: &str, quorum: &blocking::Quorum, counter: &AtomicU64) -> Result<(), Error> {
    let lock = quorum.red_lock("example:counter");
    for _ in 0..3 {
        lock.run(|guard| {
            let next = counter.load(Ordering::SeqCst) + 1;
            // A lost lease does not stop a thread, so the closure checks before it writes.
            guard.ensure()?;
            counter.store(next, Ordering::SeqCst);
            println!("{worker:>6} counts to {next} under token {}", guard.fencing_token());
            Ok::<_, Error>(())
        })??;
    }
    Ok(())
}

fn lead(quorum: &blocking::Quorum) -> Result<(), Error> {
    let election = quorum.election("example:scheduler");
    let leadership = election.campaign("this thread")?;
    if let Some(leader) = election.observe()?.next() {
        println!("{:?} leads in term {}", leader.value_str(), leader.term());
    }
    leadership.resign()?;
    Ok(())
}

/// Connects to the nodes that `REDQUORUM_NODES` names, or to five nodes in memory if the variable names no nodes.
fn connect() -> Result<blocking::Quorum, Error> {
    match Quorum::builder().nodes_from_env() {
        // For examples only: with this setting, a node that lost all data votes at once, like a new node.
        Ok(builder) => builder.admit_new_nodes().connect_blocking(),
        Err(_) => blocking::Quorum::in_memory(5),
    }
}
