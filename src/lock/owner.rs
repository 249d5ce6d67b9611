//! Re-entrancy, by a handle that is passed on explicitly.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
};

use uuid::Uuid;

use crate::{
    acquire::shared_outage::FollowedOutage,
    client::context::ClientContext,
    clock::Instant,
    error::{ConfigError, Error},
    lease::active_lease::ActiveLease,
    lock::entrance::Entrance,
    mutex::lock,
    node::Resources,
};

tokio::task_local! {
    static CURRENT: Owner;
}

/// A handle by which a program locks again what it holds.
///
/// Re-entrancy is explicit: a lock taken [`owned_by`](crate::RedLock::owned_by) an owner, or inside of its
/// [`scope`](Self::scope), re-enters the lease that the owner has on the resource. If the owner has no lease, the lock
/// waits like any other. A thread or a task is never an owner by itself.
///
/// Each hold has a guard of its own with the *same* fencing token. Guards may be dropped in any order, and the last
/// guard unlocks. Ttl, renewal and `hold_at_most` are those of the first hold: a re-entry does not extend the lease.
/// Once the lease is lost, further locks of the owner on the resource return [`Error::LeaseLost`] until all guards of
/// the lease are gone.
///
/// An owner lives in one process; a clone is the same owner. Two tasks that use one owner take turns in locking, and
/// then hold the resource *together*: an owner permits re-entry, and does not keep its own tasks apart.
///
/// An owner re-enters exactly what it holds, one resource or one group. A group of which the owner holds only a part is
/// another request, and waits for that part like the request of another client. A re-entry is one renewal by a quorum,
/// tried once; a re-entry of a lease that only reads sends nothing.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use redquorum::Owner;
/// # let quorum = redquorum::Quorum::in_memory(3)?;
/// let owner = Owner::new();
/// let outer = quorum.red_lock("order:7").owned_by(&owner).lock().await?;
/// let inner = owner.scope(async { quorum.red_lock("order:7").lock().await }).await?; // re-enters
/// assert_eq!((inner.holds(), inner.fencing_token()), (2, outer.fencing_token()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Owner {
    leases: Arc<Mutex<HashMap<Key, Arc<OwnLease>>>>,
}

/// The key of a lease: its client and its resources, however they are locked.
type Key = (Uuid, Resources);

/// The lease that an owner has on some resources, if it has one.
#[derive(Debug, Default)]
pub(super) struct OwnLease {
    /// Admits the task of the owner that locks, re-enters or downgrades.
    pub(super) entrance: Entrance,
    /// The outage that the task with the entrance meets, for the tasks that wait to enter.
    pub(super) outage: FollowedOutage,
    lease: Mutex<Weak<ActiveLease>>,
}

impl Owner {
    /// An owner that holds nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs a future in which every lock is this owner's, unless it names another one.
    ///
    /// Tasks that the future spawns are not in the scope.
    ///
    /// # Cancel safety
    ///
    /// As that of the future.
    pub async fn scope<F: Future>(&self, future: F) -> F::Output {
        CURRENT.scope(self.clone(), future).await
    }

    /// Runs a closure in which every lock that this thread takes by the [blocking
    /// API](crate::blocking) is this owner's, unless it names another one.
    #[cfg(feature = "blocking")]
    pub fn sync_scope<T>(&self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self.clone(), work)
    }

    /// Whether both are handles of one owner.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.leases, &other.leases)
    }

    /// The owner whose scope this task is in.
    pub(super) fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// Returns the lease of this owner on some resources of a client, however they are locked.
    pub(super) fn lease_on(&self, context: &ClientContext, resources: &Resources) -> Arc<OwnLease> {
        let mut leases = lock(&self.leases);
        // An entry without a lease and without a task is not needed any more.
        leases.retain(|_, own| Arc::strong_count(own) > 1 || lock(&own.lease).strong_count() > 0);
        let key = (context.owners.client(), resources.clone().exclusive());
        Arc::clone(leases.entry(key).or_default())
    }
}

impl OwnLease {
    /// Adds a hold to the lease: `None` if there is no lease. The caller has to give the hold back.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`] if the lease is over and a guard of it is left, [`ConfigError::WouldDeadlock`] if the lease
    /// reads what is to be written.
    pub(super) fn join(&self, wanted: &Resources, now: Instant) -> Result<Option<Arc<ActiveLease>>, Error> {
        let lease = lock(&self.lease).upgrade();
        let Some(lease) = lease.filter(|lease| lease.holds() > 0) else { return Ok(None) };
        lease.ensure(now)?;
        if !lease.terms.resources.cover(wanted) {
            return Err(ConfigError::WouldDeadlock { resource: lease.terms.resource.clone() }.into());
        }
        Ok(lease.enter().then_some(lease))
    }

    /// Records the lease of a first hold, for later calls to re-enter.
    pub(super) fn record(&self, lease: &Arc<ActiveLease>) {
        *lock(&self.lease) = Arc::downgrade(lease);
    }
}
