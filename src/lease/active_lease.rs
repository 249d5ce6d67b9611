//! The lease that guards, the watchdog and the expiry share, and its requests to the nodes.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    algorithm::lease::{LeaseTime, RenewalOffset},
    client::{context::ClientContext, in_flight_counter::InFlightGuard, queue_node_view::QueueNodeView},
    clock::{Clock, Instant},
    error::{LeaseLost, LossReason},
    lease::lease_timers::LeaseNumber,
    mutation::{self, Mutation},
    mutex::lock,
    node::{Answer, Node, Operation, Renew, Reply, Request, Resources, Tombstone, Unlock},
    observer::{LeaseEnd, Mode, ObservedLease, Observer, OperationKind},
    values::{FencingToken, LeaseId, NodeReplies, Resource},
};

pub(crate) use self::lease_state::NodeLeaseState;
use self::{
    lease_span::LeaseSpan,
    lease_state::{LeasePhase, LeaseState},
};

mod lease_span;
mod lease_state;

/// A lease from its grant on, shared by its guards, the watchdog and the expiry.
///
/// The value outlives the lease: after an unlock or a loss, guards read the reason here. Only the phase
/// [`LeasePhase::Active`] means that the lease is neither unlocked nor lost.
///
/// # Invariants
///
/// 1. A lease never returns to [`LeasePhase::Active`].
/// 2. A renewal counts as unanswered before its submission, and the unlock is submitted after the phase has left
///    `Active`. Therefore the unlock leaves a tombstone, which refuses a renewal that races with the unlock.
#[derive(Debug)]
pub(crate) struct ActiveLease {
    pub(crate) id: LeaseNumber,
    pub(crate) terms: LeaseTerms,
    /// The time of the registration with the leases of the client.
    pub(crate) registered_at: Instant,
    /// The time until which arriving readers may join the lease. The period from the grant to this time is as long as
    /// the acquisition was. Thus a reader that joins delays a writer no longer than a reader with a lease of its own.
    pub(crate) joinable_until: Instant,
    observer: Arc<dyn Observer>,
    state: Mutex<LeaseState>,
    span: LeaseSpan,
    /// Notified whenever the phase or the validity changes.
    changed: Notify,
}

/// The constant part of a lease.
#[derive(Debug)]
pub(crate) struct LeaseTerms {
    /// The number that the observer gave the attempt that acquired the lease.
    pub(crate) attempt: u64,
    /// The first of the resources, which names the lease in errors and logs.
    pub(crate) resource: Resource,
    pub(crate) resources: Resources,
    pub(crate) lease_id: LeaseId,
    pub(crate) token: FencingToken,
    /// Whether the watchdog renews the lease.
    pub(crate) is_renewed: bool,
    /// The time to wait for a node's answer to a renewal on request, or to an unlock.
    pub(crate) node_timeout: Duration,
    /// The longest time for which a lock request of the lease may have been unsent.
    pub(crate) lock_timeout: Duration,
    /// The longest time for which a renewal may be unsent.
    pub(crate) renewal_timeout: Duration,
}

/// The result of a won attempt, before it becomes a lease.
#[derive(Debug)]
pub(crate) struct Acquired {
    pub(crate) terms: LeaseTerms,
    pub(crate) time: LeaseTime,
    pub(crate) nodes: Vec<NodeLeaseState>,
    /// The outstanding replies to the lock, each with its node.
    pub(crate) late: Vec<(usize, Reply)>,
    pub(crate) queue_node: QueueNodeView,
    /// Keeps a shutdown waiting until the lease is registered.
    pub(crate) in_flight: Option<InFlightGuard>,
}

/// The ttl that a renewal sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RenewedTtl {
    /// The ttl of the lease, which extends the lease.
    Whole,
    /// The rest of the validity, which leaves the end of the lease as it is.
    Rest,
}

/// The outcome of the return of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnlockOutcome {
    /// Other holds remain.
    Active,
    /// This call gave back the last hold, and ended the lease as unlocked.
    Unlocked,
    /// The phase was still `Active` after the end of the validity, and this call ended the lease as lost.
    Lost(LossReason),
    /// The lease had been unlocked or lost before this call.
    Over(LossReason),
}

