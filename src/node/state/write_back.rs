//! Write-back in the pure node: raises the counters of a lock to its token.

use crate::node::{
    operation::{Answer, WriteBack},
    parameters::QuorumParameters,
    state::{
        NodeState, NodeTime,
        counters::{check_counter, start},
    },
};

impl NodeState {
    pub(super) fn write_back(
        &mut self,
        parameters: &QuorumParameters,
        write_back: &WriteBack,
        now: NodeTime,
    ) -> Result<Answer, Answer> {
        let WriteBack { resources, lease_id, token } = write_back;
        let token = check_counter(*token)?;
        let lookup = self.look_up(resources, lease_id, now);
        let counters = self.counters(resources, now)?;
        // If the token is below the minimum token, the node may have confirmed the token for another lease,
        // which the node has forgotten.
        let is_above_minimum = self.minimum_token()? <= token;
        let may_stand = resources.each().zip(&counters.found).all(|((resource, is_shared), found)| {
            // While readers hold the resource, no writer has a token above the phase, so the phase is
            // compared in place of the counter.
            let largest =
                if is_shared { self.readers(resource, now).map(|readers| readers.phase) } else { *found };
            largest.unwrap_or_else(|| start(now)) <= token
        });
        if !lookup.is_all_ours || !is_above_minimum || !may_stand {
            return Ok(Answer::NotWrittenBack { counter: counters.largest });
        }
        for ((resource, is_shared), found) in resources.each().zip(&counters.found) {
            if is_shared {
                self.raise(resource, token, now);
                self.store_counter(parameters, resource, found.unwrap_or_else(|| start(now)).max(token), now);
            } else {
                self.store_counter(parameters, resource, token, now);
            }
        }
        Ok(Answer::WrittenBack)
    }
}
