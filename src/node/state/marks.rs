//! Marks: whom a node lets go first.

use crate::{
    node::{
        operation::{Holder, Resources},
        parameters::QuorumParameters,
        state::{NodeState, NodeTime},
    },
    values::{LeaseId, Resource},
};

/// A writer whose turn it was in vain comes again within so many hand-overs, as a rule.
const HAND_OVERS_BETWEEN_TURNS: u32 = 4;

impl NodeState {
    /// Until when newcomers let those go first who wait.
    pub(crate) fn yield_mark(&self, resource: &Resource, now: NodeTime) -> Option<NodeTime> {
        self.yield_marks.get(resource).copied().filter(|until| !until.is_past(now))
    }

    /// Until when readers let a writer go first whose turn it is.
    pub(crate) fn writer_mark(&self, resource: &Resource, now: NodeTime) -> Option<NodeTime> {
        self.writer_marks.get(resource).copied().filter(|until| !until.is_past(now))
    }

    /// Whether newcomers let others go first.
    pub(super) fn is_marked(&self, resource: &Resource, now: NodeTime) -> bool {
        self.yield_mark(resource, now).is_some() || self.writer_mark(resource, now).is_some()
    }

    /// Marks what somebody else has for as long as it does: a client that is refused will wait.
    pub(super) fn set_yield_mark(
        &mut self,
        parameters: &QuorumParameters,
        resources: &Resources,
        holder: &Holder,
        now: NodeTime,
    ) {
        if let Some(resource) = resources.get(holder.resource).filter(|_| !holder.remaining.is_zero()) {
            // No longer than the longest ttl, as the sign that there are marks may end then.
            self.yield_marks.insert(resource.clone(), now + holder.remaining.min(parameters.max_ttl));
        }
    }

    /// Marks what readers share until a writer whose turn it is comes again: it may be the turn of
    /// readers, too, at a queue node that it does not know of.
    pub(super) fn set_writer_mark(
        &mut self,
        parameters: &QuorumParameters,
        resources: &Resources,
        holder: &Holder,
        now: NodeTime,
    ) {
        if !holder.owner.as_ref().is_some_and(LeaseId::is_of_readers) || holder.remaining.is_zero() {
            return;
        }
        self.set_yield_mark(parameters, resources, holder, now);
        if let Some(resource) = resources.get(holder.resource) {
            let lasts = (parameters.hand_over * HAND_OVERS_BETWEEN_TURNS).min(parameters.max_ttl);
            self.writer_marks.insert(resource.clone(), now + lasts);
        }
    }

    /// The refusal of an owner that is to share one of the resources, and has to let a writer go
    /// first: as if readers had it whom it cannot join.
    pub(super) fn yield_to_writer(
        &self,
        resources: &Resources,
        owner: &LeaseId,
        now: NodeTime,
    ) -> Option<Holder> {
        resources.each().enumerate().find_map(|(index, (resource, is_shared))| {
            let until = self.writer_mark(resource, now).filter(|_| is_shared)?;
            let holder = Holder {
                resource: index,
                owner: Some(LeaseId::of_readers()),
                remaining: until.remaining(now),
                counter: 0,
            };
            (!self.is_reader(resource, owner, now)).then_some(holder)
        })
    }
}
