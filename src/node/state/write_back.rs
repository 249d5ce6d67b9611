//! Write-back: the counters of a lock are moved to its token.

use crate::node::{
    operation::{Answer, WriteBack},
    parameters::QuorumParameters,
    state::{NodeState, NodeTime, counters::usable},
};

impl NodeState {
    pub(super) fn write_back(
        &mut self,
        parameters: &QuorumParameters,
        write_back: &WriteBack,
        now: NodeTime,
    ) -> Result<Answer, Answer> {
        let WriteBack { resources, owner, token } = write_back;
        let token = usable(*token)?;
        let lookup = self.look_up(resources, owner, now);
        let counters = self.counters(resources, now)?;
        if !lookup.is_all_ours || counters.largest_or_start(now) > token {
            return Ok(Answer::NotWrittenBack { counter: counters.largest });
        }
        for resource in resources.iter() {
            self.count(parameters, resource, token, now);
        }
        Ok(Answer::WrittenBack)
    }
}
