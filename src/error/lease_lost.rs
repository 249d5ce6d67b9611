//! The error of a call that needs an ended lease.

use crate::{error::ClosedReason, values::Resource};

/// The error of a call that needs an ended lease: the lease was lost, or its guard has unlocked it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lease on {resource} is lost: {reason}")]
#[non_exhaustive]
pub struct LeaseLost {
    /// The resource; for a group, its first resource.
    pub resource: Resource,
    /// The reason of the end.
    pub reason: LossReason,
}

/// The reason why a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LossReason {
    /// The validity ended, because no renewal reached a quorum in time, or because the lease is not renewed.
    #[error("its validity ended")]
    Expired,
    /// The time of [`hold_at_most`](crate::LockOptions::hold_at_most) has passed.
    #[error("its hold_at_most is over")]
    HoldLimit,
    /// A quorum of nodes does not have the lease any more: the lease was force-unlocked, or the nodes lost their data.
    #[error("the nodes do not have it any more: it was force-unlocked, or its keys were deleted or lost")]
    Revoked,
    /// The guard unlocked the lease. A [`Lease`](crate::Lease) that is used afterwards returns this reason.
    #[error("its guard has unlocked it")]
    Unlocked,
    /// The client no longer works, for this reason.
    #[error("{0}")]
    Closed(ClosedReason),
}
