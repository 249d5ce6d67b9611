//! Renew: what a node keeps, or takes again, for a lease.

use crate::{
    mutation::{self, Mutation},
    node::{
        operation::{Answer, Holder, Renew},
        parameters::QuorumParameters,
        state::{
            HeldKey, NodeState, NodeTime,
            counters::{LARGEST_COUNTER, start, usable},
        },
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
        if self.is_gone(resources, owner, now) {
            return Ok(Answer::Gone);
        }
        let lookup = self.look_up(resources, owner, now);
        let counters = self.counters(resources, now)?;
        if let Some(holder) = lookup.other {
            return Ok(Answer::Held(Holder { counter: counters.largest, ..holder }));
        }
        self.note_quorum(parameters, now);
        let abstention = self.abstention_from_renewals(parameters, now);
        // A counter that is missing may have been above the token; so may one that the node forgot,
        // hence the minimum token.
        let is_below = counters.largest <= token || mutation::is_on(Mutation::VerifyAboveToken);
        let is_missing = counters.is_any_missing() && !mutation::is_on(Mutation::VerifyForgetful);
        let proves = !is_missing && is_below && self.minimum_token()? <= token;
        if mutation::is_on(Mutation::HealOnlyBelowToken) && !lookup.is_all_ours && counters.largest > token {
            return Ok(Answer::NotWrittenBack { counter: counters.largest });
        }
        // Where the counter was lost, it comes back above the token: a node that forgot must not
        // prove anything later either.
        for (resource, found) in resources.iter().zip(&counters.found) {
            if mutation::is_on(Mutation::HoldsAsIncrements) && *holds == 0 {
                let stored = self.held(resource, now).filter(|held| held.holds > 1).cloned();
                self.set_lock(resource, stored.map(|held| HeldKey { holds: held.holds - 1, ..held }));
                continue;
            }
            let above = if mutation::is_on(Mutation::VerifyForgetful) { token } else { token + 1 };
            let regained = start(now).max(above).min(LARGEST_COUNTER);
            self.count(parameters, resource, found.map_or(regained, |found| found.max(token)), now);
            self.own(resource, owner, *holds, *ttl, now);
        }
        let is_awaited = resources.iter().any(|resource| self.wait_queue(resource, now).is_some());
        Ok(abstention
            .map_or_else(|| Answer::Renewed { proves }.awaited(is_awaited), Answer::RenewedInQuarantine))
    }
}
