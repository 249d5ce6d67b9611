//! The faults of a node: early expiry, a lost counter, a crash, and a restart with saved data.
//!
//! [`Protocol::after`] calls these functions, each only if the bounds of the search allow the fault.
//! An early expiry, a lost counter and a restart occur while the clocks stand still at tick 0. A
//! crash may occur at any tick.

use std::{sync::Arc, time::Duration};

use super::NodeModel;
use crate::{
    model::{
        CLIENTS,
        message::{ModelAttempt, lease_id_of, resource},
        protocol::Protocol,
    },
    mutation::Mutation,
    node::{
        NewNodes, Operation, QuorumParameters, Register, RestartGuard,
        state::{HeldKey, NodeMetadata, NodeState, ReaderRun},
    },
};

impl NodeModel {
    /// Deletes the key of this reader, or the key of the resource if `reader` is `None`, as the end
    /// of a ttl does. The key of the resource ends with all its readers.
    ///
    /// With [`Mutation::StalePhase`], the data of the readers remains after the end of the last
    /// reader.
    pub(in crate::model) fn expire(&mut self, model: &Protocol, reader: Option<ModelAttempt>) {
        let readers_before = self.state.stored_readers(resource()).cloned();
        match reader {
            Some(reader) => self.state.forget_reader(resource(), lease_id_of(reader), self.time(0)),
            None => self.state.end_lock(resource()),
        }
        if model.rules.are_broken_by(Mutation::StalePhase) && !self.is_held(0) {
            self.state.set_readers(resource(), readers_before);
        }
    }

    pub(in crate::model) fn has_counter(&self) -> bool {
        self.state.counter(resource(), self.time(0)).is_some()
    }

    /// Deletes the counter. The next vote begins at the time of the node, in microseconds. If
    /// `is_regained_above`, the clock of the node is moved a second ahead, so that this vote is above
    /// all earlier values of the counter. Otherwise the votes start from zero.
    pub(in crate::model) fn lose_counter(&mut self, is_regained_above: bool) {
        self.state.set_counter(resource(), None);
        self.ahead += u8::from(is_regained_above);
    }

    /// Deletes all data apart from the counter. If the quorum has a restart guard, a client registers
    /// the node at once, which begins the quarantine of the node.
    pub(in crate::model) fn crash(&mut self, parameters: &QuorumParameters, now: u8) {
        let counter = self.state.counter(resource(), self.time(now));
        self.state.flush();
        if parameters.guard != RestartGuard::Off {
            self.register(parameters, now);
            // Searches with crashes ignore tokens, so a minimum token would only add states.
            let metadata = self.state.metadata().cloned();
            self.state.set_metadata(metadata.map(|metadata| NodeMetadata { minimum_token: 0, ..metadata }));
        }
        self.state.set_counter(resource(), counter);
    }

    pub(in crate::model) fn has_saved(&self) -> bool {
        self.saved.is_some()
    }

    pub(in crate::model) fn save(&mut self) {
        self.saved = Some(Arc::new(self.state.clone()));
    }

    /// Restores the saved state, and registers the node with a restart guard, even if the quorum of
    /// the search has none. `is_undecided` tells for each client whether its attempt is undecided.
    ///
    /// The keys of the saved state get an end that is a millisecond earlier than the end of a key
    /// written later. By this end, [`is_in_quarantine`](Self::is_in_quarantine) recognizes keys that
    /// have not been renewed since the restart.
    pub(in crate::model) fn restart(&mut self, model: &Protocol, is_undecided: [bool; CLIENTS]) {
        let Some(saved) = self.saved.take() else { return };
        self.state = NodeState::clone(&saved);
        self.state.set_metadata(None);
        let guarded = QuorumParameters { guard: RestartGuard::PerConnection, ..model.parameters.clone() };
        self.register(&guarded, 0);
        // The clocks stand still, so `is_in_quarantine` decides when the quarantine ends.
        self.state.set_quarantine(None);
        for (attempt, is_undecided) in self.attempts.iter_mut().zip(is_undecided) {
            attempt.began_before_restart = is_undecided;
        }
        let (now, shortened_ttl) = (self.time(0), model.ttl() - Duration::from_millis(1));
        let held = self.state.held(resource(), now).cloned();
        self.state.set_lock(resource(), held.map(|held| HeldKey { expires_at: now + shortened_ttl, ..held }));
        let readers = self.state.stored_readers(resource()).cloned().map(|readers| ReaderRun {
            ends: readers.ends.into_keys().map(|lease_id| (lease_id, now + shortened_ttl)).collect(),
            expires_at: now + shortened_ttl,
            ..readers
        });
        self.state.set_readers(resource(), readers);
    }

    /// Whether the node gives no votes after its restart. The quarantine ends when all attempts that
    /// began before the restart are decided, and each key from before the restart has ended or was
    /// renewed.
    pub(in crate::model) fn is_in_quarantine(&self, model: &Protocol) -> bool {
        let end_of_new_key = self.time(0) + model.ttl();
        let held = self.state.held(resource(), self.time(0)).map(|held| held.expires_at);
        let readers = self.state.stored_readers(resource());
        let ends = readers.iter().flat_map(|readers| readers.ends.values().copied());
        self.attempts.iter().any(|attempt| attempt.began_before_restart)
            || ends.chain(held).any(|end| end < end_of_new_key)
    }

    /// Registers the node, as a client does when it connects again.
    fn register(&mut self, parameters: &QuorumParameters, now: u8) {
        let time = self.time(now);
        let register = Register { new_nodes: NewNodes::Quarantine, time: time.since_epoch() };
        self.state.apply(parameters, &Operation::Register(register), time);
        // The registration marks a node without metadata as new. A new node waits for `init`, which
        // would only add states.
        self.state.set_new(None);
    }
}
