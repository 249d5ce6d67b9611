//! Proclaim, observe: what a node does for a leader and for those that follow it.

use crate::{
    mutation::{self, Mutation},
    node::{
        answer::{Answer, Observation},
        names,
        request::{Observe, Proclaim},
        state::{Leader, NodeState, NodeTime, Subscribers},
    },
};

impl NodeState {
    /// No vote: a node that may have forgotten some does this as any other.
    pub(super) fn proclaim(
        &mut self,
        proclaim: &Proclaim,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Answer {
        let Proclaim { resource, said, ttl } = proclaim;
        let is_leader = self.held(resource, now).is_some_and(|held| held.owner == said.owner);
        if !is_leader && !mutation::is_on(Mutation::ProclaimWithoutLock) {
            return Answer::NotLeader;
        }
        let before = self.leader(resource, now).map(|leader| &leader.said);
        let number_before = before.filter(|before| before.owner == said.owner).map(|before| before.number);
        if number_before > Some(said.number) {
            return Answer::Proclaimed;
        }
        if number_before == Some(said.number) {
            if let Some(leader) = self.leaders.get_mut(resource) {
                leader.expires_at = now + *ttl;
            }
        } else {
            self.leaders.insert(resource.clone(), Leader { said: said.clone(), expires_at: now + *ttl });
            subscribers.tell(names::leader(resource));
        }
        Answer::Proclaimed
    }

    pub(super) fn observe(&self, observe: &Observe, now: NodeTime) -> Answer {
        let held = self.held(&observe.resource, now);
        Answer::Observed(Observation {
            owner: held.map(|held| held.owner.clone()),
            remaining: held.map(|held| held.expires_at.remaining(now)),
            said: self.leader(&observe.resource, now).map(|leader| leader.said.clone()),
        })
    }
}
