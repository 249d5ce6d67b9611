//! Renew in the pure node: extends the keys of a lease, or writes lost keys again.

use crate::node::{
    operation::{Answer, Renew},
    parameters::QuorumParameters,
    state::{
        NodeState, NodeTime,
        counters::{LARGEST_COUNTER, check_counter, start},
    },
};

impl NodeState {
    pub(super) fn renew(
        &mut self,
        parameters: &QuorumParameters,
        renew: &Renew,
        now: NodeTime,
    ) -> Result<Answer, Answer> {
        let Renew { resources, lease_id, holds, ttl, extends: _, token, may_have_waiters } = renew;
        let token = check_counter(*token)?;
        let (_, counters) = self.look_up_free(resources, lease_id, now)?;
        self.note_quorum(parameters, now);
        let abstention = self.abstention_from_renewals(parameters, now);
        // The counters that the node has forgotten did not exceed the minimum token. If the token is below the minimum
        // token, a forgotten counter may have exceeded the token, and the renewal proves nothing.
        let minimum_token = self.minimum_token()?;
        let shows_no_larger_vote = |(resource, is_shared), found: &Option<u64>| {
            let readers = self.readers(resource, now).filter(|_| is_shared);
            readers.map_or_else(|| proves_token(*found, token), |readers| readers.phase <= token)
        };
        let each = resources.each().zip(&counters.found);
        let proven: Vec<_> =
            each.map(|(each, found)| minimum_token <= token && shows_no_larger_vote(each, found)).collect();
        let proves = !proven.contains(&false);
        for (((resource, is_shared), found), is_proven) in resources.each().zip(&counters.found).zip(proven) {
            // A lost counter is written again with a value above the token, so that later renewals on this
            // node prove nothing either.
            let regained = start(now).max(token + 1).min(LARGEST_COUNTER);
            let mut counter = found.map_or(regained, |found| found.max(token));
            if !is_shared {
                self.store_counter(parameters, resource, counter, now);
                self.write_lease_id(resource, lease_id, *holds, *ttl, now);
                continue;
            }
            // If the node lost the readers, the renewal begins a new run. Its phase is the token, or above all
            // votes if the node may have given a larger vote.
            let is_new = self.readers(resource, now).is_none();
            if is_new && !is_proven {
                counter = (counter.max(minimum_token) + 1).min(LARGEST_COUNTER);
            }
            self.store_counter(parameters, resource, counter, now);
            let epoch = if is_proven {
                token
            } else if is_new {
                counter
            } else {
                0
            };
            self.share(resource, lease_id, epoch, *ttl, now);
            if *may_have_waiters {
                self.extend_yield_mark(parameters, resource, now);
            }
        }
        let has_waiters = self.is_any_queued(resources, now);
        Ok(abstention.map_or_else(
            || Answer::Renewed { proves }.with_waiters(has_waiters),
            Answer::RenewedInQuarantine,
        ))
    }
}

/// Whether the counter shows that the node gave no vote above the token. A missing counter may have exceeded the
/// token.
pub(super) fn proves_token(counter: Option<u64>, token: u64) -> bool {
    counter.is_some_and(|counter| counter <= token)
}
