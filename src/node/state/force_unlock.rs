//! Force-unlock in the pure node: deletes the lock of any lease.

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
            let lease_ids: Vec<_> = if held.lease_id.is_of_readers() {
                self.live_readers(resource, now).into_iter().map(|(_, lease_id)| lease_id).collect()
            } else {
                vec![held.lease_id.clone()]
            };
            self.set_lock(resource, None);
            self.yield_marks.remove(resource);
            self.writer_marks.remove(resource);
            self.readers.remove(resource);
            for lease_id in &lease_ids {
                self.write_tombstone(parameters, resource, lease_id, now);
            }
            deleted += 1;
            subscribers.publish(resource.clone());
            self.wake_next(parameters, resource, now, subscribers);
            let clients = lease_ids.iter().filter_map(LeaseId::client);
            clients.for_each(|client| subscribers.publish(names::force_unlocked(client)));
        }
        Answer::Unlocked { deleted }
    }
}
