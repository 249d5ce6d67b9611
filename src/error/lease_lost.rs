//! The loss of a lease.

use crate::{error::ClosedReason, values::Resource};

/// A lease ended before its holder unlocked it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lease on {resource} is lost: {reason}")]
#[non_exhaustive]
pub struct LeaseLost {
    /// The resource; of a group, the first.
    pub resource: Resource,
    /// How the lease ended.
    pub reason: LossReason,
}

/// How a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LossReason {
    /// Its validity ended: no renewal reached a quorum in time, or the lease is not renewed at all.
    #[error("its validity ended")]
    Expired,
    /// The time of [`hold_at_most`](crate::LockOptions::hold_at_most) is over.
    #[error("its hold_at_most is over")]
    HoldLimit,
    /// A quorum of nodes does not have the lease any more: it was force-unlocked, or the nodes lost it.
    #[error("the nodes do not have it any more")]
    Revoked,
    /// Its guard unlocked it, and a [`Lease`](crate::Lease) of it was kept for longer.
    #[error("its guard has unlocked it")]
    Unlocked,
    /// Its client works no longer, for this reason.
    #[error("{0}")]
    Closed(ClosedReason),
}
