//! Re-entrancy by an explicit handle, the owner. Lock requests find the lease of their owner here.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
};

use uuid::Uuid;

use crate::{
    acquire::shared_outage::OwnerOutage,
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

/// The handle by which a program locks a resource again while the program holds the resource.
///
/// Re-entrancy is explicit: a thread or a task is never an owner by itself. If a lock is
/// [`owned_by`](crate::RedLock::owned_by) an owner, or is called inside of the [`scope`](Self::scope) of the owner,
/// the call re-enters the lease that the owner has on the resource. If the owner has no lease on the resource, the call
/// waits like a call without an owner. Semaphores, [`AnyOf`](crate::AnyOf) and elections are never re-entrant.
///
/// Each hold has a guard of its own with the *same* fencing token. Guards may be dropped in any order, and the drop of
/// the last guard unlocks. Ttl, renewal and `hold_at_most` are the settings of the first hold, so a re-entry does not
/// extend the lease. If the lease is lost, further calls of the owner on the resource return [`Error::LeaseLost`] until
/// the drop of all guards of the lease.
///
/// An owner belongs to one process, and a clone is the same owner. Two tasks with one owner lock one after the other,
/// and then hold the resource *together*: an owner does not exclude its own tasks.
///
/// An owner re-enters only calls for exactly the resource or the group of its lease, by the same client. A group of
/// which the owner holds only a part waits for that part, like the call of another client. A re-entry makes no lock
/// attempt, but one renewal, which a quorum has to confirm. A re-entry of a lease that only reads sends no request.
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

/// The client and the resources of an entry. The resources are in their exclusive form, so that the read lease and the
/// write lease of an owner have the same entry.
type Key = (Uuid, Resources);

/// The entry of an owner for some resources, with the lease, if any.
#[derive(Debug, Default)]
pub(super) struct OwnLease {
    /// The entrance of the tasks of the owner that lock, re-enter or downgrade.
    pub(super) entrance: Entrance,
    /// The outage by the attempts of the task that has entered, for the tasks that wait to enter.
    pub(super) outage: OwnerOutage,
    lease: Mutex<Weak<ActiveLease>>,
}

impl Owner {
    /// Returns an owner without a hold.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs a future in the scope of this owner: every lock that the future calls, and that has no other owner, is
    /// [owned by](crate::RedLock::owned_by) this owner.
    ///
    /// Tasks that the future spawns are not in the scope.
    ///
    /// # Cancel safety
    ///
    /// The same as for the future.
    pub async fn scope<F: Future>(&self, future: F) -> F::Output {
        CURRENT.scope(self.clone(), future).await
    }

    /// Runs a closure in the scope of this owner: every lock of the [blocking API](crate::blocking) that the closure
    /// calls on this thread, and that has no other owner, is owned by this owner.
    #[cfg(feature = "blocking")]
    pub fn sync_scope<T>(&self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self.clone(), work)
    }

    /// Whether both are handles of one owner.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.leases, &other.leases)
    }

    /// Returns the owner of the innermost scope of this task; `None` outside of all scopes.
    pub(super) fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// Returns the entry of this owner for these resources of a client. Reads and writes of the resources have the same
    /// entry. Also removes unused entries.
    pub(super) fn lease_on(&self, context: &ClientContext, resources: &Resources) -> Arc<OwnLease> {
        let mut leases = lock(&self.leases);
        // An entry is in use as long as a task or a guard has the entry, or the lease exists.
        leases.retain(|_, own| Arc::strong_count(own) > 1 || lock(&own.lease).strong_count() > 0);
        let key = (context.lease_ids.client(), resources.clone().exclusive());
        Arc::clone(leases.entry(key).or_default())
    }
}

impl OwnLease {
    /// Adds a hold to the lease, and returns the lease. The caller has to give the hold back. Returns `None` if there
    /// is no lease, or if all guards of the lease are given back.
    ///
    /// # Errors
    ///
    /// * [`Error::LeaseLost`] if the lease is lost, and one of its guards lives.
    /// * [`ConfigError::WouldDeadlock`] if the lease reads a resource that the call writes.
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