impl ActiveLease {
    pub(crate) fn new(
        id: LeaseNumber,
        acquired: Acquired,
        registered_at: Instant,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let Acquired { terms, time, nodes, late, queue_node, .. } = acquired;
        let late = late.into_iter().map(|(node, reply)| (node, OperationKind::Lock, reply)).collect();
        let acquisition = registered_at.saturating_duration_since(time.renewed_at());
        let joinable_until = registered_at + acquisition;
        let span = LeaseSpan::begin(&terms.resource, &terms.lease_id, terms.token);
        let state =
            Mutex::new(LeaseState { phase: LeasePhase::Active, time, holds: 1, nodes, late, queue_node });
        Self { id, terms, registered_at, joinable_until, observer, state, span, changed: Notify::new() }
    }

    pub(crate) fn valid_until(&self) -> Instant {
        lock(&self.state).time.valid_until()
    }

    pub(crate) fn renewal_due(&self) -> Instant {
        lock(&self.state).time.renewal_due()
    }

    /// Returns the time of the first renewal, if the lease has not been renewed yet.
    pub(crate) fn first_renewal_due(&self, offset: RenewalOffset) -> Instant {
        lock(&self.state).time.first_renewal_due(offset)
    }

    pub(crate) fn ttl(&self) -> Duration {
        lock(&self.state).time.ttl()
    }

    /// Whether nodes store the number of holds. Nodes do not store this number for readers.
    pub(crate) fn counts_holds(&self) -> bool {
        !self.terms.resources.are_all_shared()
    }

    pub(crate) fn holds(&self) -> u32 {
        lock(&self.state).holds
    }

    /// Whether the phase is `Active`. The validity may have ended already.
    pub(crate) fn is_active(&self) -> bool {
        lock(&self.state).phase == LeasePhase::Active
    }

    /// Returns `Ok` while the lease is certainly valid, and otherwise the loss.
    pub(crate) fn ensure(&self, now: Instant) -> Result<(), LeaseLost> {
        self.loss_at(now).map_or(Ok(()), |reason| Err(self.lost(reason)))
    }

    /// Returns the time for which the lease is certainly still valid; zero after its end.
    pub(crate) fn remaining(&self, now: Instant) -> Duration {
        let state = lock(&self.state);
        match state.loss_at(now) {
            Some(_) => Duration::ZERO,
            None => state.time.valid_until().saturating_duration_since(now),
        }
    }

    /// Returns the time from `now` until `hold_at_most` ends the lease; `None` without this limit.
    pub(crate) fn hold_left(&self, now: Instant) -> Option<Duration> {
        lock(&self.state).time.hold_left(now)
    }

    /// Returns the rest of the minimum hold at `now`, for an unlock that ends the lease as `end`; `None` if the minimum
    /// hold is over. A force-unlock also ends the minimum hold, so the unlock of a revoked lease has no rest.
    pub(crate) fn rest(&self, end: LeaseEnd, now: Instant) -> Option<Duration> {
        let keeps = end != LeaseEnd::Lost(LossReason::Revoked);
        let rest = lock(&self.state).time.rest(now).filter(|_| keeps);
        mutation::altered(Mutation::DeleteDuringMinimumHold, rest, |_| None)
    }

    /// Returns the reason why the lease is not valid at `now`: the loss, or `Unlocked`. Returns `None` for a valid
    /// lease.
    pub(crate) fn loss_at(&self, now: Instant) -> Option<LossReason> {
        lock(&self.state).loss_at(now)
    }

    /// Returns the error that reports the loss of this lease. The lease does not change.
    pub(crate) fn lost(&self, reason: LossReason) -> LeaseLost {
        LeaseLost { resource: self.terms.resource.clone(), reason }
    }

    /// Waits for the next change of phase or validity. Create the future before you read the phase or the validity, so
    /// that no change is missed.
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Ends an active lease as lost. Returns whether the lease was active. If the lease was active, the caller has to
    /// submit the unlock.
    pub(crate) fn lose(&self, reason: LossReason) -> bool {
        let mut state = lock(&self.state);
        let was_active = state.phase == LeasePhase::Active;
        if was_active {
            state.phase = LeasePhase::Lost(reason);
        }
        drop(state);
        if was_active {
            self.changed.notify_waiters();
        }
        was_active
    }

    /// Adds a hold, unless the last hold was given back. Returns whether a hold was added. A lost lease with a hold
    /// accepts more holds, and their guards report the loss.
    pub(crate) fn enter(&self) -> bool {
        let mut state = lock(&self.state);
        let can_enter = state.holds > 0;
        if can_enter {
            state.holds += 1;
        }
        can_enter
    }

