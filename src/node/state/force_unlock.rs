//! Force-unlock in the pure node: deletes the lock of any owner.

use crate::{
    node::{
        names,
        operation::{Answer, ForceUnlock},
        parameters::QuorumParameters,
        state::{NodeState, NodeTime, Subscribers},
    },
    values::LeaseId,
};

impl NodeState {
    pub(super) fn force_unlock(
        &mut self,
        parameters: &QuorumParameters,
        unlock: &ForceUnlock,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Answer {
        let mut deleted = 0;
        for resource in unlock.resources.iter() {
            let Some(held) = self.held(resource, now) else { continue };
            let owners: Vec<_> = if held.owner.is_of_readers() {
                self.live_readers(resource, now).into_iter().map(|(_, owner)| owner).collect()
            } else {
                vec![held.owner.clone()]
            };
            self.set_lock(resource, None);
            self.yield_marks.remove(resource);
            self.writer_marks.remove(resource);
            self.readers.remove(resource);
            for owner in &owners {
                self.write_tombstone(parameters, resource, owner, now);
            }
            deleted += 1;
            subscribers.publish(resource.clone());
            self.wake_next(parameters, resource, now, subscribers);
            let clients = owners.iter().filter_map(LeaseId::client);
            for client in clients {
                subscribers.publish(names::force_unlocked(client));
            }
        }
        Answer::Unlocked { deleted }
    }
}
