//! An active lease, shared by its guard, the watchdog and the expiry.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    algorithm::lease::LeaseTime,
    client::{environment::Environment, in_flight_counter::InFlight, queue_node::QueueNode},
    clock::{Clock, Instant},
    error::{LeaseLost, LossReason},
    lease::schedule::LeaseId,
    mutation::{self, Mutation},
    mutex::lock,
    node::{Answer, Node, Operation, Renew, Reply, Request, Resources, Tombstone, Unlock},
    observer::{ObservedLease, Observer, Question},
    values::{FencingToken, OwnerId, Resource, Votes},
};

pub(crate) use self::lease_state::NodeLeaseState;
use self::lease_state::{Late, LeasePhase, LeaseState};

mod lease_state;

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
    pub(crate) id: LeaseId,
    /// The attempt that acquired it, as the observer calls it.
    pub(crate) attempt: u64,
    /// The first of the resources, to speak of the lease by.
    pub(crate) resource: Resource,
    pub(crate) resources: Resources,
    pub(crate) owner: OwnerId,
    pub(crate) token: FencingToken,
    pub(crate) is_renewed: bool,
    /// How long a node's answer to a renewal or an unlock is waited for.
    pub(crate) node_timeout: Duration,
    /// Since when it is in care.
    pub(crate) since: Instant,
    observer: Arc<dyn Observer>,
    state: Mutex<LeaseState>,
    /// Told whenever the phase or the validity changes.
    changed: Notify,
}

/// What an attempt has acquired, about to become a lease.
#[derive(Debug)]
pub(crate) struct Acquired {
    pub(crate) attempt: u64,
    pub(crate) resource: Resource,
    pub(crate) resources: Resources,
    pub(crate) owner: OwnerId,
    pub(crate) token: FencingToken,
    pub(crate) time: LeaseTime,
    pub(crate) is_renewed: bool,
    pub(crate) node_timeout: Duration,
    pub(crate) nodes: Vec<NodeLeaseState>,
    pub(crate) late: Vec<(usize, Reply)>,
    pub(crate) queue_node: QueueNode,
    /// Keeps a shutdown waiting until the lease is in somebody's care.
    pub(crate) in_flight: Option<InFlight>,
}

/// The outcome of giving back a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnlockOutcome {
    /// Others remain.
    Active,
    /// It was the last.
    Unlocked,
    /// The lease had ended before.
    Over,
}

