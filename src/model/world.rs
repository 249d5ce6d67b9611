//! One state of a search: nodes, clients, messages and the remaining faults. The checks of the
//! properties are here, too.

use crate::{
    model::{
        CLIENTS, NODES,
        bounds::{Expiries, ModelProperty},
        message::{FromNode, ModelAttempt, Reply, Request, ToNode},
        node_model::{ModelLockVote, NodeModel, Sealed, WriteBackState},
        protocol::Protocol,
    },
    mutation::Mutation,
};

/// The state of all nodes, clients and messages at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    /// The nodes, sorted, because nodes are interchangeable.
    pub(super) nodes: [Sealed; NODES],
    pub(super) clients: [ModelClient; CLIENTS],
    pub(super) now: u8,
    /// The granted leases that matter to the property, sorted.
    pub(super) granted: Vec<Granted>,
    // Each of the next six fields is the remaining number of the events that the field of `Bounds`
    // with the same name counts.
    pub(super) expiries: Expiries,
    pub(super) duplicates: u8,
    pub(super) repeats: u8,
    pub(super) losses: u8,
    pub(super) crashes: u8,
    pub(super) restarts: u8,
    /// A violation that the other fields do not show.
    pub(super) flaw: Option<Flaw>,
    /// The ticket, from the end of its issue on.
    pub(super) ticket: Option<ModelTicket>,
}

/// A ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModelTicket {
    pub(super) token: u64,
    /// Whether another lease was granted since. If keys may expire at any moment, only a lease with a larger token
    /// counts.
    pub(super) is_passed: bool,
    /// Whether the ticket was redeemed or released.
    pub(super) is_spent: bool,
    /// With timing, the first tick after the validity of the lease that became the ticket.
    pub(super) valid_until: u8,
}

/// A granted lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Granted {
    pub(super) token: u64,
    pub(super) is_reader: bool,
}

/// A violation, recorded at the action that causes the violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Flaw {
    /// The second grant of a token, if at least one of the two leases is a writer's.
    RepeatedToken(u64),
    /// A grant of a token after a larger token.
    FallingToken(u64),
    /// A verification of a lease although a conflicting lease with a larger token had been granted.
    FalseProof(u64),
    /// A grant to a writer between a write lease of another client and its downgrade, or between a lease that became
    /// a ticket and the redemption.
    WriterBetween,
}

/// The state of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModelClient {
    /// The number of attempts begun.
    pub(super) begun: u8,
    pub(super) phase: ClientPhase,
    /// The tick at which the attempt began.
    pub(super) start: u8,
    /// The bound that the token must exceed, because of leases granted before the start of the
    /// attempt.
    pub(super) floor: u64,
    /// The write lease that the attempt replaces, if it is a downgrade or issues a ticket.
    pub(super) downgrade: Option<PendingDowngrade>,
    /// For an attempt to redeem the ticket: whether another lease had been granted when the attempt began.
    pub(super) redeems: Option<bool>,
}

/// A write lease that is to be replaced by a read lease or a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PendingDowngrade {
    pub(super) writer: ModelAttempt,
    /// With timing, the first tick after the validity.
    pub(super) valid_until: u8,
    /// Whether another writer was granted a lease later.
    pub(super) has_later_writer: bool,
}

impl ModelClient {
    const IDLE: Self =
        Self { begun: 0, phase: ClientPhase::Idle, start: 0, floor: 0, downgrade: None, redeems: None };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ClientPhase {
    Idle,
    Locking,
    Confirming { token: u64 },
    Holding(ModelLease),
}

/// The lease of a client, as far as the client has received answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModelLease {
    pub(super) token: u64,
    /// With timing, the first tick after the validity.
    pub(super) valid_until: u8,
    /// The number of renewal rounds begun.
    pub(super) rounds: u8,
    /// The last renewal round, if it is undecided.
    pub(super) round: Option<ModelRound>,
}

