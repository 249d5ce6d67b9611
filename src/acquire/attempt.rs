//! One attempt, performed.

use std::{sync::Arc, time::Duration};

use crate::{
    acquire::queue_entries::QueueEntries,
    algorithm::{
        attempt::{self, Attempt, AttemptStep, FailureReason, LockVote, Plan},
        lease::LeaseTime,
        node_set::NodeSet,
        node_view::{NodeView, holder},
        queueing::Deferral,
    },
    client::{
        fanout::{Fanout, Heard},
        in_flight_counter::InFlight,
        queue_node::QueueNode,
    },
    config::CheckedLock,
    lease::active_lease::{Acquired, NodeLeaseState},
    lock::core::Core,
    mutation::{self, Mutation},
    node::{Answer, Lock, Operation, Request, Resources, Tombstone, Unlock, WriteBack},
    observer::{AttemptEnd, Question},
    values::{FencingToken, NodeError, OwnerId, Resource, Vote, Votes},
};

mod hearing;

/// A checked lock request: what is to be locked, and how.
#[derive(Clone, Debug)]
pub(crate) struct CheckedRequest {
    /// The resource to speak of the lock by: the first.
    pub(crate) resource: Resource,
    pub(crate) resources: Resources,
    pub(crate) settings: CheckedLock,
}

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum AttemptOutcome {
    Acquired(Acquired),
    Failed(Failed),
}

/// What a failed attempt has seen; everything was taken back.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) reason: FailureReason,
    pub(crate) votes: Votes,
    pub(crate) views: Vec<NodeView>,
    /// The largest fencing counter seen, plus one; 0 if none was.
    pub(crate) hint: u64,
    /// How long it took.
    pub(crate) took: Duration,
    /// How a queue node has put this client off.
    pub(crate) deferral: Option<Deferral>,
    /// For which of the resources we were refused, if any.
    pub(crate) refused: Option<Refused>,
}

/// For which of some resources a lock was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) index: usize,
    /// Whether its queue node says so, or a quorum: single votes may be those of other clients that
    /// are about to give them back.
    pub(crate) is_sure: bool,
}

#[derive(Clone, Copy, Debug)]
enum Asked {
    /// As one who comes first.
    Lock,
    /// As one whose turn it is.
    Take,
    Enqueue,
    WriteBack,
}

impl Asked {
    fn question(self) -> Question {
        match self {
            Self::Lock | Self::Take | Self::Enqueue => Question::Lock,
            Self::WriteBack => Question::WriteBack,
        }
    }
}

/// Makes one attempt, with an owner id that no other attempt has; with an entry in the queue where
/// the plan asks for a turn.
///
/// # Cancel safety
///
/// Dropped at any point, it is rolled back on every node that was asked and has not definitely
/// refused: submitted at once, behind the lock on the same connection.
pub(crate) async fn attempt(
    core: &Core,
    checked: &CheckedRequest,
    plan: Plan,
    hint: u64,
    entries: Option<&mut QueueEntries>,
) -> AttemptOutcome {
    let mut performer = AttemptPerformer::new(core, checked, plan, hint, entries);
    if core.is_closed() {
        return AttemptOutcome::Failed(performer.failed(FailureReason::NoQuorum));
    }
    loop {
        match performer.attempt.step(core.now()) {
            AttemptStep::Lock { nodes, has_turn } => performer.send_lock(nodes, has_turn),
            AttemptStep::Enqueue(node) => performer.enqueue(node),
            AttemptStep::WriteBack { token, nodes } => performer.send_write_back(token, nodes),
            AttemptStep::Wait(deadline) => {
                if let Heard::Answer { node, tag, answer } =
                    performer.fanout.next(&*core.clock, deadline).await
                {
                    performer.hear(node, tag, answer);
                }
            }
            AttemptStep::Abandon => performer.roll_back(),
            AttemptStep::Acquired { token } => return AttemptOutcome::Acquired(performer.acquired(token)),
            AttemptStep::Failed(reason) => return AttemptOutcome::Failed(performer.failed(reason)),
        }
    }
}

struct AttemptPerformer<'a> {
    core: &'a Core,
    checked: &'a CheckedRequest,
    /// As the observer calls it.
    number: u64,
    owner: OwnerId,
    hint: u64,
    attempt: Attempt,
    fanout: Fanout<Asked>,
    votes: Vec<Vote>,
    /// Until the attempt is rolled back, or its lease is in somebody's care.
    in_flight: Option<InFlight>,
    views: Vec<NodeView>,
    largest_counter: u64,
    entries: Option<&'a mut QueueEntries>,
    deferral: Option<Deferral>,
    blocked: Option<usize>,
    queue_node: QueueNode,
    is_first: bool,
    /// Whether there is nothing to roll back (any more).
    is_settled: bool,
    /// Whether it is decided.
    is_decided: bool,
}

