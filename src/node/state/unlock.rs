//! Unlock in the pure node: deletes the keys of a lease, or shortens their ttls.

use crate::node::{
    operation::{Answer, Tombstone, Unlock},
    parameters::QuorumParameters,
    state::{HeldKey, NodeState, NodeTime, Subscribers},
};

impl NodeState {
    pub(super) fn unlock(
        &mut self,
        parameters: &QuorumParameters,
        unlock: &Unlock,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Answer {
        let Unlock { resources, lease_id, notify, tombstone, has_waiters, rest } = unlock;
        let mut deleted = 0_u32;
        let mut any_waiters = false;
        for (resource, is_shared) in resources.each() {
            let was_ours = if is_shared {
                self.unshare(resource, lease_id, now)
            } else {
                let held = self.held(resource, now).filter(|held| held.lease_id == *lease_id).cloned();
                let is_ours = held.is_some();
                if let Some(held) = held {
                    // An earlier end stays, so an unlock that arrives twice does not extend the hold.
                    let kept =
                        rest.map(|rest| HeldKey { expires_at: held.expires_at.min(now + rest), ..held });
                    self.set_lock(resource, kept);
                }
                is_ours
            };
            deleted += u32::from(was_ours);
            // The resource is not free if other readers still share it, or during the rest of a minimum hold.
            if was_ours && self.held(resource, now).is_none() {
                // Only the yield mark is removed. A writer mark stays, because the woken writer attempts now.
                let was_marked = self.yield_marks.remove(resource).is_some_and(|until| !until.is_past(now));
                if *notify {
                    // If waiters are known, newcomers yield to them for a hand-over.
                    if was_marked || *has_waiters {
                        self.yield_marks.insert(resource.clone(), now + parameters.hand_over);
                    }
                    subscribers.publish(resource.clone());
                }
            }
            // The first waiter is woken even if this node had no key of the lease, because the lease may have held the
            // resource without this node.
            any_waiters |= self.has_waiters(parameters, resource, now, subscribers);
        }
        let is_all_deleted = usize::try_from(deleted) == Ok(resources.len());
        if *tombstone == Tombstone::Always || (*tombstone == Tombstone::IfMissing && !is_all_deleted) {
            for resource in resources.iter() {
                self.write_tombstone(parameters, resource, lease_id, now);
            }
        }
        Answer::Unlocked { deleted }.with_waiters(any_waiters)
    }
}
