//! The readers of a resource: the leases that share the resource.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    node::{
        parameters::QuorumParameters,
        state::{HeldKey, NodeState, NodeTime},
    },
    values::{LeaseId, Resource},
};

/// An unbroken run of readers: since the first reader, the resource has never been free.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReaderRun {
    /// The vote of the first reader. While the run lasts, the node confirms no token of a writer above the phase.
    pub(crate) phase: u64,
    /// The vote of the next reader, at least the phase.
    pub(crate) epoch: u64,
    /// The end of each reader.
    pub(crate) ends: BTreeMap<LeaseId, NodeTime>,
    /// The latest of the readers' ends.
    pub(crate) expires_at: NodeTime,
}

impl NodeState {
    /// Returns the readers of a resource; `None` if no reader holds the resource.
    pub(crate) fn readers(&self, resource: &Resource, now: NodeTime) -> Option<&ReaderRun> {
        self.held(resource, now).filter(|held| held.lease_id.is_of_readers())?;
        self.readers.get(resource).filter(|readers| !readers.expires_at.is_past(now))
    }

    /// Returns the readers that have not expired, in the order of their ends.
    pub(super) fn live_readers(&self, resource: &Resource, now: NodeTime) -> BTreeSet<(NodeTime, LeaseId)> {
        let readers = self.readers(resource, now).into_iter().flat_map(|readers| &readers.ends);
        readers.filter(|(_, end)| !end.is_past(now)).map(|(lease_id, end)| (*end, lease_id.clone())).collect()
    }

    /// Whether the lease is a reader that has not expired.
    pub(super) fn is_reader(&self, resource: &Resource, lease_id: &LeaseId, now: NodeTime) -> bool {
        let readers = self.readers(resource, now);
        readers.and_then(|readers| readers.ends.get(lease_id)).is_some_and(|end| !end.is_past(now))
    }

    /// Adds a lease to the readers. A later end of the same lease stays.
    ///
    /// The vote of the next reader is then at least `epoch`. If no reader holds the resource, a new run begins with
    /// `epoch` as its phase.
    pub(super) fn share(
        &mut self,
        resource: &Resource,
        lease_id: &LeaseId,
        epoch: u64,
        ttl: Duration,
        now: NodeTime,
    ) {
        let end = now + ttl;
        let mut readers = self.readers(resource, now).cloned().unwrap_or_else(|| ReaderRun {
            phase: epoch,
            epoch,
            ends: BTreeMap::new(),
            expires_at: end,
        });
        readers.epoch = readers.epoch.max(epoch);
        readers.ends.retain(|_, end| !end.is_past(now));
        let stored = readers.ends.entry(lease_id.clone()).or_insert(end);
        *stored = end.max(*stored);
        self.keep_readers(resource, readers);
    }

    /// Raises the vote of the next reader, if readers hold the resource.
    pub(super) fn raise(&mut self, resource: &Resource, epoch: u64, now: NodeTime) {
        if self.readers(resource, now).is_some()
            && let Some(readers) = self.readers.get_mut(resource)
        {
            readers.epoch = readers.epoch.max(epoch);
        }
    }

    /// Extends the yield mark to the end of the readers, because waiters wait until then.
    pub(super) fn extend_yield_mark(
        &mut self,
        parameters: &QuorumParameters,
        resource: &Resource,
        now: NodeTime,
    ) {
        // The mark lasts for at most the longest ttl, because on a server, the key of a dirty node must outlive
        // the mark.
        let longest = now + parameters.max_ttl;
        let until = self.readers(resource, now).map(|readers| readers.expires_at.min(longest));
        if let (Some(until), Some(mark)) = (until, self.yield_marks.get_mut(resource))
            && !mark.is_past(now)
        {
            *mark = until.max(*mark);
        }
    }

    /// Removes a lease from the readers. Returns whether the lease was a reader. An expired run is deleted, as a server
    /// deletes an expired key at its next use.
    ///
    /// An expired reader counts as a reader if other readers have held the resource since its end, because no writer
    /// has held the resource in between.
    pub(super) fn unshare(&mut self, resource: &Resource, lease_id: &LeaseId, now: NodeTime) -> bool {
        let is_shared = self.held(resource, now).is_some_and(|held| held.lease_id.is_of_readers());
        let run = self.readers.remove(resource).filter(|readers| !readers.expires_at.is_past(now));
        let Some(mut readers) = run else { return false };
        let was_reader = readers.ends.remove(lease_id).is_some() && is_shared;
        if was_reader && readers.ends.values().all(|end| end.is_past(now)) {
            self.set_lock(resource, None);
        } else if was_reader {
            self.keep_readers(resource, readers);
        } else if !readers.ends.is_empty() {
            // The key of the readers was deleted before. The key of another lease may have taken its place.
            self.readers.insert(resource.clone(), readers);
        }
        was_reader
    }

    /// Returns a resource that breaks a rule: the key of the readers exists until the end of the last reader, and the
    /// epoch is at least the phase.
    #[cfg(feature = "sim")]
    pub(crate) fn inconsistent_resource(&self, now: NodeTime) -> Option<&Resource> {
        let is_sound = |resource: &Resource| {
            let key = self.held(resource, now).filter(|held| held.lease_id.is_of_readers());
            let readers = self.readers.get(resource).filter(|readers| !readers.expires_at.is_past(now));
            let last = readers.and_then(|readers| readers.ends.values().max());
            key.map(|key| key.expires_at) == last.copied()
                && readers
                    .is_none_or(|readers| Some(&readers.expires_at) == last && readers.phase <= readers.epoch)
        };
        let shared = self.locks.iter().filter(|(_, held)| held.lease_id.is_of_readers());
        shared.map(|(resource, _)| resource).chain(self.readers.keys()).find(|resource| !is_sound(resource))
    }

    /// Writes readers and their key, which ends with the last reader.
    fn keep_readers(&mut self, resource: &Resource, mut readers: ReaderRun) {
        let Some(last) = readers.ends.values().copied().max() else { return };
        readers.expires_at = last;
        self.set_lock(
            resource,
            Some(HeldKey { lease_id: LeaseId::of_readers(), holds: 0, expires_at: last }),
        );
        self.readers.insert(resource.clone(), readers);
    }
}
