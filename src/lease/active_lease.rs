//! An active lease, shared by its guard, the watchdog and the expiry.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    algorithm::lease::LeaseTime,
    client::{in_flight_counter::InFlightGuard, queue_node_view::QueueNodeView},
    clock::{Clock, Instant},
    error::{LeaseLost, LossReason},
    lease::schedule::LeaseNumber,
    mutex::lock,
    node::{Reply, Resources},
    observer::{LeaseEnd, Mode, ObservedLease, Observer, Question},
    values::{FencingToken, LeaseId, Resource},
};

pub(crate) use self::lease_state::NodeLeaseState;
use self::{
    lease_span::LeaseSpan,
    lease_state::{LeasePhase, LeaseState},
};

mod lease_span;
mod lease_state;
mod nodes;

/// A lease that was acquired, until its unlock.
///
/// # Invariants
///
/// 1. A lease that has left [`LeasePhase::Active`] never returns to it.
/// 2. A renewal is noted as unanswered before it is submitted, and the unlock is submitted after
///    the phase has left `Active`: so a renewal that races with the unlock is refused by the
///    tombstone that the unlock leaves.
#[derive(Debug)]
pub(crate) struct ActiveLease {
    pub(crate) id: LeaseNumber,
    /// The attempt that acquired it, as the observer calls it.
    pub(crate) attempt: u64,
    /// The first of the resources, to speak of the lease by.
    pub(crate) resource: Resource,
    pub(crate) resources: Resources,
    pub(crate) owner: LeaseId,
    pub(crate) token: FencingToken,
    pub(crate) is_renewed: bool,
    /// How long a node's answer to a renewal or an unlock is waited for.
    pub(crate) node_timeout: Duration,
    /// Since when it is in care.
    pub(crate) since: Instant,
    /// Until when other tasks may join it that come to read what it reads: as long again as it took
    /// to acquire it. So they keep a writer waiting no longer than a lease of their own would.
    pub(crate) joinable_until: Instant,
    observer: Arc<dyn Observer>,
    state: Mutex<LeaseState>,
    span: LeaseSpan,
    /// Told whenever the phase or the validity changes.
    changed: Notify,
}

/// What an attempt has acquired, about to become a lease.
#[derive(Debug)]
pub(crate) struct Acquired {
    pub(crate) attempt: u64,
    pub(crate) resource: Resource,
    pub(crate) resources: Resources,
    pub(crate) owner: LeaseId,
    pub(crate) token: FencingToken,
    pub(crate) time: LeaseTime,
    pub(crate) is_renewed: bool,
    pub(crate) node_timeout: Duration,
    pub(crate) nodes: Vec<NodeLeaseState>,
    pub(crate) late: Vec<(usize, Reply)>,
    pub(crate) queue_node: QueueNodeView,
    /// Keeps a shutdown waiting until the lease is in somebody's care.
    pub(crate) in_flight: Option<InFlightGuard>,
}

/// The outcome of giving back a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnlockOutcome {
    /// Others remain.
    Active,
    /// It was the last.
    Unlocked,
    /// The validity is over, which nobody has noticed before.
    Lost(LossReason),
    /// The lease had ended before.
    Over(LossReason),
}

impl ActiveLease {
    pub(crate) fn new(
        id: LeaseNumber,
        acquired: Acquired,
        since: Instant,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let Acquired {
            attempt,
            resource,
            resources,
            owner,
            token,
            time,
            is_renewed,
            node_timeout,
            nodes,
            late,
            queue_node,
            ..
        } = acquired;
        let late = late.into_iter().map(|(node, reply)| (node, Question::Lock, reply)).collect();
        let joinable_until = since + since.saturating_duration_since(time.renewed_at());
        let span = LeaseSpan::begin(&resource, &owner, token);
        let state =
            Mutex::new(LeaseState { phase: LeasePhase::Active, time, holds: 1, nodes, late, queue_node });
        Self {
            id,
            attempt,
            resource,
            resources,
            owner,
            token,
            is_renewed,
            node_timeout,
            since,
            joinable_until,
            observer,
            state,
            span,
            changed: Notify::new(),
        }
    }

    pub(crate) fn valid_until(&self) -> Instant {
        lock(&self.state).time.valid_until()
    }

    pub(crate) fn renewal_due(&self) -> Instant {
        lock(&self.state).time.renewal_due()
    }

    pub(crate) fn ttl(&self) -> Duration {
        lock(&self.state).time.ttl()
    }

    /// Whether nodes keep the number of holds: readers have none.
    pub(crate) fn counts_holds(&self) -> bool {
        !self.resources.are_all_shared()
    }

