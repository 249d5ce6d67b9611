//! Proclaim in the pure node: stores the value of a leader.

use crate::node::{
    names,
    operation::{Answer, Proclaim},
    state::{LeaderRecord, NodeState, NodeTime, Subscribers},
};

impl NodeState {
    /// Stores the proclamation of a holder. A node in quarantine stores proclamations, too, because a proclamation is
    /// no vote.
    pub(super) fn proclaim(
        &mut self,
        proclaim: &Proclaim,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Answer {
        let Proclaim { resource, proclamation, ttl } = proclaim;
        let is_leader = self.held(resource, now).is_some_and(|held| held.lease_id == proclamation.lease_id);
        if !is_leader {
            return Answer::NotLeader;
        }
        let before = self.leader(resource, now).map(|leader| &leader.proclamation);
        let number_before =
            before.filter(|before| before.lease_id == proclamation.lease_id).map(|before| before.number);
        if number_before > Some(proclamation.number) {
            return Answer::Proclaimed;
        }
        if number_before == Some(proclamation.number) {
            if let Some(leader) = self.leaders.get_mut(resource) {
                leader.expires_at = now + *ttl;
            }
        } else {
            self.leaders.insert(
                resource.clone(),
                LeaderRecord { proclamation: proclamation.clone(), expires_at: now + *ttl },
            );
            subscribers.publish(names::leader(resource));
        }
        Answer::Proclaimed
    }
}
