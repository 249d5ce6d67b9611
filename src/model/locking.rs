//! An attempt of a client: lock, write-back, and rollback.

use crate::{
    model::{
        NODES,
        bounds::Promise,
        message::{Ask, Say},
        protocol::Protocol,
        site::{LockVote, NodeAttemptState, WriteBackState},
        world::{ClientPhase, Flaw, Lease, World},
    },
    mutation::Mutation,
    node::Tombstone,
};

impl World {
    pub(super) fn begin(&mut self, model: &Protocol, client: usize) {
        let largest_before = if model.bounds.are_tokens_counted() { self.largest_granted() } else { 0 };
        let start = self.now;
        let state = &mut self.clients[client];
        (state.begun, state.phase, state.start, state.largest_before) =
            (state.begun + 1, ClientPhase::Locking, start, largest_before);
        for site in 0..NODES {
            let hint = model.bounds.hints[client];
            self.send(client, site, Ask::Lock { hint, has_turn: !model.bounds.is_queued });
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
            self.send(client, site, Ask::Unlock { notify: false, tombstone });
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
        if model.rules.is_broken(Mutation::NoWriteBack) {
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
        let state = &mut self.clients[client];
        let valid_until = model.bounds.timing.map_or(0, |timing| state.start + timing.ttl);
        state.phase = ClientPhase::Holding(Lease { token, valid_until, rounds: 0, round: None });
        let largest_before = std::mem::take(&mut state.largest_before);
        state.start = 0;
        if !model.bounds.is_all_delivered() {
            for site in &mut self.sites {
                site.open().attempts[client] = NodeAttemptState::default();
            }
        }
        match model.bounds.promise {
            Promise::TokensAreUniqueAndGrow => {
                if token <= largest_before {
                    self.flaw = Some(Flaw::Fell(token));
                } else if self.granted.contains(&token) {
                    self.flaw = Some(Flaw::Repeated(token));
                }
                self.granted.push(token);
                self.granted.sort_unstable();
            }
            Promise::ProofsHold => self.granted = vec![self.largest_granted().max(token)],
            Promise::LeasesDoNotOverlap | Promise::NothingIsLeftBehind => {}
        }
    }
}
