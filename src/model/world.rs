//! One state of a search.

use crate::{
    model::{
        CLIENTS, NODES,
        bounds::{Expiries, ModelProperty},
        message::{AttemptId, FromNode, Reply, Request, ToNode},
        node_model::{LockVote, NodeModel, Sealed, WriteBackState},
        protocol::Protocol,
    },
    mutation::Mutation,
};

/// Everything at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    /// Sorted: nodes can change places.
    pub(super) nodes: [Sealed; NODES],
    pub(super) clients: [ModelClient; CLIENTS],
    pub(super) now: u8,
    /// As many of the leases granted so far as the property asks about, sorted.
    pub(super) granted: Vec<Granted>,
    pub(super) expiries: Expiries,
    pub(super) duplicates: u8,
    pub(super) repeats: u8,
    pub(super) losses: u8,
    pub(super) crashes: u8,
    pub(super) restarts: u8,
    /// What has gone wrong, where a state does not show it by itself.
    pub(super) flaw: Option<Flaw>,
}

/// A lease that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Granted {
    pub(super) token: u64,
    pub(super) is_reader: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Flaw {
    /// A token was granted twice, not to readers both times.
    RepeatedToken(u64),
    /// A token was granted after a larger one.
    FallingToken(u64),
    /// A lease was verified after a larger token was granted that it conflicts with.
    FalseProof(u64),
    /// A writer was granted a lease between a write lease and the read lease that followed it.
    WriterBetween,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModelClient {
    /// How many attempts it has begun.
    pub(super) begun: u8,
    pub(super) phase: ClientPhase,
    /// The tick at which the attempt began.
    pub(super) start: u8,
    /// Above this its token has to be, because of what had been granted then.
    pub(super) floor: u64,
    /// What it gives up for the lease that it wants, if it downgrades.
    pub(super) downgrade: Option<PendingDowngrade>,
}

/// A write lease that is given up for a read lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PendingDowngrade {
    pub(super) writer: AttemptId,
    /// Where there are ticks: the first at which it is over.
    pub(super) valid_until: u8,
    /// Whether another writer has been granted a lease since.
    pub(super) has_later_writer: bool,
}

