//! Unlock, force unlock, inspect: what a node does for anybody.

use std::sync::Arc;

use crate::{
    mutation::{self, Mutation},
    node::{
        answer::{Answer, HeldBy, Inspection},
        parameters::QuorumParameters,
        request::{ForceUnlock, Inspect, Tombstone, Unlock},
        state::{NodeState, NodeTime, Subscribers},
    },
};

impl NodeState {
    pub(super) fn unlock(
        &mut self,
        parameters: &QuorumParameters,
        unlock: &Unlock,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Answer {
        let Unlock { resources, owner, notify, tombstone, is_awaited: leaves_mark } = unlock;
        let mut deleted = 0;
        let mut is_awaited = false;
        for resource in resources.iter() {
            let anybodys = mutation::is_on(Mutation::UnlockWithoutOwner);
            if self.held(resource, now).is_some_and(|held| anybodys || held.owner == *owner) {
                self.set_lock(resource, None);
                deleted += 1;
                let was_marked = self.marks.remove(resource).is_some_and(|until| !until.is_past(now));
                if *notify {
                    // Waiters go before newcomers, if there are any that are known.
                    if was_marked || *leaves_mark {
                        self.marks.insert(resource.clone(), now + parameters.hand_over);
                    }
                    subscribers.tell(resource.clone());
                }
            }
            // Wherever it is free now: what is deleted elsewhere may not have been here.
            is_awaited |= if *notify || !mutation::is_on(Mutation::KeepTheTurn) {
                self.is_awaited(parameters, resource, now, subscribers)
            } else {
                self.wait_queue(resource, now).is_some()
            };
        }
        let is_all_deleted = usize::try_from(deleted) == Ok(resources.len());
        if *tombstone == Tombstone::Always || (*tombstone == Tombstone::IfMissing && !is_all_deleted) {
            for resource in resources.iter() {
                self.write_tombstone(parameters, resource, owner, now);
            }
        }
        Answer::Unlocked { deleted }.awaited(is_awaited)
    }

    pub(super) fn force_unlock(
        &mut self,
        parameters: &QuorumParameters,
        unlock: &ForceUnlock,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Answer {
        let mut deleted = 0;
        for resource in unlock.resources.iter() {
            let Some(owner) = self.held(resource, now).map(|held| held.owner.clone()) else { continue };
            self.set_lock(resource, None);
            self.marks.remove(resource);
            self.write_tombstone(parameters, resource, &owner, now);
            deleted += 1;
            subscribers.tell(resource.clone());
            self.wake_next(parameters, resource, now, subscribers);
        }
        Answer::Unlocked { deleted }
    }

    pub(super) fn inspect(
        &self,
        parameters: &QuorumParameters,
        inspect: &Inspect,
        now: NodeTime,
    ) -> Result<Answer, Answer> {
        let counters = self.counters(std::slice::from_ref(&inspect.resource), now)?;
        let held = self.held(&inspect.resource, now).map(|held| HeldBy {
            owner: Some(held.owner.clone()),
            holds: held.holds,
            remaining: Some(held.expires_at.remaining(now)),
        });
        Ok(Answer::Inspected(Inspection {
            held,
            counter: counters.largest,
            incarnation: Some(Arc::clone(&self.incarnation)),
            fingerprint: self.metadata().map(|metadata| metadata.fingerprint.clone()),
            abstention: self.abstention(parameters, now),
        }))
    }
}
