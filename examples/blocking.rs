//! Threads without a runtime: two of them count under one lock, and one leads until it has had
//! enough.
//!
//! Runs on five in-memory nodes, or on real ones:
//!
//! ```text
//! cargo run --features blocking --example blocking
//! REDQUORUM_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3 cargo run --features blocking --example blocking
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use redquorum::{
    blocking::Quorum,
    error::{ConnectError, LeaseLost},
};

fn main() -> anyhow::Result<()> {
    let quorum = connect()?;
    let count = AtomicU64::new(0);

    thread::scope(|scope| {
        let workers = ["first", "second"].map(|name| {
            let (quorum, count) = (&quorum, &count);
            scope.spawn(move || work(name, quorum, count))
        });
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or(Err(anyhow::anyhow!("a worker panicked"))))
    })?;
    println!("counted to {}", count.load(Ordering::SeqCst));

    lead(&quorum)?;
    quorum.shutdown();
    Ok(())
}

/// Adds to a count that is read and written apart: without the lock, updates would be lost.
fn work(name: &str, quorum: &Quorum, count: &AtomicU64) -> anyhow::Result<()> {
    let lock = quorum.red_lock("count");
    for _ in 0..3 {
        let done = lock.run(|lease| {
            let next = count.load(Ordering::SeqCst) + 1;
            // Nothing stops this thread when the lease is lost: it has to ask.
            lease.ensure()?;
            count.store(next, Ordering::SeqCst);
            println!("{name:>6} counts to {next} under token {}", lease.fencing_token());
            Ok::<_, LeaseLost>(())
        })?;
        done.value?;
        done.unlock?;
    }
    Ok(())
}

fn lead(quorum: &Quorum) -> anyhow::Result<()> {
    let election = quorum.election("scheduler").value("this thread");
    let leadership = election.campaign()?;
    let mut leaders = election.observe()?;
    if let Some(leader) = leaders.next() {
        println!("{:?} leads in term {}", leader.value_str(), leader.term());
    }
    leadership.resign()?;
    Ok(())
}

fn connect() -> Result<Quorum, ConnectError> {
    match redquorum::Quorum::builder().nodes_from_env() {
        Ok(builder) => Quorum::connect(builder.admit_new_nodes()),
        Err(_) => Quorum::in_memory(5),
    }
}
