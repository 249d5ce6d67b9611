//! Register in the pure node: compares the incarnations of the server and of the node metadata, and begins a
//! quarantine if they differ.

use crate::node::{
    operation::{Answer, NewNodes, Register},
    parameters::{QuorumParameters, RestartGuard},
    state::{
        NodeState, NodeTime, Quarantine,
        counters::{check_counter, minimum_token_at},
        guard::check_clock,
    },
};

impl NodeState {
    pub(super) fn register(
        &mut self,
        parameters: &QuorumParameters,
        register: &Register,
        now: NodeTime,
    ) -> Result<Answer, Answer> {
        self.admit(parameters)?;
        check_clock(register.time, now)?;
        if self.metadata.is_none() && register.new_nodes == NewNodes::Ignore {
            return Ok(self.registered(now));
        }
        let admits_new = register.new_nodes == NewNodes::Admit;
        let is_trusted = parameters.guard == RestartGuard::Off || (self.metadata.is_none() && admits_new);
        if self.metadata.is_none() || !(self.has_metadata_of(&self.incarnation) || is_trusted) {
            let minimum_token =
                self.metadata.as_ref().map_or(Ok(0), |metadata| check_counter(metadata.minimum_token))?;
            // The minimum token of a trusted node is not raised: the next votes of the node would exceed the raised
            // minimum token. A restart within the same second would set the same minimum token, and the node could
            // repeat these votes.
            let is_new = !is_trusted && self.metadata.is_none() && self.is_new.is_none();
            let minimum_token =
                if is_trusted { minimum_token } else { minimum_token.max(minimum_token_at(now)) };
            self.write_metadata(&parameters.fingerprint, minimum_token, is_new);
            if !is_trusted {
                self.quarantine = Some(Quarantine::begun_at(now, parameters.quarantine));
            }
        }
        Ok(self.registered(now))
    }
}
