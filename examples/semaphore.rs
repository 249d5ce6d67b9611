//! Eight jobs, three of which run at a time; and a store that takes writes under a permit, one row
//! for each slot, and refuses a job that comes back after the end of its permit.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]
#![expect(clippy::disallowed_methods, reason = "a job that takes a while")]

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use futures::future::try_join_all;
use redquorum::{Fence, Quorum, Semaphore, SlotToken, error::ConnectError};

const PERMITS: u32 = 3;

/// A store that keeps a fence for each slot.
#[derive(Default)]
struct Store {
    fences: [Fence; PERMITS as usize],
}

impl Store {
    fn write(&mut self, SlotToken { slot, token, .. }: SlotToken) -> anyhow::Result<()> {
        let fence = self.fences.get_mut(slot).ok_or_else(|| anyhow::anyhow!("there is no slot {slot}"))?;
        Ok(fence.write(token)?)
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let quorum = connect().await?;
    let gpus = quorum.semaphore("example:gpu", PERMITS);
    let (running, most) = (AtomicU32::new(0), AtomicU32::new(0));
    let jobs = (0..8).map(|job| work(&gpus, job, &running, &most));
    try_join_all(jobs).await?;
    println!("at most {} of them ran at a time", most.load(Ordering::SeqCst));
    assert!(most.into_inner() <= PERMITS);

    let mut store = Store::default();
    let brief =
        gpus.clone().options(redquorum::LockOptions::new().ttl(Duration::from_millis(300)).without_renewal());
    let late = brief.acquire().await?;
    late.lost().await;
    let mut others = Vec::new();
    let next = loop {
        let permit = gpus.acquire().await?;
        store.write(permit.slot_token())?;
        if permit.slot() == late.slot() {
            break permit;
        }
        others.push(permit);
    };
    let refused = store.write(late.slot_token()).expect_err("its slot is another's by now");
    println!("the late job is refused: {refused}");
    next.unlock().await?;
    quorum.shutdown().await;
    Ok(())
}

async fn work(gpus: &Semaphore, job: u32, running: &AtomicU32, most: &AtomicU32) -> anyhow::Result<()> {
    let permit = gpus.acquire().await?;
    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    println!("job {job} has slot {}", permit.slot());
    tokio::time::sleep(Duration::from_millis(20)).await;
    permit.ensure()?;
    running.fetch_sub(1, Ordering::SeqCst);
    permit.unlock().await?;
    Ok(())
}

async fn connect() -> Result<Quorum, ConnectError> {
    match Quorum::builder().nodes_from_env() {
        Ok(builder) => builder.admit_new_nodes().connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