/// An undecided renewal round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModelRound {
    /// The tick at which the round began.
    pub(super) start: u8,
    /// The largest token of a conflicting lease granted before the start of the round.
    pub(super) largest_before: u64,
}

impl World {
    pub(super) fn new(model: &Protocol, counters: [u64; NODES]) -> Self {
        let mut world = Self {
            nodes: std::array::from_fn(|node| Sealed::new(NodeModel::new(&model.parameters, counters[node]))),
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
            ticket: None,
        };
        if model.bounds.is_queued {
            world.nodes[0].open().enqueue(model);
            world.nodes[0].seal();
        }
        world.with_sorted_nodes()
    }

    /// Sorts the nodes by digest. States that differ only in the order of the nodes become equal.
    pub(super) fn with_sorted_nodes(mut self) -> Self {
        self.nodes.sort_by_key(Sealed::digest);
        self
    }

    /// Returns the present indices of the nodes, in the order of
    /// [`with_sorted_nodes`](Self::with_sorted_nodes).
    pub(super) fn order(&self) -> [usize; NODES] {
        let mut order = std::array::from_fn(|node| node);
        order.sort_by_key(|node: &usize| self.nodes[*node].digest());
        order
    }

    /// Returns the present or last attempt of the client.
    pub(super) fn attempt(&self, client: usize) -> ModelAttempt {
        ModelAttempt { client, number: self.clients[client].begun }
    }

    /// Whether the client waits for the answer to a request.
    pub(super) fn expects_answer(&self, Request { of, .. }: Request) -> bool {
        self.attempt(of.client) == of && self.clients[of.client].phase != ClientPhase::Idle
    }

    /// Sends a request of the client to one node.
    pub(super) fn send(&mut self, client: usize, node: usize, message: ToNode) {
        let request = Request { of: self.attempt(client), message };
        self.nodes[node].open().add_request(request);
    }

    /// Returns the number of nodes for which `holds` is true.
    pub(super) fn count(&self, holds: impl Fn(&NodeModel) -> bool) -> usize {
        self.nodes.iter().filter(|node| holds(node)).count()
    }

    /// Returns the largest token of the granted leases that conflict with leases of the client; 0
    /// without a conflicting lease. The client's own earlier leases count, too.
    pub(super) fn largest_granted(&self, model: &Protocol, client: usize) -> u64 {
        let is_reader = self.is_reader(model, client);
        let others = self.granted.iter().filter(|other| !(is_reader && other.is_reader));
        others.map(|other| other.token).max().unwrap_or(0)
    }

    /// Returns the bound that a token of the client must exceed if the attempt begins now. The
    /// token of a reader may equal the token of an earlier reader, but must not be smaller.
    pub(super) fn floor(&self, model: &Protocol, client: usize) -> u64 {
        let readers = self.granted.iter().filter(|other| self.is_reader(model, client) && other.is_reader);
        let largest = readers.map(|other| other.token).max().unwrap_or(0);
        self.largest_granted(model, client).max(largest.saturating_sub(1))
    }

    /// Ends the client's attempt, regardless of messages in flight.
    pub(super) fn end_attempt(&mut self, client: usize) {
        for node in &mut self.nodes {
            node.open().forget_attempt(client);
        }
        let ModelClient { begun, .. } = self.clients[client];
        self.clients[client] = ModelClient { begun, ..ModelClient::IDLE };
    }

