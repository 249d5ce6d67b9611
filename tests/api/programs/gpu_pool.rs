//! A pool of four GPUs, and tasks that each need one or two of them.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::try_join_all;
use redquorum::{Error, Fence, LockOptions, Permit, Quorum, Semaphore, error::StaleToken};

const GPUS: usize = 4;

const JOB: LockOptions = LockOptions::new().hold_at_most(Duration::from_secs(3600));

/// Trains a model on any GPU, and returns the slot.
async fn train(gpus: &Semaphore, devices: &Devices) -> Result<Result<usize, StaleToken>, Error> {
    gpus.run(async |permit| devices.compute(permit).await).await
}

/// Trains a model on two GPUs at once. Returns `None` if two GPUs do not become free within `wait`.
async fn train_on_two(
    gpus: &Semaphore,
    devices: &Devices,
    wait: Duration,
) -> anyhow::Result<Option<[usize; 2]>> {
    let Some(permits) = gpus.try_acquire_many_for(2, wait).await? else {
        return Ok(None);
    };
    let [one, other]: [Permit; 2] = permits.try_into().expect("two permits");
    let slots = tokio::try_join!(devices.compute(&one), devices.compute(&other))?;
    one.release().await?;
    other.release().await?;
    Ok(Some(slots.into()))
}

#[tokio::main]
pub(crate) async fn main() -> anyhow::Result<()> {
    run(super::in_memory()?).await
}

/// Trains more models than there are GPUs, from two processes.
pub(crate) async fn run(clients: [Quorum; 2]) -> anyhow::Result<()> {
    let devices = Devices::default();
    let pools = clients.map(|quorum| quorum.semaphore("gpu", GPUS as u32).options(JOB));
    let tasks = (0..3 * GPUS).map(|task| {
        let (gpus, devices) = (pools[task % pools.len()].clone(), devices.clone());
        tokio::spawn(async move { train(&gpus, &devices).await })
    });
    for slot in try_join_all(tasks).await? {
        assert!(slot?? < GPUS);
    }

    let [gpus, _] = &pools;
    let slots = train_on_two(gpus, &devices, Duration::from_secs(10)).await?;
    assert!(slots.is_some_and(|[one, other]| one != other), "{slots:?}");

    let three = pools[1].acquire_many(3).await?;
    assert_eq!(gpus.available_permits().await?, 1);
    assert_eq!(train_on_two(gpus, &devices, Duration::from_secs(1)).await?, None);
    for permit in three {
        permit.release().await?;
    }
    assert_eq!(gpus.available_permits().await?, GPUS);
    Ok(())
}

/// A stand-in for the GPUs, by slot.
#[derive(Clone, Default)]
struct Devices(Arc<[Device; GPUS]>);

/// A GPU with a fence of its own, because tokens of different slots are not comparable.
#[derive(Default)]
struct Device {
    fence: Mutex<Fence>,
    is_busy: AtomicBool,
}

impl Devices {
    /// Computes on the GPU of this permit, and returns the slot.
    async fn compute(&self, permit: &Permit) -> Result<usize, StaleToken> {
        let device = &self.0[permit.slot()];
        assert!(!device.is_busy.swap(true, Ordering::Relaxed), "two tasks use GPU {}", permit.slot());
        device.fence.lock().unwrap().write(permit.fencing_token())?;
        tokio::time::sleep(Duration::from_millis(5)).await;
        device.is_busy.store(false, Ordering::Relaxed);
        Ok(permit.slot())
    }
}
