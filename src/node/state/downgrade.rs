//! Downgrade in the pure node: a writer becomes a reader.

use crate::node::{
    operation::{Answer, Downgrade, Lock},
    parameters::QuorumParameters,
    state::{NodeState, NodeTime, Subscribers},
};

impl NodeState {
    /// Deletes the keys of the writer and shares the resources in one step, so that no other writer can lock in
    /// between.
    ///
    /// On a node without the keys of the writer, the reader locks like any other reader.
    pub(super) fn downgrade(
        &mut self,
        parameters: &QuorumParameters,
        downgrade: &Downgrade,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Result<Answer, Answer> {
        let Downgrade { lock, writer } = downgrade;
        let Lock { resources, lease_id, .. } = lock;
        let has_tombstone = self.has_tombstone(resources, lease_id, now);
        if !has_tombstone {
            self.counters(resources, now)?;
        }
        // A tombstone shows that the writer was force-unlocked. A force-unlocked writer must not become a reader.
        let is_reader = resources.iter().all(|resource| self.is_reader(resource, lease_id, now));
        if has_tombstone || (!is_reader && self.has_tombstone(resources, writer, now)) {
            return Ok(Answer::Tombstone);
        }
        let written: Vec<_> = resources
            .iter()
            .filter_map(|resource| {
                let held = self.held(resource, now).filter(|held| held.lease_id == *writer)?;
                Some((resource.clone(), held.clone()))
            })
            .collect();
        for (resource, _) in &written {
            self.set_lock(resource, None);
        }
        let granted = self.grant(parameters, lock, now);
        for (resource, held) in written {
            if granted.is_err() {
                self.set_lock(&resource, Some(held));
                continue;
            }
            subscribers.publish(resource.clone());
            self.wake_next(parameters, &resource, now, subscribers);
        }
        granted
    }
}
