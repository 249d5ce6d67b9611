//! The observer, which receives the events of calls, attempts, leases and latches, for metrics and the simulator. The
//! events of connections are in [`Monitor`].
//!
//! ```text
//!   a lock call                                    a lease
//!     call_began                                     lease_granted
//!       attempt_began                                  answered, renewed   (each renewal)
//!         answered, ...                              lease_ended
//!       attempt_ended, attempt_lost, attempt_rolled_back
//!     call_ended                                   a latch
//!                                                    arrived_at_latch, waited_for_latch
//! ```

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    algorithm::attempt::FailureReason,
    clock::Instant,
    error::LossReason,
    node::{Answer, Resources, names, remote::Monitor},
    values::{FencingToken, LeaseId},
};

/// A lease, as the observer receives it.
#[cfg_attr(not(feature = "sim"), expect(dead_code, reason = "only the simulator uses all of it"))]
pub(crate) trait ObservedLease: fmt::Debug + Send + Sync {
    /// Returns the number of the attempt, from [`Observer::attempt_began`].
    fn attempt(&self) -> u64;

    #[cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "only metrics distinguish modes"))]
    fn mode(&self) -> Mode;

    fn token(&self) -> FencingToken;

    /// Returns the present end of the validity. A renewal extends the validity.
    fn valid_until(&self) -> Instant;
}

/// A receiver of the events of a client. Each method is called at the time of its event.
///
/// An observer only observes: the behaviour of a client does not depend on the observer.
pub(crate) trait Observer: Monitor {
    /// Handles the beginning of an attempt, before its first request. Returns a number that identifies the attempt.
    fn attempt_began(&self, _resources: &Resources, _lease_id: &LeaseId) -> u64 {
        0
    }

    /// Handles the rollback of an attempt.
    fn attempt_lost(&self, _attempt: u64) {}

    /// Handles the unlocks of an attempt that led to no lease, after [`attempt_lost`](Self::attempt_lost). Not called
    /// if the attempt has locked at no node.
    fn attempt_rolled_back(&self) {}

    /// Handles the start of a silence of a node.
    fn silence_began(&self, _node: usize) {}

    /// Handles an answer to a lock after the end of its attempt.
    fn lock_answered_late(&self, _node: usize) {}

    /// Handles the end of an attempt: its outcome, or its cancellation.
    fn attempt_ended(&self, _end: AttemptEnd) {}

    /// Handles the answer of a node, or its timeout.
    fn answered(&self, _node: usize, _operation: OperationKind, _answer: &Answer) {}

    /// Handles the grant of a lease to a won attempt. The lease is not registered yet. Therefore, if this method
    /// panics, only the ttl ends the lease.
    fn lease_granted(&self, _lease: &Arc<dyn ObservedLease>) {}

    /// Handles the beginning of a renewal, before its request to a node. Called for each node.
    fn renewal_began(&self, _attempt: u64, _ttl: Duration) {}

    /// Handles a renewal that extends the validity of a lease.
    fn lease_extended(&self, _attempt: u64, _valid_until: Instant) {}

    /// Handles the outcome of a renewal.
    fn renewed(&self, _renewed: &Renewed) {}

    /// Handles the end of a lease, at a time of `lasted` after its grant.
    fn lease_ended(&self, _lease: &dyn ObservedLease, _end: LeaseEnd, _lasted: Duration) {}

    /// Handles an arrival at a latch.
    fn arrived_at_latch(&self) {}

    /// Handles the end of a latch wait, after the time `waited`.
    fn waited_for_latch(&self, _end: LatchEnd, _waited: Duration) {}

    /// Handles the first difference of the numbers of permits that this client and another client count for a semaphore.
    fn permit_counts_differ(&self) {}

    /// Handles an event of a ticket.
    fn ticket(&self, _event: TicketEvent) {}

    /// Handles the start of a lock call.
    fn call_began(&self) {}

    /// Handles the end of a lock call, after the time `waited`.
    fn call_ended(&self, _mode: Mode, _end: CallEnd, _waited: Duration) {}
}

/// An observer that ignores all events.
#[derive(Debug)]
pub(crate) struct NoObserver;

impl Monitor for NoObserver {}

impl Observer for NoObserver {}

/// The mode of a lease on one or more resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A lease with at least one exclusive resource, except for a lease on a slot.
    Exclusive,
    /// A lease whose resources are all shared.
    Shared,
    /// A lease on a slot of a semaphore.
    Permit,
}

impl Mode {
    pub(crate) fn of(resources: &Resources) -> Self {
        if resources.are_all_shared() {
            Self::Shared
        } else if resources.first().is_some_and(names::is_slot) {
            Self::Permit
        } else {
            Self::Exclusive
        }
    }
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptEnd {
    Acquired,
    Failed(FailureReason),
    /// The future was dropped.
    Cancelled,
}

/// The kind of an operation whose answers are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationKind {
    Lock,
    WriteBack,
    Renew,
}

/// The result of a renewal, with its measurements.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "only metrics measure renewals"))]
pub(crate) struct Renewed {
    pub(crate) outcome: RenewalOutcome,
    pub(crate) took: Duration,
    /// The validity left when the renewal had its quorum, as a share of the ttl; `None` without a quorum.
    pub(crate) margin: Option<f64>,
}

/// The outcome of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RenewalOutcome {
    /// A renewal with a quorum, which extends the lease.
    Renewed,
    /// A renewal without a quorum. The end of the validity stays.
    Failed,
    /// A renewal that shows that no quorum can renew the lease any more, so that the lease is lost.
    Revoked,
    /// A renewal whose quorum answered after the end of the lease.
    TooLate,
}

/// The end of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseEnd {
    /// The last guard was unlocked.
    Unlocked,
    /// The last guard was dropped.
    Dropped,
    Lost(LossReason),
}

/// The outcome of a lock call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallEnd {
    Acquired,
    /// Another hold on a lease of the same owner.
    Reentered,
    /// A hold on a read lease that tasks of this client share.
    Joined,
    /// A refusal of a call that does not wait: another client holds a resource, or waiters are ahead.
    Held,
    /// The deadline of a call, while other clients held a resource.
    TimedOut,
    NoQuorum,
    /// The lack of a quorum, because nodes are in quarantine.
    Quarantined,
    /// The end of the validity before the attempt was won.
    Expired,
    /// The loss of the lease that the call was to re-enter.
    LeaseLost,
    Closed,
    /// An [`Error::Config`](crate::Error::Config).
    Refused,
    /// The future was dropped.
    Cancelled,
}

/// An event of a ticket, at the client that causes the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TicketEvent {
    /// A lease became a ticket.
    Issued,
    /// A ticket became a lease.
    Redeemed,
    /// No quorum had the ticket that the client wanted to redeem.
    Spent,
    /// The client unlocked the resources of the ticket.
    Released,
}

/// The outcome of a latch wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LatchEnd {
    /// The opening of the latch.
    Open,
    TimedOut,
    NoQuorum,
    Closed,
    /// A different count that nodes have recorded.
    CountMismatch,
    /// Any other [`Error::Config`](crate::Error::Config).
    Refused,
    /// The future was dropped.
    Cancelled,
}
