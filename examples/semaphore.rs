//! A semaphore: of eight jobs, at most three run at a time.
//!
//! A permit is a lease on a slot. The store keeps a fence for each slot, and refuses a job that
//! writes after its permit has ended.
//!
//! `cargo run --example semaphore`

#![expect(clippy::print_stdout, reason = "the example prints what happens")]
#![expect(clippy::disallowed_methods, reason = "a sleep stands for work")]

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use futures::future::try_join_all;
use redquorum::{Error, Fence, LockOptions, Permit, Quorum, Semaphore, error::StaleToken};

const PERMITS: u32 = 3;

/// The options of a job that is paused. During the pause, no watchdog renews the permit.
const PAUSED: LockOptions = LockOptions::new().ttl(Duration::from_millis(300)).without_renewal();

/// A store with a fence for each slot, because tokens of different slots are not comparable.
#[derive(Default)]
struct Store {
    fences: [Fence; PERMITS as usize],
}

impl Store {
    fn write(&mut self, permit: &Permit) -> Result<(), StaleToken> {
        self.fences[permit.slot()].write(permit.fencing_token())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let quorum = connect().await?;
    let gpus = quorum.semaphore("example:gpu", PERMITS);
    let (running, largest) = (AtomicU32::new(0), AtomicU32::new(0));
    try_join_all((0..8).map(|job| work(&gpus, job, &running, &largest))).await?;
    println!("at most {} jobs ran at a time", largest.load(Ordering::SeqCst));
    assert!(largest.into_inner() <= PERMITS);

    let mut store = Store::default();
    let paused = gpus.clone().options(PAUSED).acquire().await?;
    // Waits until the permit of the paused job has ended, because the call needs all slots.
    let permits = gpus.acquire_many(PERMITS).await?;
    permits.iter().try_for_each(|permit| store.write(permit))?;
    let refused = store.write(&paused).expect_err("the slot has a later permit");
    println!("the paused job wakes up, and its write is refused: {refused}");
    for permit in permits {
        permit.release().await?;
    }
    quorum.shutdown().await;
    Ok(())
}

async fn work(gpus: &Semaphore, job: u32, running: &AtomicU32, largest: &AtomicU32) -> Result<(), Error> {
    gpus.run(async |permit| {
        largest.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        println!("job {job} has slot {}", permit.slot());
        tokio::time::sleep(Duration::from_millis(20)).await;
        running.fetch_sub(1, Ordering::SeqCst);
    })
    .await
}

/// Connects to the nodes that `REDQUORUM_NODES` names. Without the variable: to five nodes in memory.
async fn connect() -> Result<Quorum, Error> {
    match Quorum::builder().nodes_from_env() {
        // For examples only: with this setting, a node that lost all data votes at once, like a new node.
        Ok(builder) => builder.admit_new_nodes().connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
