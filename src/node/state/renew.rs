//! Renew: what a node keeps, or takes again, for a lease.

use crate::node::{
    operation::{Answer, Renew},
    parameters::QuorumParameters,
    state::{
        NodeState, NodeTime,
        counters::{Counters, LARGEST_COUNTER, start, usable},
    },
};

impl NodeState {
    pub(super) fn renew(
        &mut self,
        parameters: &QuorumParameters,
        renew: &Renew,
        now: NodeTime,
    ) -> Result<Answer, Answer> {
        let Renew { resources, owner, holds, ttl, token } = renew;
        let token = usable(*token)?;
        let (_, counters) = self.look_up_free(resources, owner, now)?;
        self.note_quorum(parameters, now);
        let abstention = self.abstention_from_renewals(parameters, now);
        // The node may have forgotten a counter that was above the token, hence the minimum token.
        let proves = are_below(&counters, token) && self.minimum_token()? <= token;
        // Where the counter was lost, it comes back above the token: a node that forgot must not
        // prove anything later either.
        for (resource, found) in resources.iter().zip(&counters.found) {
            let regained = start(now).max(token + 1).min(LARGEST_COUNTER);
            self.count(parameters, resource, found.map_or(regained, |found| found.max(token)), now);
            self.own(resource, owner, *holds, *ttl, now);
        }
        let is_awaited = self.is_any_queued(resources, now);
        Ok(abstention
            .map_or_else(|| Answer::Renewed { proves }.awaited(is_awaited), Answer::RenewedInQuarantine))
    }
}

/// Whether the node knows of no token above the lease's own: a counter that is missing may have been
/// above it.
pub(super) fn are_below(counters: &Counters, token: u64) -> bool {
    !counters.is_any_missing() && counters.largest <= token
}
