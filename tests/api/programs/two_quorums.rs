//! A customer record that moves between two regions, each with a quorum, under the locks of both.
//!
//! `run` receives a client of each quorum. No other program uses `MultiLock::across`.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use redquorum::{
    Error, Fence, Lease, MemoryCluster, MultiLock, Quorum, RedLock, Resource, admin, blocking,
    error::{LossReason, StaleToken},
};

const EAST: &str = "east:customer:7";
const WEST: &str = "west:customer:7";

/// The longest wait for a lock. This program holds each lock for a shorter time.
const SOON: Duration = Duration::from_secs(10);

/// Moves the record to the other region.
async fn relocate(locks: [RedLock; 2], regions: &Regions) -> anyhow::Result<()> {
    let guard = MultiLock::across(locks).lock().await?;
    guard.while_valid(regions.relocate(guard.leases())).await??; // stops if either lease is lost
    guard.unlock().await?;
    Ok(())
}

#[tokio::main]
pub(crate) async fn main() -> anyhow::Result<()> {
    // Clients lock quorums in the order of their names.
    let quorum = |name| Quorum::builder().name(name).connect_in_memory(&MemoryCluster::new(3));
    run([quorum("east")?, quorum("west")?]).await?;
    tokio::task::spawn_blocking(run_blocking).await??;
    Ok(())
}

/// Moves the record several times at once, and then loses one of two leases.
pub(crate) async fn run([east, west]: [Quorum; 2]) -> anyhow::Result<()> {
    let (in_east, in_west) = (east.red_lock(EAST), west.red_lock(WEST));
    let locks = || [in_east.clone(), in_west.clone()];
    let reversed = || [in_west.clone(), in_east.clone()];
    let regions = Regions::default();
    tokio::try_join!(
        relocate(locks(), &regions),
        relocate(reversed(), &regions),
        relocate(locks(), &regions),
        relocate(reversed(), &regions),
    )?;
    assert_eq!(regions.moves(), 4, "two moves overlapped");

    // A refused call holds no lock.
    let both = MultiLock::across(locks());
    let other = in_west.lock().await?;
    assert!(both.try_lock().await?.is_none());
    assert!(both.try_lock_for(Duration::from_secs(1)).await?.is_none());
    in_east.try_lock_for(SOON).await?.expect("a refused call holds a lock").unlock().await?;
    other.unlock().await?;

    let leases = both.run(async |guard| {
        guard.renew().await?;
        guard.ensure()?;
        Ok::<_, Error>(guard.leases().count())
    });
    assert_eq!(leases.await??, 2);

    // The loss of one lease stops the work under both.
    let guard = both.lock().await?;
    assert!(guard.is_valid());
    admin::force_unlock(&west, WEST).await?;
    let outcome = guard.while_valid(std::future::pending::<()>()).await;
    assert!(matches!(outcome, Err(Error::LeaseLost(_))), "{outcome:?}");
    assert!(!guard.is_valid());
    let loss = guard.lost().await;
    assert_eq!((loss.resource.as_bytes(), loss.reason), (WEST.as_bytes(), LossReason::Revoked));
    assert!(guard.unlock().await.is_err());
    in_east.try_lock_for(SOON).await?.expect("the remaining lease was not unlocked").unlock().await?;
    Ok(())
}

/// Locks two quorums from a thread.
fn run_blocking() -> Result<(), Error> {
    // Quorums without names must differ in another setting.
    let (east, west) = (blocking::Quorum::in_memory(3)?, blocking::Quorum::in_memory(5)?);
    let both = blocking::MultiLock::across([east.red_lock(EAST), west.red_lock(WEST)]);
    let guard = both.lock()?;
    assert!(both.try_lock()?.is_none());
    guard.renew()?;
    guard.ensure()?;
    assert_eq!(guard.leases().count(), 2);
    guard.unlock()?;
    assert!(both.try_lock_for(SOON)?.is_some());
    Ok(())
}

/// Checks the promises of `statements.rs` for these types and futures.
pub(crate) fn statements(quorum: &Quorum) {
    fn require_handle<T: Send + Sync + Unpin + 'static>(_: &T) {}
    fn require_handle_from<T: Send + Sync + Unpin + 'static>(
        _: impl Future<Output = Result<T, Error>> + Send,
    ) {
    }
    let both = MultiLock::across([quorum.red_lock("a")]);
    require_handle(&both);
    require_handle_from(both.lock());
    require_handle_from(both.try_lock());
    require_handle_from(both.try_lock_for(Duration::ZERO));
    require_handle_from(both.run(async |guard| guard.while_valid(guard.renew()).await));
}

/// A stand-in for the databases of both regions: the fence of each resource, and the number of moves.
#[derive(Clone, Default)]
struct Regions(Arc<Mutex<(BTreeMap<Resource, Fence>, u32)>>);

impl Regions {
    fn moves(&self) -> u32 {
        self.0.lock().unwrap().1
    }

    /// Counts a move by a read and a write, between which another task may run.
    async fn relocate(&self, leases: impl Iterator<Item = &Lease>) -> Result<(), StaleToken> {
        let before = self.moves();
        tokio::time::sleep(Duration::from_millis(5)).await;
        let (fences, moves) = &mut *self.0.lock().unwrap();
        for lease in leases {
            fences.entry(lease.resource().clone()).or_default().write(lease.fencing_token())?;
        }
        *moves = before + 1;
        Ok(())
    }
}
