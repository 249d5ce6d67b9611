//! The guard of a lease.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    algorithm::fencing::FencingToken,
    clock::Instant,
    error::{LeaseLost, RenewError, UnlockError},
    lock::{
        core::Client,
        held::Held,
        release::{self, Unlocked},
        renewal::renew_now,
    },
    owner_id::OwnerId,
    vote::Votes,
};

/// A lease on a resource, for as long as it is valid and this guard lives.
///
/// Dropping it unlocks without waiting: the unlock is handed to the client's connections on the spot, and renewal stops at
/// once. Where that cannot work (the process is killed, the runtime that the quorum was built on is gone, the guard is
/// leaked) the ttl ends the lease. [`unlock`](Self::unlock) does the same and tells how it went.
///
/// A guard is a claim about time, not a wall: a process that is paused between looking at it and acting may act after its
/// end. Give [`fencing_token`](Self::fencing_token) to whatever the lock protects, and have it refuse smaller ones.
#[must_use = "dropping a guard unlocks at once: bind it to a name, `_` is none"]
pub struct LockGuard {
    client: Arc<Client>,
    held: Arc<Held>,
}

/// What [`LockGuard::verify`] has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verification {
    /// No later lease on the resource had been granted when the verification began. No clock is in the argument; the nodes
    /// have to remember their counters.
    Proven,
    /// The lease was renewed, but too few nodes can exclude a later lease, for instance because the failed votes of contenders
    /// have raised their counters. This is not a loss.
    Unproven,
}

impl LockGuard {
    pub(crate) fn new(client: Arc<Client>, held: Arc<Held>) -> Self {
        Self { client, held }
    }

    /// The number that grows with every lease on the resource.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.held.token
    }

    /// Until when the lease is certainly valid, unless it is renewed. Renewal moves it.
    #[must_use]
    pub fn valid_until(&self) -> Instant {
        self.held.valid_until()
    }

    /// How long the lease is still certainly valid: zero from its end on.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let now = self.client.core.now();
        if self.held.loss_at(now).is_some() {
            return Duration::ZERO;
        }
        self.held.valid_until().saturating_duration_since(now)
    }

    /// Whether the lease is certainly valid at this instant. Once false, it stays false.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.ensure().is_ok()
    }

    /// Asks for the validity where it has to be there.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`] once the lease is over, with the reason.
    pub fn ensure(&self) -> Result<(), LeaseLost> {
        self.held.ensure(self.client.core.now())
    }

    /// Ready when the lease is over, and no later than the end of its validity: on a timer of its own, whatever happens to
    /// renewal, connections or nodes.
    ///
    /// A future sees that only when it is polled: code that blocks its thread is told late, and has to ask
    /// [`ensure`](Self::ensure).
    ///
    /// # Cancel safety
    ///
    /// It only watches; dropping it changes nothing.
    pub async fn lost(&self) -> LeaseLost {
        let core = &self.client.core;
        let early = core.clock.granularity();
        loop {
            let changed = self.held.changed();
            let mut changed = std::pin::pin!(changed);
            // From here on no change is missed, so look at the clock after it.
            changed.as_mut().enable();
            if let Some(reason) = self.held.loss_at(core.now() + early) {
                // Timers are set early by their granularity; whoever is told must not find the lease valid afterwards.
                core.lose(&self.held, reason);
                return self.held.lost(reason);
            }
            let end = self.held.valid_until().saturating_sub(early);
            tokio::select! {
                biased;
                () = changed => {}
                () = core.clock.sleep_until(end) => {}
            }
        }
    }

    /// Renews the lease now, by the same rule as the watchdog: a quorum, inside the validity.
    ///
    /// # Errors
    ///
    /// [`RenewError::LeaseLost`] if the lease is over; [`RenewError::NoQuorum`] if too few nodes renewed it, which leaves it
    /// valid until its own end.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the renewals that were sent: keys may live longer than the lease says, up to one ttl, and the unlock
    /// deletes them.
    pub async fn renew(&self) -> Result<(), RenewError> {
        renew_now(&self.client.core, &self.held, false).await.map(drop)
    }

    /// Finds out whether a later lease on the resource has been granted, without trusting any clock.
    ///
    /// It is a renewal of which a quorum of nodes shows that it had never given a token above this lease's.
    ///
    /// # Errors
    ///
    /// As [`renew`](Self::renew).
    ///
    /// # Cancel safety
    ///
    /// As [`renew`](Self::renew).
    pub async fn verify(&self) -> Result<Verification, RenewError> {
        let is_proven = renew_now(&self.client.core, &self.held, true).await?;
        Ok(if is_proven { Verification::Proven } else { Verification::Unproven })
    }

    /// Each node's last word on the lease: how many could fail before it is in danger.
    #[must_use]
    pub fn votes(&self) -> Votes {
        self.held.votes(&self.client.core.nodes)
    }

    /// How many holds the lease has, as the nodes store it: 1.
    #[must_use]
    pub fn holds(&self) -> u32 {
        self.held.holds()
    }

    /// The owner of the lease on the wire, as inspection of the nodes shows it.
    #[must_use]
    pub fn owner(&self) -> &OwnerId {
        &self.held.owner
    }

    /// Unlocks, and tells which nodes have confirmed. Returns at the quorum; the other nodes are told all the same.
    ///
    /// # Errors
    ///
    /// [`UnlockError::LeaseLost`] if the lease was over before: others may have held the resource meanwhile.
    /// [`UnlockError::NoQuorum`] if too few nodes have confirmed in a node timeout; the unlock goes on in the background until
    /// the last key of the lease is over.
    ///
    /// # Cancel safety
    ///
    /// The unlock is handed to all nodes before anything is waited for; dropped earlier, the guard is dropped, which unlocks.
    pub async fn unlock(self) -> Result<Unlocked, UnlockError> {
        release::unlock(&self.client.core, &self.held).await
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        // The nodes are told whether or not anybody waits for their answers.
        drop(self.client.core.unlock(&self.held));
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("resource", &self.held.resource)
            .field("owner", &self.held.owner)
            .field("fencing_token", &self.held.token)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
