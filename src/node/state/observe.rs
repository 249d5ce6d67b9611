//! Observe in the pure node: the holder and the value of a leader.

use crate::node::{
    operation::{Answer, Observe, ObserveAnswer},
    state::{NodeState, NodeTime},
};

impl NodeState {
    pub(super) fn observe(&self, observe: &Observe, now: NodeTime) -> Answer {
        let held = self.held(&observe.resource, now);
        Answer::Observed(ObserveAnswer {
            lease_id: held.map(|held| held.lease_id.clone()),
            remaining: held.map(|held| held.expires_at.remaining(now)),
            proclamation: self.leader(&observe.resource, now).map(|leader| leader.proclamation.clone()),
        })
    }
}
