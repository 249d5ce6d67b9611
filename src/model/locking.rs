//! The attempts of a client: lock, downgrade, retry, write-back, grant and rollback.

use crate::{
    model::{
        NODES,
        bounds::ModelProperty,
        message::{DOWNGRADE, FromNode, ModelAttempt, Request, TICKET, TICKET_NUMBER, ToNode},
        node_model::{ModelLockVote, NodeAttemptState, WriteBackState},
        protocol::Protocol,
        rules::BrokenRule,
        world::{ClientPhase, Flaw, Granted, ModelClient, ModelLease, ModelTicket, PendingDowngrade, World},
    },
    mutation::Mutation,
    node::Tombstone,
};

impl World {
    /// Begins an attempt: sends locks to all nodes.
    pub(super) fn begin(&mut self, model: &Protocol, client: usize) {
        let floor = if model.bounds.are_tokens_counted() { self.floor(model, client) } else { 0 };
        let start = self.now;
        let state = &mut self.clients[client];
        (state.begun, state.phase, state.start, state.floor) =
            (state.begun + 1, ClientPhase::Locking, start, floor);
        for node in 0..NODES {
            let hint = model.bounds.hints[client];
            self.send(client, node, ToNode::Lock { hint, ignores_queue: !model.bounds.is_queued });
        }
    }

    /// Begins the attempt by which the client replaces its write lease by a read lease. A node
    /// replaces its key when the node executes the request.
    pub(super) fn downgrade(&mut self, model: &Protocol, client: usize, lease: ModelLease) {
        let writer = self.attempt(client);
        if model.rules.breaks(BrokenRule::UnlockToDowngrade) {
            self.unlock(model, client);
        }
        self.replace(model, client, (writer, lease), DOWNGRADE);
        for node in 0..NODES {
            self.send(client, node, ToNode::Downgrade { writer });
        }
    }

    /// Begins the attempt by which the client turns its lease into a ticket.
    pub(super) fn issue_ticket(&mut self, model: &Protocol, client: usize, lease: ModelLease) {
        let from = self.attempt(client);
        self.replace(model, client, (from, lease), TICKET_NUMBER);
        for node in 0..NODES {
            self.send(client, node, ToNode::IssueTicket { from, hint: lease.token + 1 });
        }
    }

    /// Begins the attempt of this number, which replaces a write lease.
    fn replace(
        &mut self,
        model: &Protocol,
        client: usize,
        (writer, lease): (ModelAttempt, ModelLease),
        begun: u8,
    ) {
        for node in &mut self.nodes {
            let leaves = node.attempts[client].tombstone(model);
            node.open().forget_attempt(client);
            node.open().attempts[client].writer_tombstone = leaves;
        }
        self.clients[client].begun = begun;
        let floor = if model.bounds.are_tokens_counted() { self.floor(model, client) } else { 0 };
        let downgrade =
            Some(PendingDowngrade { writer, valid_until: lease.valid_until, has_later_writer: false });
        let (phase, start) = (ClientPhase::Locking, self.now);
        self.clients[client] = ModelClient { begun, phase, start, floor, downgrade, redeems: None };
    }

    /// Begins an attempt to redeem the ticket.
    pub(super) fn redeem(&mut self, model: &Protocol, client: usize, ticket: ModelTicket) {
        let floor = if model.bounds.are_tokens_counted() { self.floor(model, client) } else { 0 };
        let begun = self.clients[client].begun + 1;
        let (phase, start, redeems) = (ClientPhase::Locking, self.now, Some(ticket.is_passed));
        self.clients[client] = ModelClient { begun, phase, start, floor, downgrade: None, redeems };
        let has_proof = !model.rules.are_broken_by(Mutation::RedeemWithoutProof);
        let proof = has_proof.then_some(ticket.token);
        for node in 0..NODES {
            self.send(client, node, ToNode::Redeem { proof, hint: ticket.token + 1 });
        }
    }

    /// Sends the unlock of the ticket to all nodes.
    pub(super) fn release_ticket(&mut self, model: &Protocol, ticket: ModelTicket) {
        self.ticket = Some(ModelTicket { is_spent: true, ..ticket });
        let is_buried =
            model.bounds.is_all_delivered() && !model.rules.are_broken_by(Mutation::NoTombstoneForTicket);
        let tombstone = if is_buried { Tombstone::Always } else { Tombstone::Never };
        for node in 0..NODES {
            let message = ToNode::Unlock { notify: true, tombstone };
            self.nodes[node].open().add_request(Request { of: TICKET, message });
        }
    }

