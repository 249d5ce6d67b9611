//! One node, and all that is between it and the clients.

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
        message::{AttemptId, FromNode, Reply, Request, ToNode, attempt_of, foreign_waiter, resource},
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

/// What a node is called by itself. A restart is a flush here: what tells incarnations apart is not
/// in question.
pub(super) const INCARNATION: &str = "";

/// One node, what is in flight to and from it, and what each client's attempt has heard of it.
///
/// Together in one value, so that nodes can change places: nothing in the protocol tells one from
/// another, and of states that differ only in that the search visits one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeModel {
    state: NodeState,
    /// What it comes back with if it restarts.
    saved: Option<Arc<NodeState>>,
    /// Whole seconds by which the node's clock is ahead of the others.
    ahead: u8,
    /// Sorted, so that the order of sending makes no difference.
    requests: Vec<Request>,
    replies: Vec<Reply>,
    pub(super) attempts: [NodeAttemptState; CLIENTS],
}

/// What an attempt has heard of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct NodeAttemptState {
    pub(super) lock: LockVote,
    pub(super) write_back: WriteBackState,
    /// Of the last renewal round.
    pub(super) renewal: Option<bool>,
    /// Renewals that are unanswered.
    pub(super) open_renewals: u8,
    /// A renewal has put the key there.
    pub(super) is_renewed: bool,
    /// The node restarted when the attempt had begun. Until that is decided, it is in quarantine.
    pub(super) began_before_restart: bool,
    /// What the unlock of the write lease leaves here that is given up for this attempt.
    pub(super) writer_tombstone: Option<Tombstone>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum LockVote {
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
            let init = Init { is_rehearsal: false, time: Duration::ZERO };
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

    /// Somebody else comes into its queue.
    pub(super) fn enqueue(&mut self, model: &Protocol) {
        self.state.apply(&model.parameters, &foreign_waiter(model.ttl()), self.time(0));
    }

    pub(super) fn requests(&self) -> &[Request] {
        &self.requests
    }

    pub(super) fn replies(&self) -> &[Reply] {
        &self.replies
    }

    pub(super) fn send(&mut self, request: Request) {
        let place = self.requests.partition_point(|other| *other < request);
        self.requests.insert(place, request);
    }

    /// Takes out of flight what is executed now, and will not be again.
    pub(super) fn arrive(&mut self, request: Request) {
        self.requests.remove(self.requests.iter().position(|other| *other == request).unwrap());
    }

    pub(super) fn take(&mut self, reply: Reply) {
        self.replies.remove(self.replies.iter().position(|other| *other == reply).unwrap());
    }

    pub(super) fn answer(&mut self, reply: Reply) {
        let place = self.replies.partition_point(|other| *other < reply);
        self.replies.insert(place, reply);
    }

    pub(super) fn keep_replies(&mut self, is_relevant: impl Fn(Reply) -> bool) {
        self.replies.retain(|reply| is_relevant(*reply));
    }

    /// The client's attempt is over: whatever it would have heard, nobody listens to.
    pub(super) fn forget_attempt(&mut self, client: usize) {
        self.attempts[client] = NodeAttemptState::default();
        self.replies.retain(|reply| reply.to.client != client);
    }

    /// What the node does, and what it says to it.
    pub(super) fn execute(&mut self, model: &Protocol, request: Request, now: u8) -> Option<FromNode> {
        let Request { of, message } = request;
        let owner = match model.rules.broken_rule {
            Some(BrokenRule::Mutation(Mutation::ReuseOwnerId)) => AttemptId { number: 1, ..of },
            _ => of,
        };
        let operation = request.operation(owner, model.bounds.is_reader(of), model.ttl());
        let was_held = self.is_held(now);
        let broken = model.rules.break_for_nodes();
        let answer = self.state.apply(&model.parameters, &operation, self.time(now)).answer.into_parts().0;
        drop(broken);
        if !model.bounds.is_queued {
            // They keep some out for a while, and who comes when is for the search to try.
            self.state.forget_marks();
        }
        if !model.bounds.are_tokens_counted() {
            self.state.set_counter(resource(), Some(lasting_counter(0)));
        }
        match (message, answer) {
            (ToNode::Unlock { .. }, _) => None,
            (_, Answer::Granted { vote }) => Some(FromNode::Granted { vote }),
            (_, Answer::WrittenBack) => Some(FromNode::WrittenBack(true)),
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
            (_, Answer::Held(_) | Answer::Queued(_) | Answer::Gone | Answer::Abstains(_)) => {
                Some(FromNode::Refused)
            }
            (message, answer) => panic!("a node answered {answer:?} to {message:?}"),
        }
    }

    pub(super) fn is_held(&self, now: u8) -> bool {
        self.state.held(resource(), self.time(now)).is_some()
    }

    /// Who shares the resource here, while the clocks stand still.
    pub(super) fn readers(&self) -> impl Iterator<Item = AttemptId> {
        let readers = self.state.readers(resource(), self.time(0));
        readers.into_iter().flat_map(|readers| readers.ends.keys().map(attempt_of))
    }

    /// Whether a key is here, or what belongs to one.
    pub(super) fn has_leftovers(&self, now: u8) -> bool {
        self.is_held(now) || self.state.stored_readers(resource()).is_some()
    }

    /// Whether the key is that of readers if there is one, and ends with the last of them; and
    /// whether they have an order that votes can keep.
    pub(super) fn agrees_with_readers(&self, now: u8) -> bool {
        let time = self.time(now);
        let key = self.state.held(resource(), time).filter(|held| held.owner.is_of_readers());
        let stored = self.state.stored_readers(resource());
        let ends = stored.iter().flat_map(|readers| readers.ends.values().copied());
        let last = ends.max().filter(|end| !end.is_past(time));
        key.map(|held| held.expires_at) == last && stored.is_none_or(|readers| readers.phase <= readers.epoch)
    }

    /// A tick has passed: what is over is forgotten.
    pub(super) fn tick(&mut self, now: u8) {
        self.state.sweep(NodeTime::from_epoch(now.into()));
    }

    /// A tick is a millisecond.
    fn time(&self, now: u8) -> NodeTime {
        NodeTime::from_epoch(u64::from(self.ahead) * 1000 + u64::from(now))
    }
}

/// A counter that outlives the search.
fn lasting_counter(value: u64) -> Counter {
    Counter { value, expires_at: NodeTime::from_epoch(3_600_000) }
}

/// A node and its digest, by which nodes are sorted and states told apart without looking at all of
/// it again.
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

    /// The node, to be changed: sealed again before anybody looks at the digest.
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
