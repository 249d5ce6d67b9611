//! Downgrade: what a node does for a writer that goes on as a reader.

use crate::node::{
    operation::{Answer, Downgrade, Lock},
    parameters::QuorumParameters,
    state::{NodeState, NodeTime, Subscribers},
};

impl NodeState {
    /// Shares the resource in the step in which the writer gives it up, so that no other writer
    /// comes between. At a node that does not have the writer's key (any more), the reader locks as
    /// any other.
    pub(super) fn downgrade(
        &mut self,
        parameters: &QuorumParameters,
        downgrade: &Downgrade,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Result<Answer, Answer> {
        let Downgrade { lock, writer } = downgrade;
        let Lock { resources, owner, .. } = lock;
        let has_tombstone = self.has_tombstone(resources, owner, now);
        if !has_tombstone {
            self.counters(resources, now)?;
        }
        // A writer that was unlocked by force must not read on.
        let is_reader = resources.iter().all(|resource| self.is_reader(resource, owner, now));
        if has_tombstone || (!is_reader && self.has_tombstone(resources, writer, now)) {
            return Ok(Answer::Tombstone);
        }
        let written: Vec<_> = resources
            .iter()
            .filter_map(|resource| {
                let held = self.held(resource, now).filter(|held| held.owner == *writer)?;
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