impl ActiveLease {
    pub(crate) fn new(id: LeaseId, acquired: Acquired, since: Instant, observer: Arc<dyn Observer>) -> Self {
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
            observer,
            state,
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

    /// One hold less. With the last one the lease leaves the active phase as unlocked: the caller
    /// that gets [`UnlockOutcome::Unlocked`] has to submit the unlock.
    pub(crate) fn leave(&self) -> UnlockOutcome {
        let mut state = lock(&self.state);
        state.holds = state.holds.saturating_sub(1);
        let left = match state.phase {
            LeasePhase::Active if state.holds == 0 => UnlockOutcome::Unlocked,
            LeasePhase::Active => UnlockOutcome::Active,
            LeasePhase::Unlocked | LeasePhase::Lost(_) => UnlockOutcome::Over,
        };
        if left == UnlockOutcome::Unlocked {
            state.phase = LeasePhase::Unlocked;
            drop(state);
            self.changed.notify_waiters();
        }
        left
    }

    /// Submits the unlock to every node that may have the key. Not before [`lose`] or
    /// [`leave`] has said so.
    ///
    /// [`lose`]: Self::lose
    /// [`leave`]: Self::leave
    pub(crate) fn submit_unlock(&self, nodes: &[Arc<dyn Node>], until: Instant) -> Vec<(usize, Reply)> {
        let mut state = lock(&self.state);
        let heard = state.hear_late();
        let is_awaited = state.queue_node.says_awaited();
        type Kind = (Tombstone, Option<Instant>);
        // Mostly one is for all nodes.
        let mut requests: Vec<(Kind, Request)> = Vec::with_capacity(1);
        let mut unlock = |tombstone, renewed_at: Option<Instant>| {
            let kind = (tombstone, renewed_at);
            if let Some((_, request)) = requests.iter().find(|(known, _)| *known == kind) {
                return request.clone();
            }
            let (resources, owner) = (Arc::clone(&self.resources), self.owner.clone());
            let unlock = Unlock { resources, owner, notify: true, tombstone, is_awaited };
            let executed_by = renewed_at.unwrap_or(self.since) + self.node_timeout;
            let request = Request::one(Operation::Unlock(unlock), until);
            let request = request.blocks_until(state.time.key_over(executed_by));
            requests.push((kind, request.clone()));
            request
        };
        let targets = nodes.iter().zip(&state.nodes).enumerate();
        let replies = targets
            .filter(|(_, (_, node_state))| node_state.is_touched || node_state.unanswered > 0)
            .map(|(index, (node, node_state))| {
                let tombstone = match node_state {
                    NodeLeaseState { unanswered: 0, .. } => Tombstone::Never,
                    NodeLeaseState { was_renewed: false, .. } => Tombstone::IfMissing,
                    NodeLeaseState { .. } => Tombstone::Always,
                };
                (index, node.call(unlock(tombstone, node_state.renewed_at)))
            })
            .collect();
        drop(state);
        self.tell(heard);
        replies
    }

    /// The queue node, and what it has said.
    pub(crate) fn queue_node(&self) -> QueueNode {
        lock(&self.state).queue_node
    }

    /// The renewal for one node, noted as unanswered there; `None` once the lease is not active any
    /// more.
    pub(crate) fn begin_renewal(&self, node: usize, ttl: Duration, now: Instant) -> Option<Renew> {
        let mut state = lock(&self.state);
        if state.phase != LeasePhase::Active {
            return None;
        }
        // Before it is overtaken: the node's answer to this is later than its answer to the lock.
        let heard = state.hear_late();
        let is_noted = !mutation::is_on(Mutation::NoTombstoneForRenewal);
        if let Some(node_state) = state.nodes.get_mut(node).filter(|_| is_noted) {
            node_state.unanswered += 1;
            node_state.was_renewed = true;
            // One that is not answered yet may still be executed, whatever becomes of this one.
            node_state.sent_at = node_state.renewed_at;
            node_state.renewed_at = Some(now);
        }
        let holds = state.holds;
        drop(state);
        self.tell(heard);
        let (resources, owner) = (Arc::clone(&self.resources), self.owner.clone());
        Some(Renew { resources, owner, holds, ttl, token: self.token.as_u64() })
    }

    /// Tells the nodes the number of holds, without waiting for them.
    pub(crate) fn submit_holds(&self, nodes: &[Arc<dyn Node>], ttl: Duration, now: Instant) {
        for (index, node) in nodes.iter().enumerate() {
            let Some(mut renew) = self.begin_renewal(index, ttl, now) else { return };
            if mutation::is_on(Mutation::HoldsAsIncrements) {
                renew.holds = 0;
            }
            let reply = node.call(Request::one(Operation::Renew(renew), now + self.node_timeout));
            lock(&self.state).late.push((index, Question::Renew, reply));
        }
    }

    /// Replies to the lease's renewals that nobody waits for any longer: they are heard when
    /// somebody asks.
    pub(crate) fn hear_later(&self, replies: Vec<(usize, Reply)>) {
        let late = replies.into_iter().map(|(node, reply)| (node, Question::Renew, reply));
        lock(&self.state).late.extend(late);
    }

    /// A node's answer to a renewal.
    pub(crate) fn note_renewal(&self, node: usize, answer: &Answer) {
        self.observer.answered(node, Question::Renew, answer);
        let mut state = lock(&self.state);
        let heard = state.hear_late();
        state.note(node, answer);
        drop(state);
        self.tell(heard);
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

    /// Every node's last word on the lease.
    pub(crate) fn votes(&self, environment: &Environment) -> Votes {
        let mut state = lock(&self.state);
        let heard = state.hear_late();
        let votes = environment.votes(state.nodes.iter().map(|node_state| node_state.vote.clone()));
        drop(state);
        self.tell(heard);
        votes
    }

    /// Tells the observer. Not under the mutex: a recorder of metrics is anybody's code, and a loss
    /// must not wait for it.
    fn tell(&self, heard: Vec<Late>) {
        for (node, question, answer) in heard {
            self.observer.answered(node, question, &answer);
        }
    }
}

impl ObservedLease for ActiveLease {
    fn attempt(&self) -> u64 {
        self.attempt
    }

    fn token(&self) -> FencingToken {
        self.token
    }

    fn valid_until(&self) -> Instant {
        Self::valid_until(self)
    }
}
