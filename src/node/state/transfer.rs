//! Transfer in the pure node: the locks of one lease become the locks of another lease.

use crate::node::{
    operation::{Answer, Lock, Transfer},
    parameters::QuorumParameters,
    state::{NodeState, NodeTime, Subscribers, counters::check_counter, renew::proves_token},
};

impl NodeState {
    /// Deletes the keys of the lease `from` and locks for another lease in one step, so that no third lease can lock in
    /// between. Marks stay, because waiters still wait.
    ///
    /// Without a proof, on a node without the keys of `from`, the other lease locks like any lease. With a proof, the
    /// node refuses unless `from` has all keys, and no counter exceeds the proof.
    pub(super) fn transfer(
        &mut self,
        parameters: &QuorumParameters,
        transfer: &Transfer,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Result<Answer, Answer> {
        let Transfer { lock, from, proof } = transfer;
        let Lock { resources, lease_id, .. } = lock;
        let has_tombstone = self.has_tombstone(resources, lease_id, now);
        if !has_tombstone {
            self.counters(resources, now)?;
        }
        let is_ours = self.look_up(resources, lease_id, now).is_all_ours;
        // A tombstone shows that `from` was unlocked, such as by force. Its resources must not go to another lease.
        if has_tombstone || (!is_ours && self.has_tombstone(resources, from, now)) {
            return Ok(Answer::Tombstone);
        }
        let given: Vec<_> = resources
            .each()
            .filter_map(|(resource, is_shared)| {
                let held =
                    self.held(resource, now).filter(|held| held.lease_id == *from && from != lease_id)?;
                Some((resource.clone(), is_shared, held.clone()))
            })
            .collect();
        for (resource, ..) in &given {
            self.set_lock(resource, None);
        }
        let is_all_given = given.len() == resources.len();
        let granted = match proof.filter(|_| !is_ours) {
            Some(proof) => self
                .check_proof(lock, proof, is_all_given, now)
                .and_then(|()| self.grant_keeping_marks(parameters, lock, now)),
            None => self.grant_keeping_marks(parameters, lock, now),
        };
        for (resource, is_shared, held) in given {
            if granted.is_err() {
                self.set_lock(&resource, Some(held));
            } else if is_shared {
                subscribers.publish(resource.clone());
                self.wake_next(parameters, &resource, now, subscribers);
            }
        }
        granted
    }

    /// Refuses unless the node shows that no third lease can have held the resources since the token `proof`.
    fn check_proof(&self, lock: &Lock, proof: u64, is_all_given: bool, now: NodeTime) -> Result<(), Answer> {
        let (_, counters) = self.look_up_free(&lock.resources, &lock.lease_id, now)?;
        let (token, minimum_token) = (check_counter(proof)?, self.minimum_token()?);
        let is_proven = counters.found.iter().all(|found| proves_token(*found, token));
        if is_all_given && is_proven && minimum_token <= token {
            return Ok(());
        }
        Err(Answer::NotWrittenBack { counter: counters.largest })
    }
}
