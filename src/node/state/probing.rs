//! Access of tests to the state of a node, and changes that no operation makes.

use crate::{
    node::state::{NodeMetadata, NodeState, NodeTime, Quarantine, ReaderRun},
    values::{LeaseId, Resource},
};

impl NodeState {
    /// Returns the locked resources.
    pub(crate) fn locks(&self, now: NodeTime) -> Vec<Resource> {
        self.locks.keys().filter(|resource| self.held(resource, now).is_some()).cloned().collect()
    }

    pub(crate) fn put_yield_mark(&mut self, resource: &Resource, until: Option<NodeTime>) {
        match until {
            Some(until) => self.yield_marks.insert(resource.clone(), until),
            None => self.yield_marks.remove(resource),
        };
    }

    /// Returns the readers of a resource, even if another lease has the key.
    pub(crate) fn remembered_readers(&self, resource: &Resource, now: NodeTime) -> Option<&ReaderRun> {
        self.readers.get(resource).filter(|readers| !readers.expires_at.is_past(now))
    }

    pub(crate) fn forget_readers(&mut self, resource: &Resource) {
        self.readers.remove(resource);
    }

    /// Sets the end of a reader if another reader lasts longer. Returns whether the end was set.
    pub(crate) fn end_reader(
        &mut self,
        resource: &Resource,
        lease_id: &LeaseId,
        at: NodeTime,
        now: NodeTime,
    ) -> bool {
        let is_shared = self.readers(resource, now).is_some();
        let Some(readers) = self.readers.get_mut(resource).filter(|_| is_shared) else { return false };
        let last = readers.expires_at;
        let end = readers.ends.get_mut(lease_id).filter(|end| **end < last);
        end.map(|end| *end = at).is_some()
    }

    pub(crate) fn forget_leader(&mut self, resource: &Resource) {
        self.leaders.remove(resource);
    }

    pub(crate) fn set_metadata(&mut self, metadata: Option<NodeMetadata>) {
        self.metadata = metadata;
    }

    pub(crate) fn is_new(&self) -> Option<bool> {
        self.is_new
    }

    pub(crate) fn set_new(&mut self, is_new: Option<bool>) {
        self.is_new = is_new;
    }

    pub(crate) fn set_quarantine(&mut self, quarantine: Option<Quarantine>) {
        self.quarantine = quarantine;
    }
}

/// Changes that the model search makes.
#[cfg(redquorum_model)]
impl NodeState {
    /// Deletes all marks, so that newcomers and readers yield to no waiter.
    pub(crate) fn clear_marks(&mut self) {
        self.yield_marks.clear();
        self.writer_marks.clear();
    }

    /// Returns the readers of a resource, even if the readers have expired or another lease has the key.
    pub(crate) fn stored_readers(&self, resource: &Resource) -> Option<&ReaderRun> {
        self.readers.get(resource)
    }

    pub(crate) fn set_readers(&mut self, resource: &Resource, readers: Option<ReaderRun>) {
        match readers {
            Some(readers) => self.readers.insert(resource.clone(), readers),
            None => self.readers.remove(resource),
        };
    }

    /// Ends a lock and all its readers, as their expiry would.
    pub(crate) fn end_lock(&mut self, resource: &Resource) {
        self.set_lock(resource, None);
        self.set_readers(resource, None);
    }

    /// Ends one reader, as its expiry would.
    pub(crate) fn forget_reader(&mut self, resource: &Resource, lease_id: &LeaseId, now: NodeTime) {
        self.unshare(resource, lease_id, now);
    }
}
