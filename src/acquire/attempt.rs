//! One attempt, performed.

use std::sync::Arc;

use crate::{
    acquire::{checked_request::CheckedRequest, outcome::AttemptOutcome, queue_entries::QueueEntries},
    algorithm::{
        attempt::{Attempt, AttemptStep, FailureReason, Plan},
        failed_attempt::Deferral,
        node_set::NodeSet,
    },
    client::{
        context::ClientContext,
        fanout::{Fanout, FanoutEvent},
        in_flight_counter::InFlightGuard,
        queue_node_view::QueueNodeView,
    },
    clock::Instant,
    node::{Downgrade, Lock, Operation, Request, WriteBack},
    observer::OperationKind,
    values::{LeaseId, NodeReply},
};

mod ending;
mod hearing;

/// What earlier attempts of a waiter have shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Earlier {
    /// A vote that is large enough, as far as nodes have told.
    pub(super) hint: u64,
    /// How many of them, in a row, have split the votes with others.
    pub(super) splits: u32,
}

impl Earlier {
    /// Of an attempt that will be the only one, and waits for slow nodes as if there had been many.
    const ONLY_ONE: Self = Self { hint: 0, splits: u32::MAX };
}

#[derive(Clone, Copy, Debug)]
enum RequestKind {
    /// As one who comes first.
    Lock,
    /// As one whose turn it is.
    Take,
    Enqueue,
    WriteBack,
}

impl RequestKind {
    fn question(self) -> OperationKind {
        match self {
            Self::Lock | Self::Take | Self::Enqueue => OperationKind::Lock,
            Self::WriteBack => OperationKind::WriteBack,
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
    context: &ClientContext,
    checked: &CheckedRequest,
    plan: Plan,
    earlier: Earlier,
    entries: Option<&mut QueueEntries>,
) -> AttemptOutcome {
    perform(AttemptPerformer::new(context, checked, plan, earlier, entries)).await
}

/// Makes the attempt of a writer that is to read what it has, before this instant: later, others may
/// have had it.
///
/// # Cancel safety
///
/// As [`attempt`]; what the writer has is not taken back by it.
pub(crate) async fn attempt_to_downgrade(
    context: &ClientContext,
    checked: &CheckedRequest,
    writer: &LeaseId,
    until: Instant,
) -> AttemptOutcome {
    let mut performer =
        AttemptPerformer::new(context, checked, Plan::Downgrade(until), Earlier::ONLY_ONE, None);
    performer.writer = Some(writer.clone());
    perform(performer).await
}

async fn perform(mut performer: AttemptPerformer<'_>) -> AttemptOutcome {
    let context = performer.context;
    if context.is_closed() {
        return AttemptOutcome::Failed(performer.failed(FailureReason::NoQuorum));
    }
    loop {
        match performer.attempt.step(context.now()) {
            AttemptStep::Lock { nodes, has_turn } => performer.send_lock(nodes, has_turn),
            AttemptStep::Enqueue(node) => performer.enqueue(node),
            AttemptStep::WriteBack { token, nodes } => performer.send_write_back(token, nodes),
            AttemptStep::Wait(deadline) => {
                if let FanoutEvent::Answer { node, tag: (asked, at), answer } =
                    performer.fanout.next(&*context.clock, deadline).await
                {
                    performer.time_answer(node, at, &answer);
                    performer.hear(node, asked, answer);
                }
            }
            AttemptStep::Abandon => performer.roll_back(),
            AttemptStep::Acquired { token } => return AttemptOutcome::Acquired(performer.acquired(token)),
            AttemptStep::Failed(reason) => return AttemptOutcome::Failed(performer.failed(reason)),
        }
    }
}

/// Makes the attempt of somebody who waits for no turn. One that `is_only` is followed by no other, so it
/// waits for slow nodes where votes are split.
///
/// # Cancel safety
///
/// As [`attempt`].
pub(crate) async fn attempt_once(
    context: &ClientContext,
    checked: &CheckedRequest,
    is_only: bool,
) -> AttemptOutcome {
    let awaited = context.awaited_resource(&checked.resources).await;
    let plan = match awaited {
        Some(index) => Plan::Queued(checked.queue_nodes(context, index).to_vec()),
        None => checked.first_contact(context),
    };
    // It asks for a turn, and does not wait for one: it listens to nobody, so it enters no queue.
    let mut entries = awaited.map(|index| QueueEntries::new(context, checked, index, &Arc::default()));
    let earlier = if is_only { Earlier::ONLY_ONE } else { Earlier { hint: 0, splits: 0 } };
    let mut performer = AttemptPerformer::new(context, checked, plan, earlier, entries.as_mut());
    performer.gives_up = true;
    perform(performer).await
}

struct AttemptPerformer<'a> {
    context: &'a ClientContext,
    checked: &'a CheckedRequest,
    /// As the observer calls it.
    number: u64,
    owner: LeaseId,
    hint: u64,
    attempt: Attempt,
    /// By what was asked, and when.
    fanout: Fanout<(RequestKind, Instant)>,
    votes: Vec<NodeReply>,
    /// Until the attempt is rolled back, or its lease is in somebody's care.
    in_flight: Option<InFlightGuard>,
    largest_counter: u64,
    entries: Option<&'a mut QueueEntries>,
    deferral: Option<Deferral>,
    blocked: Option<usize>,
    queue_node: QueueNodeView,
    /// The owner that has the resource, and is to read it as another.
    writer: Option<LeaseId>,
    /// Whether it does not wait for these resources if it is refused.
    gives_up: bool,
    is_first: bool,
    /// Whether there is nothing to roll back (any more).
    is_settled: bool,
    /// Whether it is decided.
    is_decided: bool,
}

impl<'a> AttemptPerformer<'a> {
    fn new(
        context: &'a ClientContext,
        checked: &'a CheckedRequest,
        plan: Plan,
        earlier: Earlier,
        entries: Option<&'a mut QueueEntries>,
    ) -> Self {
        let is_first = matches!(plan, Plan::First(_));
        let index = entries.as_ref().map_or(0, |entries| entries.index());
        let nodes = context.nodes.len();
        let owner = context.owners.fresh();
        Self {
            context,
            checked,
            number: context.observer.attempt_began(&checked.resources, &owner),
            owner,
            hint: earlier.hint,
            attempt: Attempt::new(checked.settings.rules, plan, context.now()).after_splits(earlier.splits),
            fanout: Fanout::new(),
            votes: vec![NodeReply::NotAsked; nodes],
            in_flight: Some(context.attempts.enter()),
            largest_counter: 0,
            entries,
            deferral: None,
            blocked: None,
            queue_node: QueueNodeView::new(checked.queue_node(context, index), index),
            writer: None,
            gives_up: false,
            is_first,
            is_settled: false,
            is_decided: false,
        }
    }

