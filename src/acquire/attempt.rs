//! One attempt, performed.

use std::sync::Arc;

use crate::{
    acquire::{
        checked_request::CheckedRequest,
        outcome::{AttemptOutcome, Failed, Refused},
        queue_entries::QueueEntries,
    },
    algorithm::{
        attempt::{self, Attempt, AttemptStep, FailureReason, LockVote, Plan},
        lease::LeaseTime,
        node_set::NodeSet,
        node_view::{NodeView, holder},
        queueing::Deferral,
    },
    client::{
        environment::Environment,
        fanout::{Fanout, Heard},
        in_flight_counter::InFlight,
        queue_node::QueueNode,
    },
    lease::active_lease::{Acquired, NodeLeaseState},
    mutation::{self, Mutation},
    node::{Answer, Lock, Operation, Request, Tombstone, Unlock, WriteBack},
    observer::{AttemptEnd, Question},
    values::{FencingToken, NodeError, OwnerId, Vote},
};

mod hearing;

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
pub(super) async fn attempt(
    environment: &Environment,
    checked: &CheckedRequest,
    plan: Plan,
    hint: u64,
    entries: Option<&mut QueueEntries>,
) -> AttemptOutcome {
    let mut performer = AttemptPerformer::new(environment, checked, plan, hint, entries);
    if environment.is_closed() {
        return AttemptOutcome::Failed(performer.failed(FailureReason::NoQuorum));
    }
    loop {
        match performer.attempt.step(environment.now()) {
            AttemptStep::Lock { nodes, has_turn } => performer.send_lock(nodes, has_turn),
            AttemptStep::Enqueue(node) => performer.enqueue(node),
            AttemptStep::WriteBack { token, nodes } => performer.send_write_back(token, nodes),
            AttemptStep::Wait(deadline) => {
                if let Heard::Answer { node, tag, answer } =
                    performer.fanout.next(&*environment.clock, deadline).await
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

/// Makes the attempt of somebody who does not wait.
///
/// # Cancel safety
///
/// As [`attempt`].
pub(crate) async fn attempt_once(environment: &Environment, checked: &CheckedRequest) -> AttemptOutcome {
    let Some(index) = environment.awaited_resource(&checked.resources).await else {
        return attempt(environment, checked, checked.first_contact(environment), 0, None).await;
    };
    // It asks for a turn, and does not wait for one: it listens to nobody, so it enters no queue.
    let resource = checked.resource_at(index);
    let mut entries = QueueEntries::new(environment, resource, index, &checked.settings, &Arc::default());
    let plan = Plan::Queued(checked.queue_nodes(environment, index).to_vec());
    attempt(environment, checked, plan, 0, Some(&mut entries)).await
}

struct AttemptPerformer<'a> {
    environment: &'a Environment,
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
        environment: &'a Environment,
        checked: &'a CheckedRequest,
        plan: Plan,
        hint: u64,
        entries: Option<&'a mut QueueEntries>,
    ) -> Self {
        let settings = &environment.settings;
        let is_first = matches!(plan, Plan::First(_));
        let queue_node = {
            let index = entries.as_ref().map_or(0, |entries| entries.index());
            QueueNode::new(checked.queue_node(environment, index), index)
        };
        let rules = attempt::Rules {
            electorate: settings.electorate,
            validity: settings.validity,
            ttl: checked.settings.ttl,
            node_timeout: checked.settings.node_timeout,
            attempt_timeout: settings.attempt_timeout,
            plan,
        };
        let nodes = environment.nodes.len();
        let owner = environment.owners.fresh();
        Self {
            environment,
            checked,
            number: environment.observer.attempt_began(&checked.resources, &owner),
            owner,
            hint,
            attempt: Attempt::new(rules, environment.now()),
            fanout: Fanout::new(),
            votes: vec![Vote::NotAsked; nodes],
            in_flight: Some(environment.attempts.enter()),
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
            self.fanout.send(&self.environment.nodes, node, asked, request.clone());
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
            self.queue_node.is_passed_over(&self.environment.queues, node);
        }
        let lock = self.lock(true);
        let (entry, asked) = match &mut self.entries {
            Some(entries) => (entries.enqueue(node, lock), Asked::Enqueue),
            None => (Operation::Lock(lock), Asked::Take),
        };
        self.fanout.send(&self.environment.nodes, node, asked, self.request(entry));
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
            self.fanout.send(&self.environment.nodes, node, Asked::WriteBack, request.clone());
        }
    }

    fn request(&self, operation: Operation) -> Request {
        Request::one(operation, self.environment.now() + self.checked.settings.node_timeout)
    }

    /// Tells those that let their time pass from those that were not waited for.
    fn close_votes(&mut self) {
        let pending = self.attempt.pending();
        for (node, vote) in self.votes.iter_mut().enumerate() {
            if *vote == Vote::Pending && !pending.contains(node) {
                self.environment.observer.answered(node, Question::Lock, &Answer::Error(NodeError::TimedOut));
                *vote = Vote::Unknown(NodeError::TimedOut);
            }
        }
    }

    fn decided(&mut self, end: AttemptEnd) {
        self.is_decided = true;
        self.environment.observer.attempt_ended(end);
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
        self.environment.observer.attempt_lost(self.number);
        let keys_over = self.environment.now()
            + self.environment.settings.validity.seen_by_any(self.checked.settings.ttl);
        let unlock = |tombstone| {
            let (resources, owner) = (Arc::clone(&self.checked.resources), self.owner.clone());
            let operation =
                Operation::Unlock(Unlock { resources, owner, notify: false, tombstone, is_awaited: false });
            Request::one(operation, self.environment.must_deliver_until()).blocks_until(keys_over)
        };
        let is_left = !mutation::is_on(Mutation::NoTombstoneForLock);
        let leaving = unlock(if is_left { Tombstone::IfMissing } else { Tombstone::Never });
        let clean = unlock(Tombstone::Never);
        let mut nodes = NodeSet::EMPTY;
        for (node, has_answered) in self.attempt.to_roll_back() {
            if mutation::is_on(Mutation::RollbackSkipsSilent) && !has_answered {
                continue;
            }
            if let Some(to) = self.environment.nodes.get(node) {
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
            self.environment.settings.validity,
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
            queue_node: self.queue_node.acquired(&self.environment.queues, &self.checked.resources),
        }
    }

    fn failed(&mut self, reason: FailureReason) -> Failed {
        if self.is_first && reason == FailureReason::Contended && self.deferral.is_none() {
            self.deferral = self.to_the_queue();
        }
        self.decided(AttemptEnd::Failed(reason));
        self.close_votes();
        let took = self.environment.now().saturating_duration_since(self.attempt.start());
        let by_queue_node = |deferral: &Deferral| {
            let index = self.blocked.unwrap_or_default();
            self.checked.queue_node(self.environment, index) == Some(deferral.node)
        };
        let is_sure = self.deferral.as_ref().is_some_and(by_queue_node)
            || holder(&self.views, self.environment.settings.electorate).is_some();
        let votes = self.environment.votes(self.votes.iter().cloned());
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
            self.environment.observer.attempt_ended(AttemptEnd::Cancelled);
        }
    }
}
