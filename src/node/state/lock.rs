//! Lock in the pure node: grants to newcomers and to woken waiters.

use std::time::Duration;

use crate::{
    node::{
        operation::{Answer, Holder, Lock, Queued, Resources},
        parameters::QuorumParameters,
        state::{
            NodeState, NodeTime, Subscribers,
            counters::{Counters, LARGEST_COUNTER, hinted_counter, invalid_counter},
            holder_lookup::HolderLookup,
        },
    },
    values::LeaseId,
};

impl NodeState {
    /// Locks. A newcomer yields if a resource has waiters, or if all resources are free and one has a mark. A woken
    /// waiter, and a lease that holds all resources already, do not yield to waiters.
    pub(super) fn lock(
        &mut self,
        parameters: &QuorumParameters,
        lock: &Lock,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Result<Answer, Answer> {
        let Lock { resources, lease_id, ignores_queue, .. } = lock;
        let lookup = self.look_up(resources, lease_id, now);
        if lookup.is_all_ours || self.has_tombstone(resources, lease_id, now) {
            return self.grant(parameters, lock, now);
        }
        if *ignores_queue {
            return self.take(parameters, lock, lookup, now);
        }
        let counter = self.counters(resources, now)?.largest;
        let resource_with_waiters =
            resources.iter().position(|resource| self.has_waiters(parameters, resource, now, subscribers));
        let marked = || resources.iter().position(|resource| self.is_marked(resource, now));
        let is_free = lookup.other.is_none();
        let Some(resource) = resource_with_waiters.or_else(|| if is_free { marked() } else { None }) else {
            if let Some(holder) = lookup.other.as_ref().filter(|_| !lock.will_not_wait) {
                self.set_yield_mark(parameters, resources, holder, now);
            }
            return self.grant(parameters, lock, now);
        };
        let holder = lookup.other.map(|holder| Holder { counter, ..holder });
        let rank = u32::from(resource_with_waiters.is_some());
        Ok(Answer::Queued(Queued { resource, arrival: 0, rank, patience: Duration::ZERO, holder }))
    }

    /// Locks for a woken waiter.
    fn take(
        &mut self,
        parameters: &QuorumParameters,
        lock: &Lock,
        lookup: HolderLookup,
        now: NodeTime,
    ) -> Result<Answer, Answer> {
        let Lock { resources, lease_id, will_not_wait, .. } = lock;
        let counter = self.counters(resources, now)?.largest;
        match lookup.other {
            // A writer mark is for the resource whose queue node woke the writer. For a group, that resource
            // may be any of the resources, so only a lock of one resource sets a writer mark.
            Some(other) if !will_not_wait && resources.len() == 1 && !resources.is_shared(0) => {
                self.set_writer_mark(parameters, resources, &other, now);
            }
            Some(_) => {}
            None => {
                if let Some(holder) = self.yield_to_writer(resources, lease_id, now) {
                    return Err(Answer::Held(Holder { counter, ..holder }));
                }
            }
        }
        self.grant(parameters, lock, now)
    }

    /// Locks, without regard to queues and marks, and deletes the marks of exclusive resources. Refuses as
    /// [`grant_keeping_marks`](Self::grant_keeping_marks).
    pub(super) fn grant(
        &mut self,
        parameters: &QuorumParameters,
        lock: &Lock,
        now: NodeTime,
    ) -> Result<Answer, Answer> {
        let granted = self.grant_keeping_marks(parameters, lock, now)?;
        for (resource, _) in lock.resources.each().filter(|(_, is_shared)| !is_shared) {
            self.yield_marks.remove(resource);
            self.writer_marks.remove(resource);
        }
        Ok(granted)
    }

    /// Locks, without regard to queues and marks. Refuses if another lease holds one of the resources, or if the node
    /// has a tombstone of the lease.
    pub(super) fn grant_keeping_marks(
        &mut self,
        parameters: &QuorumParameters,
        lock: &Lock,
        now: NodeTime,
    ) -> Result<Answer, Answer> {
        let Lock { resources, lease_id, ttl, hint, .. } = lock;
        let (_, counters) = self.look_up_free(resources, lease_id, now)?;
        let minimum_token = self.minimum_token()?;
        // A vote below the minimum token must not be repeated, because another lease may have got the same vote.
        let given = self.given_vote(resources, lease_id, &counters, now);
        let repeated = given.filter(|vote| *vote >= minimum_token);
        let epoch = |resource| self.readers(resource, now).map_or(0, |readers| readers.epoch);
        let largest_epoch = resources.iter().map(epoch).max().unwrap_or(0);
        let largest = counters.largest_or_start(now).max(largest_epoch);
        let below = largest.max(minimum_token).max(hinted_counter(*hint, now));
        if repeated.is_none() && below >= LARGEST_COUNTER {
            return Err(invalid_counter(below));
        }
        let vote = repeated.unwrap_or(below + 1);
        for ((resource, is_shared), found) in resources.each().zip(&counters.found) {
            self.store_counter(parameters, resource, found.unwrap_or(0).max(vote), now);
            if is_shared {
                self.share(resource, lease_id, vote, *ttl, now);
                continue;
            }
            let stored = self.held(resource, now).map(|held| held.holds).filter(|_| repeated.is_some());
            self.write_lease_id(resource, lease_id, stored.unwrap_or(1), *ttl, now);
        }
        Ok(Answer::Granted { vote })
    }

    /// Returns the largest vote that the node gave for the resources before, to this lease or to the readers that
    /// the lease joins. The vote is given again, so a lock that arrives twice gets the same vote twice.
    ///
    /// `None` if the node does not remember a vote for each of the resources.
    fn given_vote(
        &self,
        resources: &Resources,
        lease_id: &LeaseId,
        counters: &Counters,
        now: NodeTime,
    ) -> Option<u64> {
        let mut given = resources.each().zip(&counters.found).map(|((resource, is_shared), found)| {
            if is_shared {
                return found.and_then(|_| self.readers(resource, now)).map(|readers| readers.epoch);
            }
            found.filter(|_| self.held(resource, now).is_some_and(|held| held.lease_id == *lease_id))
        });
        given.try_fold(0, |largest, vote| vote.map(|vote: u64| vote.max(largest)))
    }
}
