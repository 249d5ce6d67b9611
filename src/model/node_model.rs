//! One node, with the messages between the node and the clients.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    ops::Deref,
    sync::Arc,
    time::Duration,
};

use crate::{
    model::{
        CLIENTS,
        bounds::ModelProperty,
        message::{
            FromNode, ModelAttempt, Reply, Request, TICKET, ToNode, attempt_of, foreign_waiter, resource,
        },
        protocol::Protocol,
        rules::BrokenRule,
    },
    mutation::Mutation,
    node::{
        Answer, Init, Operation, QuorumParameters, RestartGuard, Tombstone,
        state::{Counter, NodeState, NodeTime},
    },
};

mod faults;

/// The incarnation of every node. A crash or a restart replaces the data of a node and keeps the
/// incarnation, because the detection of restarts is out of scope.
pub(super) const INCARNATION: &str = "";

/// One node, its messages in flight, and the answers of the node that the attempt of each client
/// has received.
///
/// The protocol does not distinguish nodes. Therefore the search visits only one of the states that
/// differ only in the order of the nodes. All data about a node is in this value, so that sorting
/// the nodes moves the data, too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeModel {
    state: NodeState,
    /// The state that a restart will restore, if a state was saved.
    saved: Option<Arc<NodeState>>,
    /// The whole seconds by which the node's clock is ahead.
    ahead: u8,
    /// The requests in flight, sorted, so that the order of sending makes no difference.
    requests: Vec<Request>,
    replies: Vec<Reply>,
    pub(super) attempts: [NodeAttemptState; CLIENTS],
}