    /// Removes a hold. If the validity is over, the lease ends as lost, even if holds remain. Otherwise the last hold
    /// ends the lease as unlocked. After [`UnlockOutcome::Unlocked`] or [`UnlockOutcome::Lost`], the caller has to
    /// submit the unlock.
    pub(crate) fn leave(&self, now: Instant) -> UnlockOutcome {
        let mut state = lock(&self.state);
        state.holds = state.holds.saturating_sub(1);
        let (phase, outcome) = match (state.phase, state.loss_at(now)) {
            (LeasePhase::Active, Some(reason)) => (LeasePhase::Lost(reason), UnlockOutcome::Lost(reason)),
            (_, Some(reason)) => return UnlockOutcome::Over(reason),
            (_, None) if state.holds > 0 => return UnlockOutcome::Active,
            (_, None) => (LeasePhase::Unlocked, UnlockOutcome::Unlocked),
        };
        state.phase = phase;
        drop(state);
        self.changed.notify_waiters();
        outcome
    }

    /// Ends the span of the lease. Before the end, a loss is logged inside of the span, with the last reply of each
    /// node.
    pub(super) fn end_span(&self, context: &ClientContext, end: LeaseEnd) {
        self.span.end(
            || {
                if let LeaseEnd::Lost(reason) = end {
                    let replies = self.node_replies(context);
                    tracing::warn!(
                        resource = %self.terms.resource, id = %self.terms.lease_id, token = %self.terms.token, %reason,
                        %replies, "lease lost"
                    );
                }
            },
            end,
        );
    }

    /// Returns the queue node with its last answer.
    pub(crate) fn queue_node(&self) -> QueueNodeView {
        lock(&self.state).queue_node
    }

    /// Extends the validity after a quorum has confirmed the renewal that started at `start`. Returns false if the
    /// lease has already ended.
    pub(crate) fn extend(&self, start: Instant, clock: &dyn Clock) -> bool {
        let mut state = lock(&self.state);
        // The clock is read under the mutex. With an older time, the renewal could extend a lease whose end a guard has
        // already reported.
        let is_extended = state.phase == LeasePhase::Active && state.time.renew(start, clock.now());
        let valid_until = state.time.valid_until();
        drop(state);
        if is_extended {
            self.observer.lease_extended(self.terms.attempt, valid_until);
            self.changed.notify_waiters();
        }
        is_extended
    }

    /// Submits the unlock to every node that may have the key, and returns the outstanding replies. Nodes that have not
    /// confirmed are sent the unlock again until `until`. The caller has ended the lease before, by
    /// [`lose`](Self::lose) or [`leave`](Self::leave).
    ///
    /// With the `rest` of a minimum hold, the nodes keep the keys for this time.
    pub(crate) fn submit_unlock(
        &self,
        nodes: &[Arc<dyn Node>],
        until: Instant,
        rest: Option<Duration>,
    ) -> Vec<(usize, Reply)> {
        let mut state = lock(&self.state);
        let late = state.take_late();
        let has_waiters = state.queue_node.knows_of_waiters();
        type UnlockKind = (Tombstone, Instant);
        // Usually all nodes receive the same request.
        let mut requests: Vec<(UnlockKind, Request)> = Vec::with_capacity(1);
        let mut unlock = |tombstone, executed_by: Instant| {
            let kind = (tombstone, executed_by);
            if let Some((_, request)) = requests.iter().find(|(other, _)| *other == kind) {
                return request.clone();
            }
            let (resources, lease_id) = (self.terms.resources.clone(), self.terms.lease_id.clone());
            let unlock = Unlock { resources, lease_id, notify: true, tombstone, has_waiters, rest };
            let request = Request::one(Operation::Unlock(unlock), until);
            let request = request.blocks_until(state.time.latest_key_expiry(executed_by));
            requests.push((kind, request.clone()));
            request
        };
        let replies = state
            .queue_node
            .queue_node_first(nodes.len())
            .filter_map(|index| Some((index, nodes.get(index)?, state.nodes.get(index)?)))
            .filter(|(_, _, node_state)| node_state.is_touched || node_state.unanswered > 0)
            .map(|(index, node, node_state)| {
                let tombstone = match node_state {
                    // A request that arrives later would extend the ttls of the keys that stay.
                    _ if rest.is_some() && !mutation::is_on(Mutation::RestWithoutTombstone) => {
                        Tombstone::Always
                    }
                    NodeLeaseState { unanswered: 0, .. } => Tombstone::Never,
                    NodeLeaseState { was_renewed: false, .. } => Tombstone::IfMissing,
                    NodeLeaseState { .. } => Tombstone::Always,
                };
                let executed_by = node_state.executed_by.unwrap_or(match node_state.renewed_at {
                    Some(renewed_at) => renewed_at + self.terms.renewal_timeout,
                    None => self.registered_at + self.terms.lock_timeout,
                });
                (index, node.call(unlock(tombstone, executed_by)))
            })
            .collect();
        drop(state);
        late.report(&*self.observer);
        replies
    }

