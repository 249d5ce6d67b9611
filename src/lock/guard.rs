//! The guard of a lease.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    error::{LeaseLost, RenewError, UnlockError},
    lease::{
        Unlocked,
        active_lease::{ActiveLease, UnlockOutcome},
        renewal::{Purpose, renew_now},
        unlock,
    },
    lock::{client::Client, closure::Lease},
    observer::LeaseEnd,
    values::{FencingToken, OwnerId, Resource, Votes},
};

/// A lease on a resource, for as long as it is valid and this guard lives.
///
/// Dropping it unlocks without waiting: the unlock is handed to the client's connections on the
/// spot, and renewal stops at once. Where that cannot work (the process is killed, the runtime that
/// the quorum was built on is gone, the guard is leaked) the ttl ends the lease.
/// [`unlock`](Self::unlock) does the same and tells how it went.
///
/// A guard is a claim about time, not a wall: a process that is paused between looking at it and
/// acting may act after its end. Give [`fencing_token`](Self::fencing_token) to whatever the lock
/// protects, and have it refuse smaller ones.
#[must_use = "dropping a guard unlocks at once: bind it to a name, `_` is none"]
pub struct LockGuard {
    /// What it shows of the lease; the guard is what keeps it.
    lease: Lease,
    /// Whether its hold has been given back by [`unlock`](Self::unlock).
    is_given_back: bool,
}

/// What [`LockGuard::verify`] has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verification {
    /// No later lease on the resource had been granted when the verification began. No clock is in
    /// the argument; the nodes have to remember their counters.
    Proven,
    /// The lease was renewed, but too few nodes can exclude a later lease, for instance because the
    /// failed votes of contenders have raised their counters. This is not a loss.
    Unproven,
}

impl LockGuard {
    pub(crate) fn new(client: Arc<Client>, active: Arc<ActiveLease>) -> Self {
        Self { lease: Lease { client, active }, is_given_back: false }
    }

    /// The number that grows with every lease on the resource, as long as the nodes remember their
    /// counters.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.lease.fencing_token()
    }

    /// What is locked: of a group, the first resource.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.lease.active.resource
    }

    /// What is locked: one resource, or those of a group, in order.
    #[must_use]
    pub fn resources(&self) -> &[Resource] {
        &self.lease.active.resources
    }

    /// How long the lease is still certainly valid, unless it is renewed: zero from its end on.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.lease.remaining()
    }

    /// Whether the lease is certainly valid at this instant. Once false, it stays false.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.lease.is_valid()
    }

    /// Asks for the validity where it has to be there.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`] once the lease is over, with the reason.
    pub fn ensure(&self) -> Result<(), LeaseLost> {
        self.lease.ensure()
    }

    /// Ready when the lease is over, and no later than the end of its validity: on a timer of its
    /// own, whatever happens to renewal, connections or nodes.
    ///
    /// A future sees that only when it is polled: code that blocks its thread is told late, and has
    /// to ask [`ensure`](Self::ensure).
    ///
    /// # Cancel safety
    ///
    /// It only watches; dropping it changes nothing.
    pub async fn lost(&self) -> LeaseLost {
        self.lease.lost().await
    }

    /// Ready when no more than `left` of the validity is left: at once if it is so already, or the
    /// lease is over. Every renewal puts it off, so while the nodes answer and `left` is well below
    /// two thirds of the ttl, it never comes.
    ///
    /// It is for work that takes time to stop, and must have stopped by the end: begin with it when
    /// this is ready. It comes as soon after that instant as the timer and the runtime allow,
    /// usually within a millisecond or two: allow for that. The end itself is told by
    /// [`lost`](Self::lost), and never late.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # let quorum = redquorum::Quorum::in_memory(3)?;
    /// # async fn serve() {}
    /// # async fn stop_serving() {}
    /// let guard = quorum.red_lock("port:80").lock().await?;
    /// tokio::select! {
    ///     () = serve() => {}
    ///     // Renewals have failed for a while.
    ///     () = guard.expiring_within(Duration::from_secs(5)) => stop_serving().await,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// It only watches; dropping it changes nothing.
    pub async fn expiring_within(&self, left: Duration) {
        self.lease.expiring_within(left).await;
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
    /// clock.
    ///
    /// It is a renewal in which each node also shows whether its counter is above this lease's
    /// token; a quorum of nodes where it is not proves that no later lease had been granted when
    /// the renewal began. What is granted afterwards, it cannot say.
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

    /// Each node's last word on the lease: how many could fail before it is in danger.
    #[must_use]
    pub fn votes(&self) -> Votes {
        self.lease.active.votes(&self.lease.client.environment)
    }

    /// How many holds the lease has, as the nodes store it: one for each guard, so more than 1
    /// where its [`Owner`](crate::Owner) has re-entered.
    #[must_use]
    pub fn holds(&self) -> u32 {
        self.lease.active.holds()
    }

    /// The owner of the lease on the wire, as inspection of the nodes shows it.
    #[must_use]
    pub fn owner(&self) -> &OwnerId {
        &self.lease.active.owner
    }

    /// Unlocks, and tells which nodes have confirmed. Returns at the quorum; the other nodes are
    /// told all the same.
    ///
    /// Of several holds it gives one back: the nodes are told the new number, and the resource
    /// stays locked.
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

    pub(crate) fn lease(&self) -> Lease {
        self.lease.clone()
    }

    pub(crate) fn active_lease(&self) -> &Arc<ActiveLease> {
        &self.lease.active
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
