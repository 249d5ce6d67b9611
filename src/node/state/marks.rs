//! The marks of a node.
//!
//! ```text
//! a newcomer is refused and will wait, or a lock with waiters is released  ──▶ yield mark: newcomers yield
//! a woken writer is refused by readers           ──▶ yield mark, and writer mark: queued readers yield, too
//! an exclusive lock is granted                                             ──▶ no mark
//! ```

use crate::{
    node::{
        operation::{Holder, Resources},
        parameters::QuorumParameters,
        state::{NodeState, NodeTime},
    },
    values::{LeaseId, Resource},
};

/// The number of hand-overs for which a writer mark lasts. A woken writer that readers refused is usually woken again
/// within this time.
const WRITER_MARK_HAND_OVERS: u32 = 4;

impl NodeState {
    /// Returns the end of the yield mark, by which newcomers yield to waiters.
    pub(crate) fn yield_mark(&self, resource: &Resource, now: NodeTime) -> Option<NodeTime> {
        self.yield_marks.get(resource).copied().filter(|until| !until.is_past(now))
    }

    /// Returns the end of the writer mark, by which queued readers yield to a woken writer.
    pub(crate) fn writer_mark(&self, resource: &Resource, now: NodeTime) -> Option<NodeTime> {
        self.writer_marks.get(resource).copied().filter(|until| !until.is_past(now))
    }

    /// Whether newcomers yield, because of either mark.
    pub(super) fn is_marked(&self, resource: &Resource, now: NodeTime) -> bool {
        self.yield_mark(resource, now).is_some() || self.writer_mark(resource, now).is_some()
    }

    /// Sets a yield mark for the rest of the holder's ttl, because a refused client will wait, and newcomers must
    /// yield to the waiter.
    pub(super) fn set_yield_mark(
        &mut self,
        parameters: &QuorumParameters,
        resources: &Resources,
        holder: &Holder,
        now: NodeTime,
    ) {
        if let Some(resource) = resources.get(holder.resource).filter(|_| !holder.remaining.is_zero()) {
            // The mark lasts for at most the longest ttl, because on a server, the key of a dirty node must outlive
            // the mark.
            self.yield_marks.insert(resource.clone(), now + holder.remaining.min(parameters.max_ttl));
        }
    }

    /// Sets a yield mark, and a writer mark for four hand-overs, on a resource that readers hold. Within this time, the
    /// refused writer is usually woken again.
    ///
    /// Without the writer mark, a second queue node, on which the writer has no entry, could wake readers of the same
    /// resource.
    pub(super) fn set_writer_mark(
        &mut self,
        parameters: &QuorumParameters,
        resources: &Resources,
        holder: &Holder,
        now: NodeTime,
    ) {
        if !holder.lease_id.as_ref().is_some_and(LeaseId::is_of_readers) || holder.remaining.is_zero() {
            return;
        }
        self.set_yield_mark(parameters, resources, holder, now);
        if let Some(resource) = resources.get(holder.resource) {
            let lasts = (parameters.hand_over * WRITER_MARK_HAND_OVERS).min(parameters.max_ttl);
            self.writer_marks.insert(resource.clone(), now + lasts);
        }
    }

    /// Returns the holder that refuses a reader because of a writer mark; `None` if the reader need not yield.
    ///
    /// The holder has the lease id of readers, and the rest of the writer mark as its remaining time.
    pub(super) fn yield_to_writer(
        &self,
        resources: &Resources,
        lease_id: &LeaseId,
        now: NodeTime,
    ) -> Option<Holder> {
        resources.each().enumerate().find_map(|(index, (resource, is_shared))| {
            let until = self.writer_mark(resource, now).filter(|_| is_shared)?;
            let holder = Holder {
                resource: index,
                lease_id: Some(LeaseId::of_readers()),
                remaining: until.remaining(now),
                counter: 0,
            };
            (!self.is_reader(resource, lease_id, now)).then_some(holder)
        })
    }
}