/// The answers that an attempt has received from a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct NodeAttemptState {
    pub(super) lock: ModelLockVote,
    pub(super) write_back: WriteBackState,
    /// Whether the node counts for the last renewal round; `None` until the node has answered.
    pub(super) renewal: Option<bool>,
    /// The number of unanswered renewals.
    pub(super) open_renewals: u8,
    /// Whether a renewal has written the key.
    pub(super) is_renewed: bool,
    /// Whether the attempt began before the restart of the node. If so, the node is in quarantine
    /// until the attempt is decided.
    pub(super) began_before_restart: bool,
    /// The tombstone that the unlock of the replaced write lease leaves, if this attempt is a
    /// downgrade.
    pub(super) writer_tombstone: Option<Tombstone>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum ModelLockVote {
    #[default]
    Unanswered,
    Granted(u64),
    Refused,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum WriteBackState {
    #[default]
    NotSent,
    Unanswered,
    WrittenBack,
    Refused,
}

impl NodeModel {
    pub(super) fn new(parameters: &QuorumParameters, counter: u64) -> Self {
        let mut state = NodeState::new(INCARNATION);
        if parameters.guard != RestartGuard::Off {
            let init = Init { is_dry_run: false, time: Duration::ZERO };
            state.apply(parameters, &Operation::Init(init), NodeTime::from_epoch(0));
        }
        state.set_counter(resource(), Some(lasting_counter(counter)));
        Self {
            state,
            saved: None,
            ahead: 0,
            requests: Vec::new(),
            replies: Vec::new(),
            attempts: Default::default(),
        }
    }

    /// Adds a waiter that is no client of the model to the node's queue.
    pub(super) fn enqueue(&mut self, model: &Protocol) {
        self.state.apply(&model.parameters, &foreign_waiter(model.ttl()), self.time(0));
    }

    pub(super) fn requests(&self) -> &[Request] {
        &self.requests
    }

    pub(super) fn replies(&self) -> &[Reply] {
        &self.replies
    }

    pub(super) fn add_request(&mut self, request: Request) {
        let place = self.requests.partition_point(|other| *other < request);
        self.requests.insert(place, request);
    }

    /// Removes a request that is executed now, and not again, from the messages in flight.
    pub(super) fn remove_request(&mut self, request: Request) {
        self.requests.remove(self.requests.iter().position(|other| *other == request).unwrap());
    }

    pub(super) fn remove_reply(&mut self, reply: Reply) {
        self.replies.remove(self.replies.iter().position(|other| *other == reply).unwrap());
    }

    pub(super) fn add_reply(&mut self, reply: Reply) {
        let place = self.replies.partition_point(|other| *other < reply);
        self.replies.insert(place, reply);
    }

    pub(super) fn keep_replies(&mut self, is_relevant: impl Fn(Reply) -> bool) {
        self.replies.retain(|reply| is_relevant(*reply));
    }

    /// Removes the state and the replies of the client's ended attempt.
    pub(super) fn forget_attempt(&mut self, client: usize) {
        self.attempts[client] = NodeAttemptState::default();
        self.replies.retain(|reply| reply.to.client != client);
    }

    /// Executes a request on the node. Returns the answer; `None` for an unlock.
    pub(super) fn execute(&mut self, model: &Protocol, request: Request, now: u8) -> Option<FromNode> {
        let Request { of, message } = request;
        let lease_id = match model.rules.broken_rule {
            Some(BrokenRule::Mutation(Mutation::ReuseLeaseId)) => ModelAttempt { number: 1, ..of },
            Some(BrokenRule::Mutation(Mutation::RedeemAsTicket))
                if matches!(message, ToNode::Redeem { .. }) =>
            {
                TICKET
            }
            _ => of,
        };
        let operation = request.operation(lease_id, model.bounds.is_reader(of), model.ttl());
        let was_held = self.is_held(now);
        let broken = model.rules.break_in_crate();
        let answer = self.state.apply(&model.parameters, &operation, self.time(now)).answer.into_parts().0;
        drop(broken);
        if !model.bounds.is_queued {
            // Marks only refuse some clients for a time. The search tries every order of clients, so
            // marks would only add states.
            self.state.clear_marks();
        }
        if !model.bounds.are_tokens_counted() {
            self.state.set_counter(resource(), Some(lasting_counter(0)));
        }
        match (message, answer) {
            (ToNode::Unlock { .. }, _) => None,
            (_, Answer::Granted { vote }) => Some(FromNode::Granted { vote }),
            (_, Answer::WrittenBack) => Some(FromNode::WrittenBack(true)),
            (ToNode::Redeem { .. }, Answer::NotWrittenBack { .. }) => Some(FromNode::Refused),
            (_, Answer::NotWrittenBack { .. }) => Some(FromNode::WrittenBack(false)),
            (ToNode::WriteBack { .. }, Answer::Abstains(_)) => Some(FromNode::WrittenBack(false)),
            (ToNode::Renew { round, .. }, Answer::Renewed { proves }) => {
                let counts = match model.bounds.property {
                    ModelProperty::ProofsHold if model.rules.breaks(BrokenRule::VerifyByKey) => was_held,
                    ModelProperty::ProofsHold => proves,
                    _ => true,
                };
                Some(FromNode::Renewed { round, counts })
            }
            (ToNode::Renew { round, .. }, _) => Some(FromNode::NotRenewed { round }),
            (_, Answer::Held(_) | Answer::Queued(_) | Answer::Tombstone | Answer::Abstains(_)) => {
                Some(FromNode::Refused)
            }
            (message, answer) => panic!("a node answered {answer:?} to {message:?}"),
        }
    }

    pub(super) fn is_held(&self, now: u8) -> bool {
        self.state.held(resource(), self.time(now)).is_some()
    }

    /// Returns the readers of the resource, while the clocks stand still.
    pub(super) fn readers(&self) -> impl Iterator<Item = ModelAttempt> {
        let readers = self.state.readers(resource(), self.time(0));
        readers.into_iter().flat_map(|readers| readers.ends.keys().map(attempt_of))
    }

    /// Whether the node has a key or data of a key.
    pub(super) fn has_leftovers(&self, now: u8) -> bool {
        self.is_held(now) || self.state.stored_readers(resource()).is_some()
    }

    /// Whether the node has a shared key exactly while there are readers, the key ends with the last
    /// reader, and the phase is not above the epoch.
    pub(super) fn agrees_with_readers(&self, now: u8) -> bool {
        let time = self.time(now);
        let key = self.state.held(resource(), time).filter(|held| held.lease_id.is_of_readers());
        let stored = self.state.stored_readers(resource());
        let ends = stored.iter().flat_map(|readers| readers.ends.values().copied());
        let last = ends.max().filter(|end| !end.is_past(time));
        key.map(|held| held.expires_at) == last && stored.is_none_or(|readers| readers.phase <= readers.epoch)
    }

    /// Removes expired data after a tick.
    pub(super) fn tick(&mut self, now: u8) {
        self.state.sweep(NodeTime::from_epoch(now.into()));
    }

    /// Returns the time of the node. A tick is one millisecond.
    fn time(&self, now: u8) -> NodeTime {
        NodeTime::from_epoch(u64::from(self.ahead) * 1000 + u64::from(now))
    }
}

/// Returns a counter that does not expire during the search.
fn lasting_counter(value: u64) -> Counter {
    Counter { value, expires_at: NodeTime::from_epoch(3_600_000) }
}

/// A node with its digest. Nodes are sorted, and states are hashed, by digest alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sealed {
    digest: u64,
    node: Arc<NodeModel>,
}

impl Sealed {
    pub(super) fn new(node: NodeModel) -> Self {
        let mut sealed = Self { digest: 0, node: Arc::new(node) };
        sealed.seal();
        sealed
    }

    pub(super) fn digest(&self) -> u64 {
        self.digest
    }

    /// Returns the node for a change, and deletes the digest. Before the next use of the digest,
    /// [`seal`](Self::seal) must compute the digest again.
    pub(super) fn open(&mut self) -> &mut NodeModel {
        self.digest = 0;
        Arc::make_mut(&mut self.node)
    }

    pub(super) fn seal(&mut self) {
        if self.digest == 0 {
            let mut hasher = DefaultHasher::new();
            self.node.hash(&mut hasher);
            self.digest = hasher.finish();
        }
    }
}

impl Deref for Sealed {
    type Target = NodeModel;

    fn deref(&self) -> &NodeModel {
        &self.node
    }
}

impl Hash for Sealed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}
