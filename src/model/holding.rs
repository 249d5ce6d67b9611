//! The actions of a client that has a lease: renewal, verification, and unlock. In searches for false
//! proofs, each renewal round is a verification.

use crate::{
    model::{
        NODES,
        message::{FromNode, ToNode},
        node_model::{ModelLockVote, NodeAttemptState},
        protocol::Protocol,
        world::{ClientPhase, Flaw, ModelLease, ModelRound, World},
    },
    mutation::Mutation,
    node::Tombstone,
};

impl NodeAttemptState {
    /// Returns the kind of tombstone that an unlock leaves at the node; `None` if the node is sent
    /// no unlock.
    pub(super) fn tombstone(self, model: &Protocol) -> Option<Tombstone> {
        let is_lock_open = self.lock == ModelLockVote::Unanswered;
        let is_renewal_open = self.open_renewals > 0;
        let was_renewed = self.is_renewed || is_renewal_open;
        let leaves_for_lock = is_lock_open && !model.rules.are_broken_by(Mutation::NoTombstoneForLock);
        let leaves_for_renewal = was_renewed
            && (is_lock_open || is_renewal_open)
            && !model.rules.are_broken_by(Mutation::NoTombstoneForRenewal);
        let tombstone = match model.bounds.is_all_delivered() {
            true if leaves_for_renewal => Tombstone::Always,
            true if leaves_for_lock => Tombstone::IfMissing,
            _ => Tombstone::Never,
        };
        let may_be_here = self.lock != ModelLockVote::Refused || was_renewed;
        (may_be_here && model.bounds.are_unlocks_relevant()).then_some(tombstone)
    }
}

impl World {
    /// Begins a renewal round.
    pub(super) fn renew(&mut self, model: &Protocol, client: usize, lease: ModelLease) {
        let largest_before = self.largest_granted(model, client);
        let ModelLease { token, rounds, .. } = lease;
        let round = Some(ModelRound { start: self.now, largest_before });
        self.clients[client].phase = ClientPhase::Holding(ModelLease { rounds: rounds + 1, round, ..lease });
        for node in 0..NODES {
            let attempt = &mut self.nodes[node].open().attempts[client];
            attempt.renewal = None;
            attempt.open_renewals += u8::from(model.bounds.is_all_delivered());
            self.send(client, node, ToNode::Renew { round: rounds + 1, token });
        }
    }

    /// Handles the answer of a node to a renewal.
    pub(super) fn on_renewal_answer(
        &mut self,
        model: &Protocol,
        client: usize,
        node: usize,
        message: FromNode,
    ) {
        let ClientPhase::Holding(lease) = self.clients[client].phase else { return };
        let (round, counts) = match message {
            FromNode::Renewed { round, counts } => (round, Some(counts)),
            FromNode::NotRenewed { round } => (round, None),
            FromNode::Granted { .. } | FromNode::Refused | FromNode::WrittenBack(_) => {
                unreachable!("no answer to a renewal")
            }
        };
        let attempt = &mut self.nodes[node].open().attempts[client];
        attempt.open_renewals = attempt.open_renewals.saturating_sub(1);
        attempt.is_renewed |= counts.is_some() && model.bounds.is_all_delivered();
        let Some(open) = lease.round.filter(|_| round == lease.rounds) else { return };
        attempt.renewal.get_or_insert_with(|| counts == Some(true));
        if self.count(|node| node.attempts[client].renewal == Some(true)) >= model.needed {
            self.complete(model, client, lease, open);
        }
    }

    /// Sends unlocks to all nodes that may have a key.
    pub(super) fn unlock(&mut self, model: &Protocol, client: usize) {
        for node in 0..NODES {
            if let Some(tombstone) = self.nodes[node].attempts[client].tombstone(model) {
                self.send(client, node, ToNode::Unlock { notify: true, tombstone });
            }
        }
        self.end_attempt(client);
    }

    /// Completes a renewal round for which a quorum counts: extends the validity with timing, and
    /// records a false proof.
    fn complete(&mut self, model: &Protocol, client: usize, lease: ModelLease, open: ModelRound) {
        if open.largest_before > lease.token {
            self.flaw = Some(Flaw::FalseProof(lease.token));
        }
        let mut valid_until = lease.valid_until;
        if let Some(timing) = model.bounds.timing.filter(|_| self.now < valid_until) {
            valid_until = valid_until.max(open.start + timing.ttl);
        }
        self.clients[client].phase = ClientPhase::Holding(ModelLease { valid_until, round: None, ..lease });
        for node in &mut self.nodes {
            node.open().attempts[client].renewal = None;
        }
    }
}