impl<'a> AttemptPerformer<'a> {
    fn new(
        core: &'a Core,
        checked: &'a CheckedRequest,
        plan: Plan,
        hint: u64,
        entries: Option<&'a mut QueueEntries>,
    ) -> Self {
        let settings = &core.settings;
        let is_first = matches!(plan, Plan::First(_));
        let queue_node = QueueNode::of(core, checked, entries.as_ref().map_or(0, |entries| entries.index()));
        let rules = attempt::Rules {
            electorate: settings.electorate,
            validity: settings.validity,
            ttl: checked.settings.ttl,
            node_timeout: checked.settings.node_timeout,
            attempt_timeout: settings.attempt_timeout,
            plan,
        };
        let nodes = core.nodes.len();
        let owner = core.owners.fresh();
        Self {
            core,
            checked,
            number: core.observer.attempt_began(&checked.resources, &owner),
            owner,
            hint,
            attempt: Attempt::new(rules, core.now()),
            fanout: Fanout::new(),
            votes: vec![Vote::NotAsked; nodes],
            in_flight: Some(core.attempts.enter()),
            views: vec![NodeView::NotAsked; nodes],
            largest_counter: 0,
            entries,
            deferral: None,
            blocked: None,
            queue_node,
            is_first,
            is_settled: false,
            is_decided: false,
        }
    }

    fn send_lock(&mut self, nodes: NodeSet, has_turn: bool) {
        let asked = if has_turn { Asked::Take } else { Asked::Lock };
        let request = self.request(Operation::Lock(self.lock(has_turn)));
        for node in nodes.iter() {
            self.fanout.send(&self.core.nodes, node, asked, request.clone());
            self.note(node, Vote::Pending, NodeView::Unknown);
        }
    }

    fn enqueue(&mut self, node: usize) {
        // The queue node that was asked before is passed over.
        if self
            .queue_node
            .node
            .and_then(|queue_node| self.votes.get(queue_node))
            .is_some_and(|vote| *vote != Vote::NotAsked)
        {
            self.queue_node.is_passed_over(self.core, node);
        }
        let lock = self.lock(true);
        let (entry, asked) = match &mut self.entries {
            Some(entries) => (entries.enqueue(node, lock), Asked::Enqueue),
            None => (Operation::Lock(lock), Asked::Take),
        };
        self.fanout.send(&self.core.nodes, node, asked, self.request(entry));
        self.note(node, Vote::Pending, NodeView::Unknown);
    }

    fn lock(&self, has_turn: bool) -> Lock {
        Lock {
            resources: Arc::clone(&self.checked.resources),
            owner: self.owner.clone(),
            ttl: self.checked.settings.ttl,
            hint: self.hint,
            has_turn,
        }
    }

    fn send_write_back(&mut self, token: u64, nodes: NodeSet) {
        let request = self.request(Operation::WriteBack(WriteBack {
            resources: Arc::clone(&self.checked.resources),
            owner: self.owner.clone(),
            token,
        }));
        for node in nodes.iter() {
            self.fanout.send(&self.core.nodes, node, Asked::WriteBack, request.clone());
        }
    }

    fn request(&self, entry: Operation) -> Request {
        Request::one(entry, self.core.now() + self.checked.settings.node_timeout)
    }

    /// Tells those that let their time pass from those that were not waited for.
    fn close_votes(&mut self) {
        let pending = self.attempt.pending();
        for (node, vote) in self.votes.iter_mut().enumerate() {
            if *vote == Vote::Pending && !pending.contains(node) {
                self.core.observer.answered(node, Question::Lock, &Answer::Error(NodeError::TimedOut));
                *vote = Vote::Unknown(NodeError::TimedOut);
            }
        }
    }

    fn decided(&mut self, end: AttemptEnd) {
        self.is_decided = true;
        self.core.observer.attempt_ended(end);
    }

    fn note(&mut self, node: usize, vote: Vote, view: NodeView) {
        if let Some(slot) = self.votes.get_mut(node) {
            *slot = vote;
        }
        if let Some(slot) = self.views.get_mut(node) {
            *slot = view;
        }
    }

