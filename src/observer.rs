//! Who is told what becomes of calls, attempts and leases.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    algorithm::attempt::FailureReason,
    clock::Instant,
    error::LossReason,
    node::{Answer, Resources, names, remote::Monitor},
    values::{FencingToken, LeaseId},
};

/// A lease, as an observer sees it.
#[cfg_attr(not(feature = "sim"), expect(dead_code, reason = "only the simulator looks at all of it"))]
pub(crate) trait ObservedLease: fmt::Debug + Send + Sync {
    /// As [`Observer::attempt_began`] has named its attempt.
    fn attempt(&self) -> u64;

    #[cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "only metrics tell modes apart"))]
    fn mode(&self) -> Mode;

    fn token(&self) -> FencingToken;

    /// As of now: renewals move it.
    fn valid_until(&self) -> Instant;
}

/// Is told what becomes of calls, attempts and leases, at the very moment, and of connections.
///
/// It decides nothing: a client works the same without it.
pub(crate) trait Observer: Monitor {
    /// An attempt begins; nothing has been sent yet. What is returned names it from now on.
    fn attempt_began(&self, _resources: &Resources, _owner: &LeaseId) -> u64 {
        0
    }

    /// The attempt is taken back.
    fn attempt_lost(&self, _attempt: u64) {}

    /// The attempt is decided, or nobody waits for it any more.
    fn attempt_ended(&self, _end: AttemptEnd) {}

    /// A node has answered, or has been given up.
    fn answered(&self, _node: usize, _operation: OperationKind, _answer: &Answer) {}

    /// The attempt was won and becomes a lease. Not in care yet: if this panics, the lease is over
    /// by its ttl.
    fn lease_granted(&self, _lease: &Arc<dyn ObservedLease>) {}

    /// A renewal of a lease is decided.
    fn renewed(&self, _renewed: &Renewed) {}

    /// The lease has left the active phase, so long after it was granted.
    fn lease_ended(&self, _lease: &dyn ObservedLease, _end: LeaseEnd, _lasted: Duration) {}

    /// A client has arrived at a latch.
    fn arrived_at_latch(&self) {}

    /// A call has waited for a latch, so long.
    fn waited_for_latch(&self, _end: LatchEnd, _waited: Duration) {}

    /// A call to lock begins.
    fn call_began(&self) {}

    /// It has ended, after so long.
    fn call_ended(&self, _mode: Mode, _end: CallEnd, _waited: Duration) {}
}

/// An observer that ignores everything.
#[derive(Debug)]
pub(crate) struct NoObserver;

impl Monitor for NoObserver {}

impl Observer for NoObserver {}

/// How resources are locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// One of them at least is had alone.
    Exclusive,
    /// All of them are shared.
    Shared,
    /// It is a slot of a semaphore.
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

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptEnd {
    Acquired,
    Failed(FailureReason),
    /// It was dropped.
    Cancelled,
}

/// The kind of an operation whose answers are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationKind {
    Lock,
    WriteBack,
    Renew,
}

/// How a renewal went.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "only metrics measure renewals"))]
pub(crate) struct Renewed {
    pub(crate) outcome: RenewalOutcome,
    pub(crate) took: Duration,
    /// What was left of the validity when it had its quorum, if it had, as a share of the ttl.
    pub(crate) margin: Option<f64>,
}

/// How a renewal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RenewalOutcome {
    /// The lease is valid for longer now.
    Renewed,
    /// No quorum; the lease stays as it is.
    Failed,
    /// A quorum can never be had again.
    Revoked,
    /// A quorum came after the end of the lease, or the lease ended meanwhile.
    TooLate,
}

/// How a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseEnd {
    /// Its last guard was unlocked.
    Unlocked,
    /// Its last guard was dropped.
    Dropped,
    Lost(LossReason),
}

/// How a call to lock ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallEnd {
    Acquired,
    /// It has entered a lease of its owner again.
    Reentered,
    /// It shares a lease that other tasks of its client read under.
    Joined,
    /// Others hold a resource, and it did not wait.
    Held,
    TimedOut,
    NoQuorum,
    Quarantined,
    Expired,
    LeaseLost,
    Closed,
    Refused,
    /// It was dropped.
    Cancelled,
}

/// How a call that waited for a latch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LatchEnd {
    /// It is open.
    Open,
    TimedOut,
    NoQuorum,
    Closed,
    /// Others use it with another count.
    CountMismatch,
    /// The settings cannot be.
    Refused,
    /// It was dropped.
    Cancelled,
}
