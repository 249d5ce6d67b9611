//! Vacant in the pure node: the resources without holder and waiters.

use crate::{
    node::{
        operation::{Answer, Vacant},
        state::{NodeState, NodeTime},
    },
    values::Resource,
};

impl NodeState {
    /// Returns the resources that have neither a holder nor waiters. A resource with a mark is left out, unless the
    /// request ignores marks.
    pub(super) fn vacant(&self, vacant: &Vacant, now: NodeTime) -> Answer {
        let is_vacant = |resource: &Resource| {
            self.held(resource, now).is_none()
                && self.wait_queue(resource, now).is_none()
                && (vacant.ignores_marks || !self.is_marked(resource, now))
        };
        let each = vacant.resources.iter().enumerate();
        let indices = each.filter(|(_, resource)| is_vacant(resource)).map(|(index, _)| index);
        Answer::Vacant(indices.take(vacant.max_resources as usize).collect())
    }
}
