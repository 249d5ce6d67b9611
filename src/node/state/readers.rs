//! The readers of a resource: the owners that share it.

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

/// An unbroken run of readers: since the first of them, the resource has never been free.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReaderRun {
    /// The vote of the first: as long as the run lasts, the node confirms no writer above it.
    pub(crate) phase: u64,
    /// The vote of the next, at least the phase.
    pub(crate) epoch: u64,
    /// Until when each of them is one.
    pub(crate) ends: BTreeMap<LeaseId, NodeTime>,
    /// The latest of these ends.
    pub(crate) expires_at: NodeTime,
}

impl NodeState {
    /// The readers of a resource, if it is shared.
    pub(crate) fn readers(&self, resource: &Resource, now: NodeTime) -> Option<&ReaderRun> {
        self.held(resource, now).filter(|held| held.owner.is_of_readers())?;
        self.readers.get(resource).filter(|readers| !readers.expires_at.is_past(now))
    }

    /// Those who share a resource, and until when, in the order in which they end.
    pub(super) fn live_readers(&self, resource: &Resource, now: NodeTime) -> BTreeSet<(NodeTime, LeaseId)> {
        let readers = self.readers(resource, now).into_iter().flat_map(|readers| &readers.ends);
        readers.filter(|(_, end)| !end.is_past(now)).map(|(owner, end)| (*end, owner.clone())).collect()
    }

    /// Whether this owner is one of the readers.
    pub(super) fn is_reader(&self, resource: &Resource, owner: &LeaseId, now: NodeTime) -> bool {
        let readers = self.readers(resource, now);
        readers.and_then(|readers| readers.ends.get(owner)).is_some_and(|end| !end.is_past(now))
    }

    /// Makes an owner one of the readers; a ttl that ends later stays. The vote of the next is
    /// `epoch` at least, and the phase of a new run is that.
    pub(super) fn share(
        &mut self,
        resource: &Resource,
        owner: &LeaseId,
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
        let stored = readers.ends.entry(owner.clone()).or_insert(end);
        *stored = end.max(*stored);
        self.keep_readers(resource, readers);
    }

    /// Raises the vote of the next reader, if there are any.
    pub(super) fn raise(&mut self, resource: &Resource, epoch: u64, now: NodeTime) {
        if self.readers(resource, now).is_some()
            && let Some(readers) = self.readers.get_mut(resource)
        {
            readers.epoch = readers.epoch.max(epoch);
        }
    }

    /// Those who wait for readers wait for as long as these stay.
    pub(super) fn extend_yield_mark(
        &mut self,
        parameters: &QuorumParameters,
        resource: &Resource,
        now: NodeTime,
    ) {
        // No longer than the longest ttl, as the sign that there are marks may end then.
        let longest = now + parameters.max_ttl;
        let until = self.readers(resource, now).map(|readers| readers.expires_at.min(longest));
        if let (Some(until), Some(mark)) = (until, self.yield_marks.get_mut(resource))
            && !mark.is_past(now)
        {
            *mark = until.max(*mark);
        }
    }

    /// Takes an owner out of the readers: whether it was one. It may be over, as long as others have
    /// shared the resource ever since: nobody else has had it.
    pub(super) fn unshare(&mut self, resource: &Resource, owner: &LeaseId, now: NodeTime) -> bool {
        let is_shared = self.held(resource, now).is_some_and(|held| held.owner.is_of_readers());
        let Some(mut readers) = self.readers.remove(resource) else { return false };
        let was_reader = readers.ends.remove(owner).is_some() && is_shared;
        if was_reader && readers.ends.values().all(|end| end.is_past(now)) {
            self.set_lock(resource, None);
        } else if was_reader {
            self.keep_readers(resource, readers);
        } else if !readers.ends.is_empty() {
            // What was left of them when their key was deleted: its owner now keeps it.
            self.readers.insert(resource.clone(), readers);
        }
        was_reader
    }

    /// A resource whose key does not say who reads it: that of readers is there as long as one of
    /// them lives, and ends with the last.
    #[cfg(feature = "sim")]
    pub(crate) fn misread(&self, now: NodeTime) -> Option<&Resource> {
        let is_sound = |resource: &Resource| {
            let key = self.held(resource, now).filter(|held| held.owner.is_of_readers());
            let readers = self.readers.get(resource).filter(|readers| !readers.expires_at.is_past(now));
            let last = readers.and_then(|readers| readers.ends.values().max());
            key.map(|key| key.expires_at) == last.copied()
                && readers
                    .is_none_or(|readers| Some(&readers.expires_at) == last && readers.phase <= readers.epoch)
        };
        let shared = self.locks.iter().filter(|(_, held)| held.owner.is_of_readers());
        shared.map(|(resource, _)| resource).chain(self.readers.keys()).find(|resource| !is_sound(resource))
    }

    /// The key ends with the last of them.
    fn keep_readers(&mut self, resource: &Resource, mut readers: ReaderRun) {
        let Some(last) = readers.ends.values().copied().max() else { return };
        readers.expires_at = last;
        self.set_lock(resource, Some(HeldKey { owner: LeaseId::of_readers(), holds: 0, expires_at: last }));
        self.readers.insert(resource.clone(), readers);
    }
}
