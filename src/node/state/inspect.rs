//! Inspect: what a node tells of a resource.

use std::sync::Arc;

use crate::node::{
    operation::{Answer, HeldBy, Inspect, Inspection},
    parameters::QuorumParameters,
    state::{NodeState, NodeTime},
};

impl NodeState {
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