    /// Whether a client may wait for a resource that the lease only reads, according to the last answers of the queue
    /// nodes of these resources.
    pub(crate) fn may_have_waiters(&self, context: &ClientContext) -> bool {
        if self.terms.resources.len() == 1 {
            return !lock(&self.state).is_queue_empty();
        }
        let shared = self.terms.resources.each().filter(|(_, is_shared)| *is_shared);
        let queue_nodes: BTreeSet<Option<usize>> =
            shared.map(|(resource, _)| context.queue_node_order(resource).first().copied()).collect();
        let state = lock(&self.state);
        !queue_nodes.into_iter().all(|node| node.is_some_and(|node| state.has_no_queue_at(node)))
    }

    /// Returns the renewal for a node, and counts the renewal as unanswered there; `None` if the lease is not active.
    pub(crate) fn begin_renewal(
        &self,
        node: usize,
        ttl: RenewedTtl,
        may_have_waiters: bool,
        now: Instant,
    ) -> Option<Renew> {
        let mut state = lock(&self.state);
        if state.phase != LeasePhase::Active {
            return None;
        }
        // Answers to earlier requests are recorded before the renewal is sent, because the answer to the renewal is
        // newer.
        let late = state.take_late();
        if let Some(node_state) = state.nodes.get_mut(node) {
            node_state.renewal_begins(now);
        }
        let holds = state.holds;
        drop(state);
        late.report(&*self.observer);
        let (resources, lease_id) = (self.terms.resources.clone(), self.terms.lease_id.clone());
        let token = self.terms.token.as_u64();
        let (ttl, extends) = match ttl {
            RenewedTtl::Whole => (self.ttl(), true),
            RenewedTtl::Rest => (self.valid_until().saturating_duration_since(now), false),
        };
        self.observer.renewal_began(self.terms.attempt, ttl);
        Some(Renew { resources, lease_id, holds, ttl, extends, token, may_have_waiters })
    }

    /// Sends the number of holds to the nodes, without waiting for their answers.
    pub(crate) fn submit_holds(&self, nodes: &[Arc<dyn Node>], now: Instant) {
        let (ttl, may_have_waiters) = (RenewedTtl::Rest, true);
        for (index, node) in nodes.iter().enumerate() {
            let Some(mut renew) = self.begin_renewal(index, ttl, may_have_waiters, now) else { return };
            renew.holds = mutation::altered(Mutation::HoldsAsIncrements, renew.holds, |_| 0);
            let reply = node.call(Request::one(Operation::Renew(renew), now + self.terms.node_timeout));
            lock(&self.state).late.push((index, OperationKind::Renew, reply));
        }
    }

    /// Keeps the outstanding replies of a renewal that no call waits for. The next use of the node states reads the
    /// answers.
    pub(crate) fn keep_late(&self, replies: Vec<(usize, Reply)>) {
        let late = replies.into_iter().map(|(node, reply)| (node, OperationKind::Renew, reply));
        lock(&self.state).late.extend(late);
    }

    /// Records a node's answer to a renewal, at `now`.
    pub(crate) fn record_renewal(&self, node: usize, answer: &Answer, now: Instant) {
        self.observer.answered(node, OperationKind::Renew, answer);
        let mut state = lock(&self.state);
        let late = state.take_late();
        state.record_awaited(node, answer, now);
        drop(state);
        late.report(&*self.observer);
    }

    /// Returns the last reply of each node about the lease.
    pub(crate) fn node_replies(&self, context: &ClientContext) -> NodeReplies {
        let mut state = lock(&self.state);
        let late = state.take_late();
        let (node_timeout, now) = (self.terms.node_timeout, context.now());
        let replies =
            context.replies(state.nodes.iter().map(|node_state| node_state.reply(node_timeout, now)));
        drop(state);
        late.report(&*self.observer);
        replies
    }
}

impl ObservedLease for ActiveLease {
    fn attempt(&self) -> u64 {
        self.terms.attempt
    }

    fn mode(&self) -> Mode {
        Mode::of(&self.terms.resources)
    }

    fn token(&self) -> FencingToken {
        self.terms.token
    }

    fn valid_until(&self) -> Instant {
        Self::valid_until(self)
    }
}