impl ModelClient {
    const IDLE: Self = Self { begun: 0, phase: ClientPhase::Idle, start: 0, floor: 0, downgrade: None };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ClientPhase {
    Idle,
    Locking,
    Confirming { token: u64 },
    Holding(ModelLease),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModelLease {
    pub(super) token: u64,
    /// Where there are ticks: the first at which it is over.
    pub(super) valid_until: u8,
    /// Renewal rounds begun.
    pub(super) rounds: u8,
    /// The last of them, if it is undecided.
    pub(super) round: Option<ModelRound>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModelRound {
    pub(super) start: u8,
    /// The largest token that had been granted at its start to anybody whom the lease is in
    /// conflict with.
    pub(super) largest_before: u64,
}

impl World {
    pub(super) fn new(model: &Protocol, counters: [u64; NODES]) -> Self {
        let mut world = Self {
            nodes: counters.map(|counter| Sealed::new(NodeModel::new(&model.parameters, counter))),
            clients: [ModelClient::IDLE; CLIENTS],
            now: 0,
            granted: Vec::new(),
            expiries: model.bounds.expiries,
            duplicates: model.bounds.duplicates,
            repeats: model.bounds.repeats,
            losses: model.bounds.losses,
            crashes: model.bounds.crashes,
            restarts: model.bounds.restarts,
            flaw: None,
        };
        if model.bounds.is_queued {
            world.nodes[0].open().enqueue(model);
            world.nodes[0].seal();
        }
        world.settled()
    }

    /// The one state that stands for all that differ from it in the order of the nodes.
    pub(super) fn settled(mut self) -> Self {
        self.nodes.sort_by_key(Sealed::digest);
        self
    }

    /// The places of the nodes once they are settled.
    pub(super) fn order(&self) -> [usize; NODES] {
        let mut order = std::array::from_fn(|node| node);
        order.sort_by_key(|node: &usize| self.nodes[*node].digest());
        order
    }

    /// The attempt that the client is making, or has made last.
    pub(super) fn attempt(&self, client: usize) -> AttemptId {
        AttemptId { client, number: self.clients[client].begun }
    }

    /// Whether anybody waits for the answer.
    pub(super) fn expects_answer(&self, Request { of, .. }: Request) -> bool {
        self.attempt(of.client) == of && self.clients[of.client].phase != ClientPhase::Idle
    }

    /// Sends the client's request to one node.
    pub(super) fn send(&mut self, client: usize, node: usize, message: ToNode) {
        let request = Request { of: self.attempt(client), message };
        self.nodes[node].open().send(request);
    }

    /// Of how many nodes this holds.
    pub(super) fn count(&self, holds: impl Fn(&NodeModel) -> bool) -> usize {
        self.nodes.iter().filter(|node| holds(node)).count()
    }

    /// The largest token granted so far, to anybody whom the client's leases are in conflict with;
    /// 0 if there is none.
    pub(super) fn largest_granted(&self, model: &Protocol, client: usize) -> u64 {
        let is_reader = self.is_reader(model, client);
        let others = self.granted.iter().filter(|other| !(is_reader && other.is_reader));
        others.map(|other| other.token).max().unwrap_or(0)
    }

    /// Above this is every token that the client may be granted if it begins now: no reader's is
    /// below that of a reader before, though it may be the same.
    pub(super) fn floor(&self, model: &Protocol, client: usize) -> u64 {
        let readers = self.granted.iter().filter(|other| self.is_reader(model, client) && other.is_reader);
        let largest = readers.map(|other| other.token).max().unwrap_or(0);
        self.largest_granted(model, client).max(largest.saturating_sub(1))
    }

    /// The client's attempt is over, whatever is still in flight.
    pub(super) fn end_attempt(&mut self, client: usize) {
        for node in &mut self.nodes {
            node.open().forget_attempt(client);
        }
        let ModelClient { begun, .. } = self.clients[client];
        self.clients[client] = ModelClient { begun, ..ModelClient::IDLE };
    }

    /// Whether hearing this changes anything. A node's first answer stands; and what comes after a
    /// decision matters only where it tells an unlock whether to leave a tombstone.
    pub(super) fn is_relevant(&self, model: &Protocol, node: usize, Reply { to, message }: Reply) -> bool {
        let attempt = self.nodes[node].attempts[to.client];
        let is_voting = attempt.lock == LockVote::Unanswered;
        if model.bounds.is_all_delivered() {
            return match message {
                FromNode::Granted { .. } | FromNode::Refused => is_voting,
                FromNode::WrittenBack(_) => attempt.write_back == WriteBackState::Unanswered,
                FromNode::Renewed { .. } | FromNode::NotRenewed { .. } => attempt.open_renewals > 0,
            };
        }
        match (message, self.clients[to.client].phase) {
            (FromNode::Granted { .. }, ClientPhase::Locking | ClientPhase::Confirming { .. }) => is_voting,
            (FromNode::Refused, ClientPhase::Locking) => is_voting && self.repeats > 0,
            (FromNode::WrittenBack(is_written_back), ClientPhase::Confirming { .. }) => {
                is_written_back && attempt.write_back == WriteBackState::Unanswered
            }
            (FromNode::Renewed { round, counts }, ClientPhase::Holding(lease)) => {
                let is_open = lease.round.is_some() && round == lease.rounds;
                counts && is_open && attempt.renewal.is_none() && model.bounds.are_renewals_counted()
            }
            _ => false,
        }
    }

    pub(super) fn drop_irrelevant(&mut self, model: &Protocol) {
        for node in 0..NODES {
            let is_relevant = |reply: &Reply| self.is_relevant(model, node, *reply);
            if !self.nodes[node].replies().iter().all(is_relevant) {
                let mut kept = self.nodes[node].clone();
                kept.open().keep_replies(|reply| is_relevant(&reply));
                self.nodes[node] = kept;
            }
        }
    }

    pub(super) fn is_holding(&self, model: &Protocol, client: usize) -> bool {
        match self.clients[client].phase {
            ClientPhase::Holding(lease) => model.bounds.timing.is_none() || self.now < lease.valid_until,
            _ => false,
        }
    }

    /// Whether the client's attempt is undecided.
    pub(super) fn is_trying(&self, client: usize) -> bool {
        matches!(self.clients[client].phase, ClientPhase::Locking | ClientPhase::Confirming { .. })
    }

    /// The first tick at which the client's attempt can no longer be won.
    pub(super) fn last_chance(&self, model: &Protocol, client: usize) -> u8 {
        let timing = model.bounds.timing;
        let Some(timing) = timing else { return u8::MAX };
        let ModelClient { start, downgrade, .. } = self.clients[client];
        let last = start + timing.attempt_timeout.min(timing.ttl);
        match downgrade {
            Some(downgrade) if !model.rules.is_broken(Mutation::DowngradeTooLate) => {
                last.min(downgrade.valid_until)
            }
            _ => last,
        }
    }

    /// Whether the client shares the resource, if it has it, or tries to.
    pub(super) fn is_reader(&self, model: &Protocol, client: usize) -> bool {
        model.bounds.is_reader(self.attempt(client))
    }

    /// Whether this holds of two clients whose leases must not overlap.
    fn is_any_conflict(&self, model: &Protocol, holds: impl Fn(usize) -> bool) -> bool {
        let share = |one, other| self.is_reader(model, one) && self.is_reader(model, other);
        let mut clients = 0..CLIENTS;
        clients.any(|one| holds(one) && (0..one).any(|other| holds(other) && !share(one, other)))
    }

    pub(super) fn is_kept(&self, model: &Protocol) -> bool {
        match model.bounds.property {
            ModelProperty::LeasesDoNotOverlap => {
                self.flaw.is_none() && !self.is_any_conflict(model, |client| self.is_holding(model, client))
            }
            ModelProperty::TokensAreUniqueAndGrow | ModelProperty::ProofsHold => self.flaw.is_none(),
            ModelProperty::NothingIsLeftBehind => {
                let is_at_rest = self.clients.iter().all(|client| client.phase == ClientPhase::Idle)
                    && self.nodes.iter().all(|node| node.requests().is_empty());
                !(is_at_rest && self.count(|node| node.has_leftovers(self.now)) > 0)
            }
            ModelProperty::KeysAgreeWithReaders => {
                self.count(|node| node.agrees_with_readers(self.now)) == NODES
            }
        }
    }

    /// Whether the property can neither be kept nor broken by what is to come, so that it need not
    /// be visited.
    pub(super) fn is_decided(&self, model: &Protocol) -> bool {
        let may_begin = |client: usize| self.clients[client].begun < model.bounds.attempts[client];
        let is_in_time = |client: usize| self.now < self.last_chance(model, client);
        let may_be_granted =
            |client: usize| may_begin(client) || (self.is_trying(client) && is_in_time(client));
        let may_prove_falsely = |client: usize| match self.clients[client].phase {
            ClientPhase::Holding(lease) if lease.rounds < model.bounds.renewals[client] => true,
            ClientPhase::Holding(lease)
                if lease.round.is_some_and(|round| round.largest_before > lease.token) =>
            {
                true
            }
            _ => may_be_granted(client) && model.bounds.renewals[client] > 0,
        };
        let mut clients = 0..CLIENTS;
        !match model.bounds.property {
            ModelProperty::LeasesDoNotOverlap => {
                let may_hold = |client| may_be_granted(client) || self.is_holding(model, client);
                let has_later_writer = |client: usize| {
                    self.clients[client].downgrade.is_some_and(|downgrade| downgrade.has_later_writer)
                };
                self.is_any_conflict(model, may_hold)
                    || (0..CLIENTS).any(|client| has_later_writer(client) && may_be_granted(client))
            }
            ModelProperty::TokensAreUniqueAndGrow => clients.any(may_be_granted),
            ModelProperty::ProofsHold => clients.any(may_prove_falsely),
            ModelProperty::NothingIsLeftBehind | ModelProperty::KeysAgreeWithReaders => true,
        }
    }
}