    /// Whether the delivery of a reply changes the state. Only the first answer of a node to a lock
    /// or a write-back counts. In searches for leftover keys, an answer also counts after the
    /// decision, because the answer determines whether an unlock leaves a tombstone.
    pub(super) fn is_relevant(&self, model: &Protocol, node: usize, Reply { to, message }: Reply) -> bool {
        let attempt = self.nodes[node].attempts[to.client];
        let is_voting = attempt.lock == ModelLockVote::Unanswered;
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

    /// Drops the replies whose delivery no longer changes the state.
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

    /// Whether the client has a valid lease.
    pub(super) fn is_holding(&self, model: &Protocol, client: usize) -> bool {
        if client == 0 && model.rules.are_broken_by(Mutation::GiverContinues) {
            let of_pending = self.clients[0].downgrade.map(|downgrade| downgrade.valid_until);
            if let Some(until) = of_pending.or_else(|| self.ticket.map(|ticket| ticket.valid_until)) {
                return model.bounds.timing.is_none() || self.now < until;
            }
        }
        match self.clients[client].phase {
            ClientPhase::Holding(lease) => model.bounds.timing.is_none() || self.now < lease.valid_until,
            _ => false,
        }
    }

    /// Whether the client's attempt is undecided.
    pub(super) fn is_trying(&self, client: usize) -> bool {
        matches!(self.clients[client].phase, ClientPhase::Locking | ClientPhase::Confirming { .. })
    }

    /// Returns the first tick at which the client's attempt can no longer win; the largest number
    /// without timing.
    pub(super) fn too_late_from(&self, model: &Protocol, client: usize) -> u8 {
        let timing = model.bounds.timing;
        let Some(timing) = timing else { return u8::MAX };
        let ModelClient { start, downgrade, .. } = self.clients[client];
        let last = start + timing.attempt_timeout.min(timing.ttl);
        match downgrade {
            Some(downgrade) if !model.rules.are_broken_by(Mutation::DowngradeTooLate) => {
                last.min(downgrade.valid_until)
            }
            _ => last,
        }
    }

    /// Whether the client shares the resource in its present or last attempt.
    pub(super) fn is_reader(&self, model: &Protocol, client: usize) -> bool {
        model.bounds.is_reader(self.attempt(client))
    }

    /// Whether `holds` is true for two clients of which at least one is a writer.
    fn is_any_conflict(&self, model: &Protocol, holds: impl Fn(usize) -> bool) -> bool {
        let share = |one, other| self.is_reader(model, one) && self.is_reader(model, other);
        let mut clients = 0..CLIENTS;
        clients.any(|one| holds(one) && (0..one).any(|other| holds(other) && !share(one, other)))
    }

    /// Whether this state keeps the property of the search.
    pub(super) fn is_kept(&self, model: &Protocol) -> bool {
        match model.bounds.property {
            ModelProperty::LeasesDoNotOverlap => {
                self.flaw.is_none() && !self.is_any_conflict(model, |client| self.is_holding(model, client))
            }
            ModelProperty::TicketsPassLocksOn => {
                // If keys may expire at any moment, leases may overlap.
                let is_holding = |client| model.bounds.do_keys_last() && self.is_holding(model, client);
                self.flaw.is_none() && !self.is_any_conflict(model, is_holding)
            }
            ModelProperty::TokensAreUniqueAndGrow | ModelProperty::ProofsHold => self.flaw.is_none(),
            ModelProperty::NothingIsLeftBehind => {
                let is_at_rest = self.clients.iter().all(|client| client.phase == ClientPhase::Idle)
                    && self.ticket.is_none_or(|ticket| ticket.is_spent)
                    && self.nodes.iter().all(|node| node.requests().is_empty());
                !(is_at_rest && self.count(|node| node.has_leftovers(self.now)) > 0)
            }
            ModelProperty::KeysAgreeWithReaders => {
                self.count(|node| node.agrees_with_readers(self.now)) == NODES
            }
        }
    }

    /// Whether no later state can violate the property or help to violate it, so that the search
    /// need not visit later states.
    pub(super) fn is_decided(&self, model: &Protocol) -> bool {
        let may_begin = |client: usize| self.clients[client].begun < model.bounds.attempts[client];
        let is_in_time = |client: usize| self.now < self.too_late_from(model, client);
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
            ModelProperty::TokensAreUniqueAndGrow | ModelProperty::TicketsPassLocksOn => {
                clients.any(may_be_granted)
            }
            ModelProperty::ProofsHold => clients.any(may_prove_falsely),
            ModelProperty::NothingIsLeftBehind | ModelProperty::KeysAgreeWithReaders => true,
        }
    }
}
