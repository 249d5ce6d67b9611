//! Record replacements in the pure node: compares and changes the record of replaced nodes.

use std::sync::Arc;

use crate::node::{
    operation::{Abstention, Answer, RecordReplacements},
    parameters::QuorumParameters,
    state::NodeState,
};

impl NodeState {
    pub(super) fn record_replacements(
        &mut self,
        parameters: &QuorumParameters,
        record: &RecordReplacements,
    ) -> Result<Answer, Answer> {
        self.admit(parameters)?;
        let Some(metadata) = &mut self.metadata else {
            return Ok(Answer::Abstains(Abstention::NotRegistered));
        };
        if metadata.replacements == record.from {
            metadata.replacements = Arc::clone(&record.to);
        }
        Ok(Answer::Recorded { text: Arc::clone(&metadata.replacements) })
    }
}
