//! Vacant: which resources a node knows to be nobody's.

use crate::{
    node::{
        operation::{Answer, Vacant},
        state::{NodeState, NodeTime},
    },
    values::Resource,
};

impl NodeState {
    /// Nobody has them, or is queued for them; and nobody is to be let go first, unless that is asked.
    pub(super) fn vacant(&self, vacant: &Vacant, now: NodeTime) -> Answer {
        let is_vacant = |resource: &Resource| {
            self.held(resource, now).is_none()
                && self.wait_queue(resource, now).is_none()
                && (vacant.ignores_marks || !self.is_marked(resource, now))
        };
        let each = vacant.resources.iter().enumerate();
        let indices = each.filter(|(_, resource)| is_vacant(resource)).map(|(index, _)| index);
        Answer::Vacant(indices.take(vacant.most as usize).collect())
    }
}
