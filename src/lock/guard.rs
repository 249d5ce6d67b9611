//! The guard of a lease.

use std::{fmt, ops::Deref, sync::Arc};

use crate::{
    error::{LockError, RenewError, UnlockError},
    lease::{
        Unlocked,
        active_lease::{ActiveLease, UnlockOutcome},
        renewal::{Purpose, renew_now},
        unlock,
    },
    lock::{Lease, client::Client, downgrade::downgrade, owner::OwnLease},
    observer::LeaseEnd,
};

/// A lease on a resource, for as long as it is valid and this guard lives. What it shows of the
/// lease are the methods of [`Lease`].
///
/// Dropping it unlocks without waiting: the unlock is handed to the client's connections on the
/// spot, and renewal stops at once. Where that cannot work (the process is killed, the runtime that
/// the quorum was built on is gone, the guard is leaked) the ttl ends the lease.
/// [`unlock`](Self::unlock) does the same and tells how it went.
///
/// A guard is a claim about time, not a wall: a process that is paused between looking at it and
/// acting may act after its end. Give its [`fencing_token`](Lease::fencing_token) to whatever the
/// lock protects, and have it refuse late ones, as [`Fence`](crate::Fence) does.
#[must_use = "dropping a guard unlocks at once: bind it to a name, `_` is none"]
pub struct LockGuard {
    /// What it shows of the lease; the guard is what keeps it.
    lease: Lease,
    /// Whether its hold has been given back by [`unlock`](Self::unlock), or is another guard's.
    is_given_back: bool,
    /// Where its owner finds it.
    own_lease: Option<Arc<OwnLease>>,
}

/// What [`LockGuard::verify`] has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verification {
    /// No later lease on the resource had been granted when the verification began; of a reader, no
    /// later one of a writer. No clock is in the argument; the nodes have to remember their counters.
    Proven,
    /// The lease was renewed, but too few nodes can exclude a later lease, for instance because the
    /// failed votes of contenders have raised their counters. This is not a loss.
    Unproven,
}

impl LockGuard {
    pub(crate) fn new(client: Arc<Client>, active: Arc<ActiveLease>) -> Self {
        Self { lease: Lease { client, active }, is_given_back: false, own_lease: None }
    }

    /// The lease, to be looked at by other tasks. It does not keep it.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Renews the lease now, by the same rule as the watchdog: a quorum, inside the validity.
    ///
    /// # Errors
    ///
    /// [`RenewError::LeaseLost`] if the lease is over; [`RenewError::NoQuorum`] if too few nodes
    /// renewed it, which leaves it valid until its own end.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the renewals that were sent: keys may live longer than the lease says, up
    /// to one ttl, and the unlock deletes them.
    pub async fn renew(&self) -> Result<(), RenewError> {
        renew_now(&self.lease.client.leases, &self.lease.active, Purpose::Time).await.map(drop)
    }

    /// Finds out whether a later lease on the resource has been granted, without trusting any
    /// clock; for a reader, a later one of a writer.
    ///
    /// It is a renewal in which each node also shows whether its counter is above this lease's
    /// token, or for a reader, whether it has been read there without a break since; a quorum of
    /// nodes where that is so proves that no later lease had been granted when the renewal began. What
    /// is granted afterwards, it cannot say.
    ///
    /// # Errors
    ///
    /// As [`renew`](Self::renew): after the end of validity there is nothing to verify.
    ///
    /// # Cancel safety
    ///
    /// As [`renew`](Self::renew).
    pub async fn verify(&self) -> Result<Verification, RenewError> {
        let is_proven = renew_now(&self.lease.client.leases, &self.lease.active, Purpose::Proof).await?;
        Ok(if is_proven { Verification::Proven } else { Verification::Unproven })
    }

    /// Unlocks, and tells which nodes have confirmed. Returns at the quorum; the other nodes are
    /// told all the same.
    ///
    /// Of several holds it gives one back, and the resource stays locked. Unless they are of readers,
    /// the nodes are told the new number.
    ///
    /// # Errors
    ///
    /// [`UnlockError::LeaseLost`] if the lease was over before: others may have held the resource
    /// meanwhile. [`UnlockError::NoQuorum`] if too few nodes have confirmed in a node timeout; the
    /// unlock goes on in the background until the last key of the lease is over.
    ///
    /// # Cancel safety
    ///
    /// The unlock is handed to all nodes before anything is waited for; dropped earlier, the guard
    /// is dropped, which unlocks.
    pub async fn unlock(self) -> Result<Unlocked, UnlockError> {
        let mut this = self;
        this.is_given_back = true;
        unlock::unlock(&this.lease.client.leases, &this.lease.active).await
    }

    /// Goes on as a reader, so that others can read, and no writer comes between: what was written
    /// is what is read. The write lease ends at the call, and the lease of the guard that comes back
    /// has a token of its own.
    ///
    /// It takes one round trip to a quorum, as long as the write lease lasts. A guard that reads
    /// already comes back as it is. There is no way from a reader to a writer but to unlock first:
    /// two readers would wait for each other.
    ///
    /// # Errors
    ///
    /// [`LockError::OtherHolds`] if its owner has entered the lease more than once; this guard's
    /// hold is given back. After any other error nothing is locked any more:
    /// [`LockError::LeaseLost`] if the lease was over before, [`LockError::NoQuorum`],
    /// [`LockError::Quarantined`] or [`LockError::Expired`] if no quorum could be asked in time.
    ///
    /// # Cancel safety
    ///
    /// Once polled, dropping it unlocks; so it does before, as dropping the guard would.
    pub async fn downgrade(self) -> Result<Self, LockError> {
        downgrade(self).await
    }

    /// Whether it shares its resources with others: whether all of them are only read.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.lease.active.resources.are_all_shared()
    }

    /// Its hold is another guard's from now on.
    pub(super) fn is_handed_on(&mut self) {
        self.is_given_back = true;
    }

    pub(super) fn client(&self) -> &Arc<Client> {
        &self.lease.client
    }

    pub(super) fn own_lease(&self) -> Option<Arc<OwnLease>> {
        self.own_lease.clone()
    }

    pub(super) fn kept_in(self, own_lease: Arc<OwnLease>) -> Self {
        let mut this = self;
        this.own_lease = Some(own_lease);
        this
    }

    pub(crate) fn active_lease(&self) -> &Arc<ActiveLease> {
        &self.lease.active
    }
}

impl Deref for LockGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        // The nodes are told whether or not anybody waits for their answers.
        if self.is_given_back {
            return;
        }
        match self.lease.client.leases.leave_unheard(&self.lease.active, LeaseEnd::Dropped) {
            UnlockOutcome::Active => unlock::submit_holds(&self.lease.client.environment, &self.lease.active),
            UnlockOutcome::Unlocked => {
                let lease = &self.lease.active;
                tracing::debug!(
                    resource = %lease.resource, owner = %lease.owner, token = %lease.token,
                    "unlock by drop"
                );
            }
            UnlockOutcome::Lost(_) | UnlockOutcome::Over(_) => {}
        }
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("resource", &self.lease.active.resource)
            .field("owner", &self.lease.active.owner)
            .field("fencing_token", &self.lease.active.token)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
