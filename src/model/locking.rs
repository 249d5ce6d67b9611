//! An attempt of a client: lock, write-back, and rollback.

use crate::{
    model::{
        NODES,
        bounds::ModelProperty,
        message::{Ask, DOWNGRADE, Request, Say},
        protocol::Protocol,
        rules::Wrong,
        site::{LockVote, NodeAttemptState, WriteBackState},
        world::{ClientPhase, Flaw, GivenUp, Granted, ModelClient, ModelLease, World},
    },
    mutation::Mutation,
    node::Tombstone,
};

impl World {
    pub(super) fn begin(&mut self, model: &Protocol, client: usize) {
        let floor = if model.bounds.are_tokens_counted() { self.floor(model, client) } else { 0 };
        let start = self.now;
        let state = &mut self.clients[client];
        (state.begun, state.phase, state.start, state.floor) =
            (state.begun + 1, ClientPhase::Locking, start, floor);
        for site in 0..NODES {
            let hint = model.bounds.hints[client];
            self.send(client, site, Ask::Lock { hint, has_turn: !model.bounds.is_queued });
        }
    }

    /// Gives the write lease up for a read lease.
    pub(super) fn downgrade(&mut self, model: &Protocol, client: usize, lease: ModelLease) {
        let writer = self.attempt(client);
        if model.rules.is(Wrong::UnlockToDowngrade) {
            self.unlock(model, client);
        }
        for site in &mut self.sites {
            let leaves = site.attempts[client].tombstone(model);
            site.open().forget_attempt(client);
            site.open().attempts[client].writer_leaves = leaves;
        }
        self.clients[client].begun = DOWNGRADE;
        let floor = if model.bounds.are_tokens_counted() { self.floor(model, client) } else { 0 };
        let gives_up = Some(GivenUp { writer, valid_until: lease.valid_until, is_passed: false });
        let (begun, phase, start) = (DOWNGRADE, ClientPhase::Locking, self.now);
        self.clients[client] = ModelClient { begun, phase, start, floor, gives_up };
        for site in 0..NODES {
            self.send(client, site, Ask::Downgrade { writer });
        }
    }

    /// What is left of the write lease that it gave up.
    fn unlock_given_up(&mut self, client: usize) {
        let Some(GivenUp { writer, .. }) = self.clients[client].gives_up.take() else { return };
        for site in &mut self.sites {
            let site = site.open();
            if let Some(tombstone) = site.attempts[client].writer_leaves.take() {
                site.send(Request { of: writer, ask: Ask::Unlock { notify: true, tombstone } });
            }
        }
    }

    /// Asks those nodes again that have refused, as one whose turn it is.
    pub(super) fn ask_again(&mut self, model: &Protocol, client: usize) {
        self.repeats -= 1;
        for site in 0..NODES {
            if self.sites[site].attempts[client].lock == LockVote::Refused {
                self.sites[site].open().attempts[client].lock = LockVote::Unanswered;
                let hint = model.bounds.hints[client];
                self.send(client, site, Ask::Lock { hint, has_turn: true });
            }
        }
    }

    /// What a node said to the lock or the write-back.
    pub(super) fn hear_vote(&mut self, model: &Protocol, client: usize, site: usize, say: Say) {
        let attempt = &mut self.sites[site].open().attempts[client];
        match say {
            Say::Granted { vote } => attempt.lock = LockVote::Granted(vote),
            Say::Refused => attempt.lock = LockVote::Refused,
            Say::WrittenBack(is_written_back) => {
                attempt.write_back =
                    if is_written_back { WriteBackState::WrittenBack } else { WriteBackState::Refused };
            }
            Say::Renewed { .. } | Say::NotRenewed { .. } => unreachable!("not an answer to an attempt"),
        }
        if self.clients[client].phase == ClientPhase::Locking {
            self.decide(model, client);
        }
        if let ClientPhase::Confirming { token } = self.clients[client].phase {
            self.confirm(model, client, token);
        }
    }

