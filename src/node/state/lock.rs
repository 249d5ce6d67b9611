//! Lock: what a node grants to a newcomer, and to a waiter at its turn.

use std::time::Duration;

use crate::{
    node::{
        operation::{Answer, Holder, Lock, Queued},
        parameters::QuorumParameters,
        state::{
            NodeState, NodeTime, Subscribers,
            counters::{LARGEST_COUNTER, moved_by_hint, used_up},
        },
    },
    values::Resource,
};

impl NodeState {
    /// Locks, unless others are queued here or are to be let go first, and it is not this client's
    /// turn.
    pub(super) fn lock(
        &mut self,
        parameters: &QuorumParameters,
        lock: &Lock,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Result<Answer, Answer> {
        let Lock { resources, owner, has_turn, .. } = lock;
        let lookup = self.look_up(resources, owner, now);
        if *has_turn || lookup.is_all_ours || self.is_gone(resources, owner, now) {
            return self.grant(parameters, lock, now);
        }
        let counter = self.counters(resources, now)?.largest;
        let awaited =
            resources.iter().position(|resource| self.is_awaited(parameters, resource, now, subscribers));
        let marked = || resources.iter().position(|resource| self.is_marked(resource, now));
        let is_free = lookup.other.is_none();
        let Some(resource) = awaited.or_else(|| if is_free { marked() } else { None }) else {
            if let Some(holder) = lookup.other.as_ref().filter(|holder| !holder.remaining.is_zero()) {
                // No longer than the longest ttl, as the sign that there are marks may end then.
                let until = now + holder.remaining.min(parameters.max_ttl);
                self.marks.extend(resources.get(holder.resource).map(|held| (held.clone(), until)));
            }
            return self.grant(parameters, lock, now);
        };
        let holder = lookup.other.map(|holder| Holder { counter, ..holder });
        let rank = u32::from(awaited.is_some());
        Ok(Answer::Queued(Queued { resource, ticket: 0, rank, patience: Duration::ZERO, holder }))
    }

    /// Locks, even if others wait.
    pub(super) fn grant(
        &mut self,
        parameters: &QuorumParameters,
        lock: &Lock,
        now: NodeTime,
    ) -> Result<Answer, Answer> {
        let Lock { resources, owner, ttl, hint, .. } = lock;
        let (is_all_ours, counters) = self.look_up_free(resources, owner, now)?;
        // A lock that arrives twice gets the same vote twice. But one that the node does not
        // remember, or that is below the minimum token, is no vote to repeat.
        let minimum_token = self.minimum_token()?;
        let is_resend = is_all_ours && !counters.is_any_missing() && counters.largest >= minimum_token;
        let vote = if is_resend {
            counters.largest
        } else {
            let below = counters.largest_or_start(now).max(minimum_token).max(moved_by_hint(*hint, now));
            if below >= LARGEST_COUNTER {
                return Err(used_up(below));
            }
            below + 1
        };
        for resource in resources.iter() {
            self.count(parameters, resource, vote, now);
            let stored = self.held(resource, now).map(|held| held.holds).filter(|_| is_resend);
            self.own(resource, owner, stored.unwrap_or(1), *ttl, now);
            self.marks.remove(resource);
        }
        Ok(Answer::Granted { vote })
    }

    /// Whether newcomers are to let others go first.
    fn is_marked(&self, resource: &Resource, now: NodeTime) -> bool {
        let until = self.marks.get(resource);
        until.is_some_and(|until| !until.is_past(now))
    }
}