    /// Sends the unlock of a redeemed ticket to the nodes that have not transferred its locks.
    fn unlock_redeemed(&mut self, model: &Protocol, client: usize) {
        if !model.bounds.is_all_delivered() || model.rules.are_broken_by(Mutation::LeaveTicket) {
            return;
        }
        for node in 0..NODES {
            if !matches!(self.nodes[node].attempts[client].lock, ModelLockVote::Granted(_)) {
                let message = ToNode::Unlock { notify: false, tombstone: Tombstone::Always };
                self.nodes[node].open().add_request(Request { of: TICKET, message });
            }
        }
    }

    /// Sends the unlocks of the write lease that the attempt replaces, if any.
    fn unlock_downgraded(&mut self, client: usize) {
        let Some(PendingDowngrade { writer, .. }) = self.clients[client].downgrade.take() else { return };
        for node in &mut self.nodes {
            let node = node.open();
            if let Some(tombstone) = node.attempts[client].writer_tombstone.take() {
                node.add_request(Request { of: writer, message: ToNode::Unlock { notify: true, tombstone } });
            }
        }
    }

    /// Sends the lock again to the nodes that have refused, as a waiter at its turn.
    pub(super) fn retry_refused(&mut self, model: &Protocol, client: usize) {
        self.repeats -= 1;
        for node in 0..NODES {
            if self.nodes[node].attempts[client].lock == ModelLockVote::Refused {
                self.nodes[node].open().attempts[client].lock = ModelLockVote::Unanswered;
                let hint = model.bounds.hints[client];
                self.send(client, node, ToNode::Lock { hint, ignores_queue: true });
            }
        }
    }

    /// Handles the answer of a node to a lock or a write-back.
    pub(super) fn on_vote(&mut self, model: &Protocol, client: usize, node: usize, message: FromNode) {
        let attempt = &mut self.nodes[node].open().attempts[client];
        match message {
            FromNode::Granted { vote } => attempt.lock = ModelLockVote::Granted(vote),
            FromNode::Refused => attempt.lock = ModelLockVote::Refused,
            FromNode::WrittenBack(is_written_back) => {
                attempt.write_back =
                    if is_written_back { WriteBackState::WrittenBack } else { WriteBackState::Refused };
            }
            FromNode::Renewed { .. } | FromNode::NotRenewed { .. } => {
                unreachable!("not an answer to an attempt")
            }
        }
        if self.clients[client].phase == ClientPhase::Locking {
            self.decide(model, client);
        }
        if let ClientPhase::Confirming { token } = self.clients[client].phase {
            self.confirm(model, client, token);
        }
    }

    /// Rolls the attempt back.
    pub(super) fn roll_back(&mut self, model: &Protocol, client: usize) {
        self.unlock_downgraded(client);
        for node in 0..NODES {
            let tombstone = match self.nodes[node].attempts[client].lock {
                ModelLockVote::Refused => continue,
                ModelLockVote::Unanswered if model.rules.are_broken_by(Mutation::RollbackSkipsSilent) => {
                    continue;
                }
                ModelLockVote::Unanswered
                    if model.bounds.is_all_delivered()
                        && !model.rules.are_broken_by(Mutation::NoTombstoneForLock) =>
                {
                    Tombstone::IfMissing
                }
                ModelLockVote::Granted(_) | ModelLockVote::Unanswered => Tombstone::Never,
            };
            if model.bounds.are_unlocks_relevant() {
                self.send(client, node, ToNode::Unlock { notify: false, tombstone });
            }
        }
        self.end_attempt(client);
    }

    /// Chooses the token when a quorum has granted: the largest vote so far. Then the token must be
    /// confirmed, unless a broken rule grants the lease without write-backs.
    fn decide(&mut self, model: &Protocol, client: usize) {
        let votes = self.nodes.iter().filter_map(|node| match node.attempts[client].lock {
            ModelLockVote::Granted(vote) => Some(vote),
            ModelLockVote::Unanswered | ModelLockVote::Refused => None,
        });
        if votes.clone().count() < model.needed {
            return;
        }
        let token = votes.max().unwrap();
        let writes_nothing_back = model.rules.are_broken_by(Mutation::NoWriteBack)
            || (model.rules.breaks(BrokenRule::ReadersWriteNothingBack) && self.is_reader(model, client));
        if writes_nothing_back {
            self.grant(model, client, token);
        } else {
            self.clients[client].phase = ClientPhase::Confirming { token };
        }
    }