    /// Takes everything back.
    pub(super) fn give_up(&mut self, model: &Protocol, client: usize) {
        self.unlock_given_up(client);
        for site in 0..NODES {
            let tombstone = match self.sites[site].attempts[client].lock {
                LockVote::Refused => continue,
                LockVote::Unanswered if model.rules.is_broken(Mutation::RollbackSkipsSilent) => continue,
                LockVote::Unanswered
                    if model.bounds.is_all_delivered()
                        && !model.rules.is_broken(Mutation::NoTombstoneForLock) =>
                {
                    Tombstone::IfMissing
                }
                LockVote::Granted(_) | LockVote::Unanswered => Tombstone::Never,
            };
            if model.bounds.are_unlocks_of_use() {
                self.send(client, site, Ask::Unlock { notify: false, tombstone });
            }
        }
        self.end_attempt(client);
    }

    /// The token is the largest vote of the first quorum.
    fn decide(&mut self, model: &Protocol, client: usize) {
        let votes = self.sites.iter().filter_map(|site| match site.attempts[client].lock {
            LockVote::Granted(vote) => Some(vote),
            LockVote::Unanswered | LockVote::Refused => None,
        });
        if votes.clone().count() < model.needed {
            return;
        }
        let token = votes.max().unwrap();
        let writes_nothing_back = model.rules.is_broken(Mutation::NoWriteBack)
            || (model.rules.is(Wrong::ReadersWriteNothingBack) && self.is_reader(model, client));
        if writes_nothing_back {
            self.grant(model, client, token);
        } else {
            self.clients[client].phase = ClientPhase::Confirming { token };
        }
    }

    /// Granted once a quorum has confirmed the token; the others that granted get a write-back.
    fn confirm(&mut self, model: &Protocol, client: usize, token: u64) {
        let confirmed = self.count(|site| {
            let attempt = site.attempts[client];
            attempt.lock == LockVote::Granted(token) || attempt.write_back == WriteBackState::WrittenBack
        });
        if confirmed >= model.needed {
            return self.grant(model, client, token);
        }
        for site in 0..NODES {
            let attempt = self.sites[site].attempts[client];
            let is_below = matches!(attempt.lock, LockVote::Granted(vote) if vote < token);
            if is_below && attempt.write_back == WriteBackState::NotAsked {
                self.sites[site].open().attempts[client].write_back = WriteBackState::Unanswered;
                self.send(client, site, Ask::WriteBack { token });
            }
        }
    }

    /// Unless it is too late.
    fn grant(&mut self, model: &Protocol, client: usize, token: u64) {
        if self.now >= self.last_chance(model, client) {
            return;
        }
        if self.clients[client].gives_up.is_some_and(|given_up| given_up.is_passed) {
            self.flaw = Some(Flaw::Between);
        }
        self.unlock_given_up(client);
        let state = &mut self.clients[client];
        let valid_until = model.bounds.timing.map_or(0, |timing| state.start + timing.ttl);
        state.phase = ClientPhase::Holding(ModelLease { token, valid_until, rounds: 0, round: None });
        let floor = std::mem::take(&mut state.floor);
        state.start = 0;
        if !model.bounds.is_all_delivered() {
            for site in &mut self.sites {
                site.open().attempts[client] = NodeAttemptState::default();
            }
        }
        self.note_grant(model, client, token, floor);
    }

    /// Takes note of a lease, as far as the property asks about it.
    fn note_grant(&mut self, model: &Protocol, client: usize, token: u64, floor: u64) {
        let is_reader = self.is_reader(model, client);
        // Where keys expire at any moment, so do leases.
        if !is_reader && model.bounds.property == ModelProperty::LeasesDoNotOverlap {
            let given_up = self.clients.iter_mut().filter_map(|client| client.gives_up.as_mut());
            given_up.for_each(|given_up| given_up.is_passed = true);
        }
        let mut granted = Granted { token, is_reader };
        match model.bounds.property {
            ModelProperty::TokensAreUniqueAndGrow => {
                let is_same = |other: &Granted| other.token == token && !(is_reader && other.is_reader);
                if token <= floor {
                    self.flaw = Some(Flaw::Fell(token));
                } else if self.granted.iter().any(is_same) {
                    self.flaw = Some(Flaw::Repeated(token));
                }
            }
            ModelProperty::ProofsHold => {
                // The largest among readers, and among writers.
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