    fn send_lock(&mut self, nodes: NodeSet, has_turn: bool) {
        let asked = if has_turn { RequestKind::Take } else { RequestKind::Lock };
        let lock = self.lock(has_turn);
        let operation = match self.writer.clone() {
            Some(writer) => Operation::Downgrade(Downgrade { lock, writer }),
            None => Operation::Lock(lock),
        };
        let now = self.context.now();
        let request = self.request(operation, now);
        for node in nodes.iter() {
            self.fanout.send(&self.context.nodes, node, (asked, now), request.clone());
            self.note(node, NodeReply::Pending);
        }
    }

    fn enqueue(&mut self, node: usize) {
        let now = self.context.now();
        // The queue node that was asked before is passed over.
        if self
            .queue_node
            .node
            .and_then(|queue_node| self.votes.get(queue_node))
            .is_some_and(|vote| *vote != NodeReply::NotAsked)
        {
            self.queue_node.pass_over(&self.context.queues, node, now);
        }
        let lock = self.lock(true);
        let (operation, asked) = match &mut self.entries {
            Some(entries) => (entries.enqueue(node, lock), RequestKind::Enqueue),
            None => (Operation::Lock(lock), RequestKind::Take),
        };
        self.fanout.send(&self.context.nodes, node, (asked, now), self.request(operation, now));
        self.note(node, NodeReply::Pending);
    }

    fn lock(&self, has_turn: bool) -> Lock {
        Lock {
            resources: self.checked.resources.clone(),
            owner: self.owner.clone(),
            ttl: self.checked.settings.rules.ttl,
            hint: self.hint,
            has_turn,
            gives_up: self.gives_up,
        }
    }

    fn send_write_back(&mut self, token: u64, nodes: NodeSet) {
        let (resources, owner) = (self.checked.resources.clone(), self.owner.clone());
        let now = self.context.now();
        let request = self.request(Operation::WriteBack(WriteBack { resources, owner, token }), now);
        for node in nodes.iter() {
            self.fanout.send(&self.context.nodes, node, (RequestKind::WriteBack, now), request.clone());
        }
    }

    fn request(&self, operation: Operation, now: Instant) -> Request {
        Request::one(operation, now + self.checked.settings.rules.node_timeout)
    }

    fn note(&mut self, node: usize, vote: NodeReply) {
        if let Some(slot) = self.votes.get_mut(node) {
            *slot = vote;
        }
    }
}