    /// Grants the lease if a quorum has confirmed the token. Otherwise sends write-backs to the
    /// other nodes that granted.
    fn confirm(&mut self, model: &Protocol, client: usize, token: u64) {
        let confirmed = self.count(|node| {
            let attempt = node.attempts[client];
            attempt.lock == ModelLockVote::Granted(token) || attempt.write_back == WriteBackState::WrittenBack
        });
        if confirmed >= model.needed {
            return self.grant(model, client, token);
        }
        for node in 0..NODES {
            let attempt = self.nodes[node].attempts[client];
            let is_below = matches!(attempt.lock, ModelLockVote::Granted(vote) if vote < token);
            if is_below && attempt.write_back == WriteBackState::NotSent {
                self.nodes[node].open().attempts[client].write_back = WriteBackState::Unanswered;
                self.send(client, node, ToNode::WriteBack { token });
            }
        }
    }

    /// Grants the lease, unless the time of the attempt is over. Then the attempt stays undecided until
    /// the client rolls back.
    fn grant(&mut self, model: &Protocol, client: usize, token: u64) {
        if self.now >= self.too_late_from(model, client) {
            return;
        }
        let downgrade = self.clients[client].downgrade;
        if model.bounds.do_keys_last() && downgrade.is_some_and(|downgrade| downgrade.has_later_writer) {
            self.flaw = Some(Flaw::WriterBetween);
        }
        let redeems = self.clients[client].redeems.take();
        if redeems.is_some() {
            self.unlock_redeemed(model, client);
        }
        self.unlock_downgraded(client);
        let is_ticket = model.bounds.may_issue_ticket && self.attempt(client) == TICKET;
        let token = match self.ticket.filter(|_| redeems.is_some()) {
            Some(ticket) if model.rules.are_broken_by(Mutation::KeepTicketToken) => ticket.token,
            _ => token,
        };
        let state = &mut self.clients[client];
        let valid_until = model.bounds.timing.map_or(0, |timing| state.start + timing.ttl);
        state.phase = ClientPhase::Holding(ModelLease { token, valid_until, rounds: 0, round: None });
        let floor = std::mem::take(&mut state.floor);
        state.start = 0;
        if !model.bounds.is_all_delivered() {
            for node in &mut self.nodes {
                node.open().attempts[client] = NodeAttemptState::default();
            }
        }
        self.note_grant(model, client, token, floor);
        if is_ticket {
            let valid_until = downgrade.map_or(0, |downgrade| downgrade.valid_until);
            self.ticket = Some(ModelTicket { token, is_passed: false, is_spent: false, valid_until });
            self.end_attempt(client);
        } else if let Some(ticket) = &mut self.ticket {
            let do_keys_last = model.bounds.do_keys_last();
            let is_between = if do_keys_last { ticket.is_passed } else { redeems == Some(true) };
            ticket.is_spent |= redeems.is_some();
            ticket.is_passed |= do_keys_last || token > ticket.token;
            if redeems.is_some() && is_between && model.bounds.property == ModelProperty::TicketsPassLocksOn {
                self.flaw = Some(Flaw::WriterBetween);
            }
        }
    }

    /// Records a granted lease as far as the property depends on earlier leases, and a flaw if the
    /// token repeats or falls.
    fn note_grant(&mut self, model: &Protocol, client: usize, token: u64, floor: u64) {
        let is_reader = self.is_reader(model, client);
        // In searches for other properties, keys may expire and leases may end at any moment, so a
        // later writer is no violation.
        let concerns_later_writers = matches!(
            model.bounds.property,
            ModelProperty::LeasesDoNotOverlap | ModelProperty::TicketsPassLocksOn
        );
        if !is_reader && concerns_later_writers {
            let downgrade = self.clients.iter_mut().filter_map(|client| client.downgrade.as_mut());
            downgrade.for_each(|downgrade| downgrade.has_later_writer = true);
        }
        let mut granted = Granted { token, is_reader };
        match model.bounds.property {
            ModelProperty::TokensAreUniqueAndGrow | ModelProperty::TicketsPassLocksOn => {
                let is_same = |other: &Granted| other.token == token && !(is_reader && other.is_reader);
                if token <= floor {
                    self.flaw = Some(Flaw::FallingToken(token));
                } else if self.granted.iter().any(is_same) {
                    self.flaw = Some(Flaw::RepeatedToken(token));
                }
            }
            ModelProperty::ProofsHold => {
                // Only the largest tokens of readers and of writers matter.
                let same = self.granted.iter().filter(|other| other.is_reader == is_reader);
                granted.token = same.map(|other| other.token).max().unwrap_or(0).max(token);
                self.granted.retain(|other| other.is_reader != is_reader);
            }
            ModelProperty::LeasesDoNotOverlap
            | ModelProperty::NothingIsLeftBehind
            | ModelProperty::KeysAgreeWithReaders => {
                return;
            }
        }
        if let Err(place) = self.granted.binary_search(&granted) {
            self.granted.insert(place, granted);
        }
    }
}
