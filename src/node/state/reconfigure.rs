//! Reconfigure in the pure node: replaces the fingerprint of the node. The new fingerprint may be that of a closed
//! node, which votes for no configuration.

use std::sync::Arc;

use crate::node::{
    operation::{Abstention, Answer, CLOCK_MARGIN, Reconfigure, RecordStep},
    parameters::QuorumParameters,
    state::{
        NodeState, NodeTime, Quarantine,
        counters::{check_counter, minimum_token_at},
    },
};

impl NodeState {
    /// Writes the new fingerprint if the node has the expected fingerprint. A repeated request changes nothing. A node
    /// that is closed, and a node that returns to its configuration, stays new if it is new, and keeps its record of
    /// replacements. A new server that stands in for a replaced one begins a quarantine.
    pub(super) fn reconfigure(
        &mut self,
        parameters: &QuorumParameters,
        reconfigure: &Reconfigure,
        now: NodeTime,
    ) -> Result<Answer, Answer> {
        let Reconfigure { from, to, record } = reconfigure;
        let Some(metadata) = &mut self.metadata else {
            return Ok(Answer::Abstains(Abstention::NotRegistered));
        };
        if metadata.fingerprint != *from && metadata.fingerprint != *to {
            return Ok(Answer::WrongQuorum { fingerprint: metadata.fingerprint.clone() });
        }
        let is_first = metadata.fingerprint == *from;
        if let Some(RecordStep::Requires(text)) = record
            && is_first
            && *text != metadata.replacements
        {
            return Ok(Answer::Recorded { text: Arc::clone(&metadata.replacements) });
        }
        if reconfigure.begins_quarantine() && is_first {
            metadata.minimum_token =
                check_counter(metadata.minimum_token)?.max(minimum_token_at(now + CLOCK_MARGIN));
            metadata.incarnation = Arc::clone(&self.incarnation);
            self.quarantine = Some(Quarantine::begun_at(now, reconfigure.quarantine(parameters)));
        } else if !reconfigure.keeps_new() && is_first && from != to {
            metadata.replacements = "".into();
        }
        if let Some(RecordStep::Writes(text)) = record
            && is_first
        {
            metadata.replacements = Arc::clone(text);
        }
        metadata.fingerprint = to.clone();
        self.is_new = Some(reconfigure.keeps_new() && self.is_new == Some(true));
        Ok(self.registered(now))
    }
}