    pub(crate) fn holds(&self) -> u32 {
        lock(&self.state).holds
    }

    /// Whether it is neither unlocked nor known to be lost; its validity may be over all the same.
    pub(crate) fn is_held(&self) -> bool {
        lock(&self.state).phase == LeasePhase::Active
    }

    /// `Ok` while the lease is certainly valid.
    pub(crate) fn ensure(&self, now: Instant) -> Result<(), LeaseLost> {
        self.loss_at(now).map_or(Ok(()), |reason| Err(self.lost(reason)))
    }

    /// How long the lease is still certainly valid: zero from its end on.
    pub(crate) fn remaining(&self, now: Instant) -> Duration {
        let state = lock(&self.state);
        match state.loss_at(now) {
            Some(_) => Duration::ZERO,
            None => state.time.valid_until().saturating_duration_since(now),
        }
    }

    /// What is left at `now` of the longest that it may last, if that has an end.
    pub(crate) fn hold_left(&self, now: Instant) -> Option<Duration> {
        lock(&self.state).time.hold_left(now)
    }

    /// How the lease is lost, if it is at `now`.
    pub(crate) fn loss_at(&self, now: Instant) -> Option<LossReason> {
        lock(&self.state).loss_at(now)
    }

    pub(crate) fn lost(&self, reason: LossReason) -> LeaseLost {
        LeaseLost { resource: self.resource.clone(), reason }
    }

    /// Ready at the next change of phase or validity; to be created before looking at either.
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Leaves the active phase as lost, if it is active. The caller that gets `true` has to submit
    /// the unlock.
    pub(crate) fn lose(&self, reason: LossReason) -> bool {
        let mut state = lock(&self.state);
        let was_held = state.phase == LeasePhase::Active;
        if was_held {
            state.phase = LeasePhase::Lost(reason);
        }
        drop(state);
        if was_held {
            self.changed.notify_waiters();
        }
        was_held
    }

    /// One more hold, unless the last one has been given back. A lease that is lost can be entered,
    /// to be told so.
    pub(crate) fn enter(&self) -> bool {
        let mut state = lock(&self.state);
        let is_entered = state.holds > 0;
        if is_entered {
            state.holds += 1;
        }
        is_entered
    }

    /// One hold less. With the last one the lease leaves the active phase as unlocked, and as lost
    /// if its validity is over: the caller that gets [`UnlockOutcome::Unlocked`] or
    /// [`UnlockOutcome::Lost`] has to submit the unlock.
    pub(crate) fn leave(&self, now: Instant) -> UnlockOutcome {
        let mut state = lock(&self.state);
        state.holds = state.holds.saturating_sub(1);
        let (phase, left) = match (state.phase, state.loss_at(now)) {
            (LeasePhase::Active, Some(reason)) => (LeasePhase::Lost(reason), UnlockOutcome::Lost(reason)),
            (_, Some(reason)) => return UnlockOutcome::Over(reason),
            (_, None) if state.holds > 0 => return UnlockOutcome::Active,
            (_, None) => (LeasePhase::Unlocked, UnlockOutcome::Unlocked),
        };
        state.phase = phase;
        drop(state);
        self.changed.notify_waiters();
        left
    }

    /// Ends the span of the lease, and logs a loss in it.
    pub(super) fn end_span(&self, end: LeaseEnd) {
        self.span.end(
            || {
                if let LeaseEnd::Lost(reason) = end {
                    tracing::warn!(
                        resource = %self.resource, id = %self.owner, token = %self.token, %reason,
                        "lease lost"
                    );
                }
            },
            end,
        );
    }

    /// The queue node, and what it has said.
    pub(crate) fn queue_node(&self) -> QueueNodeView {
        lock(&self.state).queue_node
    }

    /// A renewal round that started at `start` has its quorum: whether it counts.
    pub(crate) fn renewed(&self, start: Instant, clock: &dyn Clock) -> bool {
        let mut state = lock(&self.state);
        // Read under the mutex: with an older time, a lease that somebody has already seen over
        // could be extended.
        let counts = state.phase == LeasePhase::Active && state.time.renew(start, clock.now());
        drop(state);
        if counts {
            self.changed.notify_waiters();
        }
        counts
    }
}

impl ObservedLease for ActiveLease {
    fn attempt(&self) -> u64 {
        self.attempt
    }

    fn mode(&self) -> Mode {
        Mode::of(&self.resources)
    }

    fn token(&self) -> FencingToken {
        self.token
    }

    fn valid_until(&self) -> Instant {
        Self::valid_until(self)
    }
}
