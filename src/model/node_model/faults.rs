//! The faults of a node.

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
    /// Ends the key, or one reader, at any moment, while the clocks stand still.
    pub(in crate::model) fn expire(&mut self, model: &Protocol, reader: Option<ModelAttempt>) {
        let left = self.state.stored_readers(resource()).cloned();
        match reader {
            Some(reader) => self.state.forget_reader(resource(), lease_id_of(reader), self.time(0)),
            None => self.state.end_lock(resource()),
        }
        if model.rules.is_broken(Mutation::StalePhase) && !self.is_held(0) {
            self.state.set_readers(resource(), left);
        }
    }

    pub(in crate::model) fn has_counter(&self) -> bool {
        self.state.counter(resource(), self.time(0)).is_some()
    }

    pub(in crate::model) fn lose_counter(&mut self, is_regained_above: bool) {
        self.state.set_counter(resource(), None);
        self.ahead += u8::from(is_regained_above);
    }

    /// Deletes all data, apart from the counter.
    pub(in crate::model) fn crash(&mut self, parameters: &QuorumParameters, now: u8) {
        let counter = self.state.counter(resource(), self.time(now));
        self.state.flush();
        if parameters.guard != RestartGuard::Off {
            self.register(parameters, now);
            // If the property ignores tokens, a minimum token would only add states.
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

    /// Restores the saved state. `are_trying` are the clients with undecided attempts.
    pub(in crate::model) fn restart(&mut self, model: &Protocol, are_trying: [bool; CLIENTS]) {
        let Some(saved) = self.saved.take() else { return };
        self.state = NodeState::clone(&saved);
        self.state.set_metadata(None);
        let guarded = QuorumParameters { guard: RestartGuard::PerConnection, ..model.parameters.clone() };
        self.register(&guarded, 0);
        // The duration of the quarantine is modelled by `is_in_quarantine` instead.
        self.state.set_quarantine(None);
        for (attempt, is_trying) in self.attempts.iter_mut().zip(are_trying) {
            attempt.began_before_restart = is_trying;
        }
        let (now, earlier) = (self.time(0), model.ttl() - Duration::from_millis(1));
        let held = self.state.held(resource(), now).cloned();
        self.state.set_lock(resource(), held.map(|held| HeldKey { expires_at: now + earlier, ..held }));
        let readers = self.state.stored_readers(resource()).cloned().map(|readers| ReaderRun {
            ends: readers.ends.into_keys().map(|lease_id| (lease_id, now + earlier)).collect(),
            expires_at: now + earlier,
            ..readers
        });
        self.state.set_readers(resource(), readers);
    }

    /// Whether the node gives no votes, because attempts that began before its restart are
    /// undecided, or because keys from before its restart have neither ended nor been renewed.
    pub(in crate::model) fn is_in_quarantine(&self, model: &Protocol) -> bool {
        let until = self.time(0) + model.ttl();
        let held = self.state.held(resource(), self.time(0)).map(|held| held.expires_at);
        let readers = self.state.stored_readers(resource());
        let ends = readers.iter().flat_map(|readers| readers.ends.values().copied());
        self.attempts.iter().any(|attempt| attempt.began_before_restart)
            || ends.chain(held).any(|end| end < until)
    }

    /// Registers the node, as a client does at once.
    fn register(&mut self, parameters: &QuorumParameters, now: u8) {
        let time = self.time(now);
        let register = Register { new_nodes: NewNodes::Quarantine, time: time.since_epoch() };
        self.state.apply(parameters, &Operation::Register(register), time);
        // The node is not new, because a node that waits for `init` would only add states.
        self.state.set_new(None);
    }
}
