//! Write-back: the counters of a lock are moved to its token.

use crate::{
    mutation::{self, Mutation},
    node::{
        operation::{Answer, WriteBack},
        parameters::QuorumParameters,
        state::{NodeState, NodeTime, counters::usable},
    },
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
        let unconditional = mutation::is_on(Mutation::WriteBackUnconditionally);
        let is_ours = lookup.is_all_ours || unconditional || mutation::is_on(Mutation::WriteBackWithoutOwner);
        let is_below = counters.largest_or_start(now) <= token
            || unconditional
            || mutation::is_on(Mutation::WriteBackAboveToken);
        if !(is_ours && is_below) {
            return Ok(Answer::NotWrittenBack { counter: counters.largest });
        }
        for resource in resources.iter() {
            self.count(parameters, resource, token, now);
        }
        Ok(Answer::WrittenBack)
    }
}