    /// Unlocks wherever something of the attempt may be or arrive. It notifies nobody: nobody is to
    /// be woken by it.
    fn roll_back(&mut self) {
        if std::mem::replace(&mut self.is_settled, true) {
            return;
        }
        self.core.observer.attempt_lost(self.number);
        let keys_over = self.core.now() + self.core.settings.validity.seen_by_any(self.checked.settings.ttl);
        let unlock = |tombstone| {
            let (resources, owner) = (Arc::clone(&self.checked.resources), self.owner.clone());
            let entry =
                Operation::Unlock(Unlock { resources, owner, notify: false, tombstone, is_awaited: false });
            Request::one(entry, self.core.must_deliver_until()).blocks_until(keys_over)
        };
        let is_left = !mutation::is_on(Mutation::NoTombstoneForLock);
        let leaving = unlock(if is_left { Tombstone::IfMissing } else { Tombstone::Never });
        let clean = unlock(Tombstone::Never);
        let mut nodes = NodeSet::EMPTY;
        for (node, has_answered) in self.attempt.to_roll_back() {
            if mutation::is_on(Mutation::RollbackSkipsSilent) && !has_answered {
                continue;
            }
            if let Some(to) = self.core.nodes.get(node) {
                let request = if has_answered { &clean } else { &leaving };
                drop(to.call(request.clone()));
                nodes.insert(node);
            }
        }
        tracing::debug!(resource = %self.checked.resource, owner = %self.owner, ?nodes, "rollback");
    }

    fn acquired(&mut self, token: FencingToken) -> Acquired {
        self.is_settled = true;
        self.decided(AttemptEnd::Acquired);
        self.close_votes();
        let settings = &self.checked.settings;
        let time = LeaseTime::granted(
            self.attempt.start(),
            settings.ttl,
            self.core.settings.validity,
            settings.max_hold,
        );
        tracing::debug!(resource = %self.checked.resource, owner = %self.owner, %token, "acquired");
        Acquired {
            attempt: self.number,
            resource: self.checked.resource.clone(),
            resources: Arc::clone(&self.checked.resources),
            owner: self.owner.clone(),
            token,
            time,
            is_renewed: settings.is_renewed,
            node_timeout: settings.node_timeout,
            in_flight: self.in_flight.take(),
            nodes: self.attempt.lock_votes().iter().zip(&self.votes).map(node_lease_state).collect(),
            late: self.fanout.take_open(|asked| !matches!(asked, Asked::WriteBack)),
            queue_node: self.queue_node.acquired(self.core, &self.checked.resources),
        }
    }

    fn failed(&mut self, reason: FailureReason) -> Failed {
        if self.is_first && reason == FailureReason::Contended && self.deferral.is_none() {
            self.deferral = self.to_the_queue();
        }
        self.decided(AttemptEnd::Failed(reason));
        self.close_votes();
        let took = self.core.now().saturating_duration_since(self.attempt.start());
        let by_queue_node = |deferral: &Deferral| {
            let index = self.blocked.unwrap_or_default();
            QueueNode::of(self.core, self.checked, index).node == Some(deferral.node)
        };
        let is_sure = self.deferral.as_ref().is_some_and(by_queue_node)
            || holder(&self.views, self.core.settings.electorate).is_some();
        let votes = self.core.votes(self.votes.iter().cloned());
        tracing::debug!(resource = %self.checked.resource, owner = %self.owner, ?reason, %votes, "failed");
        Failed {
            reason,
            votes,
            views: std::mem::take(&mut self.views),
            hint: if self.largest_counter == 0 { 0 } else { self.largest_counter + 1 },
            took,
            deferral: self.deferral.take(),
            refused: self.blocked.map(|index| Refused { index, is_sure }),
        }
    }
}

/// The state of the lease at a node after the lock round.
fn node_lease_state((lock_vote, vote): (&LockVote, &Vote)) -> NodeLeaseState {
    let is_silent = *lock_vote == LockVote::Silent && !mutation::is_on(Mutation::NoTombstoneForLock);
    NodeLeaseState {
        vote: vote.clone(),
        is_touched: *lock_vote != LockVote::Unsent,
        unanswered: u32::from(is_silent),
        was_renewed: false,
        renewed_at: None,
        sent_at: None,
    }
}

impl Drop for AttemptPerformer<'_> {
    fn drop(&mut self) {
        self.roll_back();
        if !self.is_decided {
            self.core.observer.attempt_ended(AttemptEnd::Cancelled);
        }
    }
}
