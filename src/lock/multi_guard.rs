//! The guard of a group.

use std::time::Duration;

use futures::future::{join_all, select_all};

use crate::{
    error::{LeaseLost, LockError, RenewError, UnlockError},
    lease::Unlocked,
    lock::guard::{LockGuard, Verification},
    values::{FencingToken, Resource, Votes},
};

/// Leases on all resources of a group, for as long as every one of them is valid and this guard
/// lives.
///
/// What is said of [`LockGuard`] holds for the group: it is lost as soon as any of its leases is,
/// and dropping it unlocks everything without waiting.
#[derive(Debug)]
#[must_use = "dropping a guard unlocks at once: bind it to a name, `_` is none"]
pub struct MultiLockGuard {
    /// One for each quorum; never empty.
    guards: Vec<LockGuard>,
}

impl MultiLockGuard {
    /// The guard of the group, if it lies in one quorum.
    #[cfg(feature = "sim")]
    pub(crate) fn into_only(self) -> Option<LockGuard> {
        let mut guards = self.guards;
        if guards.len() == 1 { guards.pop() } else { None }
    }

    /// The guard of leases of which all are still valid: waiting for the last may have outlasted
    /// the first.
    pub(crate) fn whole(guards: Vec<LockGuard>) -> Result<Self, LockError> {
        let group = Self { guards };
        group.ensure()?;
        Ok(group)
    }

    /// The fencing token of a resource: one for all resources of a quorum. `None` if the resource
    /// is not in the group.
    ///
    /// Tokens of different quorums are not comparable. If two quorums have a resource of the same
    /// name, this is the token of the quorum that was taken first.
    #[must_use]
    pub fn token_of(&self, resource: impl AsRef<[u8]>) -> Option<FencingToken> {
        let is_of =
            |guard: &&LockGuard| guard.resources().iter().any(|name| name.as_bytes() == resource.as_ref());
        self.guards.iter().find(is_of).map(|guard| guard.fencing_token())
    }

    /// All resources, quorum by quorum in the order in which they were taken.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.guards.iter().flat_map(|guard| guard.resources())
    }

    /// How long all leases are still certainly valid: zero once one of them is over.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(|guard| guard.remaining()).min().unwrap_or_default()
    }

    /// Whether all leases are certainly valid at this instant. Once false, it stays false.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.ensure().is_ok()
    }

    /// Asks for the validity where it has to be there.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`] for the first lease that is over.
    pub fn ensure(&self) -> Result<(), LeaseLost> {
        self.guards.iter().try_for_each(|guard| guard.ensure())
    }

    /// Ready when the first of the leases is over; see [`Lease::lost`](crate::Lease::lost).
    ///
    /// # Cancel safety
    ///
    /// It only watches; dropping it changes nothing.
    pub async fn lost(&self) -> LeaseLost {
        let watches = self.guards.iter().map(|guard| Box::pin(guard.lost()));
        select_all(watches).await.0
    }

    /// Ready when no more than `left` of the validity of any lease is left; see
    /// [`Lease::expiring_within`](crate::Lease::expiring_within).
    ///
    /// # Cancel safety
    ///
    /// It only watches; dropping it changes nothing.
    pub async fn expiring_within(&self, left: Duration) {
        let watches = self.guards.iter().map(|guard| Box::pin(guard.expiring_within(left)));
        select_all(watches).await;
    }

    /// Renews all leases now; see [`LockGuard::renew`].
    ///
    /// # Errors
    ///
    /// The first error, after all were tried.
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::renew`].
    pub async fn renew(&self) -> Result<(), RenewError> {
        join_all(self.guards.iter().map(LockGuard::renew)).await.into_iter().collect()
    }

    /// Finds out whether a later lease on any of the resources has been granted; see
    /// [`LockGuard::verify`].
    ///
    /// # Errors
    ///
    /// The first error, after all were tried.
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::verify`].
    pub async fn verify(&self) -> Result<Verification, RenewError> {
        let found = join_all(self.guards.iter().map(LockGuard::verify)).await;
        let mut whole = Verification::Proven;
        for one in found {
            if one? == Verification::Unproven {
                whole = Verification::Unproven;
            }
        }
        Ok(whole)
    }

    /// Each node's last word, quorum by quorum.
    #[must_use]
    pub fn votes(&self) -> Vec<Votes> {
        self.guards.iter().map(|guard| guard.votes()).collect()
    }

    /// Unlocks everything, and tells which nodes have confirmed, quorum by quorum.
    ///
    /// # Errors
    ///
    /// The first error, after all were unlocked; see [`LockGuard::unlock`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::unlock`].
    pub async fn unlock(self) -> Result<Vec<Unlocked>, UnlockError> {
        join_all(self.guards.into_iter().map(LockGuard::unlock)).await.into_iter().collect()
    }
}
