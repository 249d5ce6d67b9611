//! The holders of the resources of an operation, and the write of a new holder.

use std::time::Duration;

use crate::{
    node::{
        operation::{Answer, Holder, Resources},
        state::{HeldKey, NodeState, NodeTime, counters::Counters},
    },
    values::{LeaseId, Resource},
};

/// The holders of the resources of one operation, before the operation is executed.
pub(super) struct HolderLookup {
    /// The holder with the longest remaining ttl if other leases hold resources; `None` if the lease may lock all
    /// resources. The counter in the holder is 0, and the caller sets the counter.
    pub(super) other: Option<Holder>,
    /// Whether the lease holds all resources.
    pub(super) is_all_ours: bool,
}

impl NodeState {
    /// Looks up the holders of the resources for a request of this lease.
    pub(super) fn look_up(&self, resources: &Resources, lease_id: &LeaseId, now: NodeTime) -> HolderLookup {
        let mut lookup = HolderLookup { other: None, is_all_ours: true };
        for (resource, (name, is_shared)) in resources.each().enumerate() {
            let held = self.held(name, now);
            let is_ours = match is_shared {
                true => self.is_reader(name, lease_id, now),
                false => held.is_some_and(|held| held.lease_id == *lease_id),
            };
            lookup.is_all_ours &= is_ours;
            // A resource that readers hold is open to another reader.
            let is_open = is_ours || (is_shared && self.readers(name, now).is_some());
            let Some(other) = held.filter(|_| !is_open) else { continue };
            let remaining = other.expires_at.remaining(now);
            if lookup.other.as_ref().is_none_or(|longest| remaining > longest.remaining) {
                lookup.other =
                    Some(Holder { resource, lease_id: Some(other.lease_id.clone()), remaining, counter: 0 });
            }
        }
        lookup
    }

    /// Returns whether the lease holds all resources already, and the counters of the resources.
    ///
    /// Returns a refusal if another lease holds one of the resources, or if the node has a tombstone of the lease.
    pub(super) fn look_up_free(
        &self,
        resources: &Resources,
        lease_id: &LeaseId,
        now: NodeTime,
    ) -> Result<(bool, Counters), Answer> {
        if self.has_tombstone(resources, lease_id, now) {
            return Err(Answer::Tombstone);
        }
        let HolderLookup { other, is_all_ours } = self.look_up(resources, lease_id, now);
        let counters = self.counters(resources, now)?;
        match other {
            Some(holder) => Err(Answer::Held(Holder { counter: counters.largest, ..holder })),
            None => Ok((is_all_ours, counters)),
        }
    }

    /// Writes the lease id into the key of a resource. A later end of the key stays.
    pub(super) fn write_lease_id(
        &mut self,
        resource: &Resource,
        lease_id: &LeaseId,
        holds: u32,
        ttl: Duration,
        now: NodeTime,
    ) {
        let wanted = now + ttl;
        let stored = self.held(resource, now);
        let expires_at = stored.map_or(wanted, |held| held.expires_at.max(wanted));
        self.set_lock(resource, Some(HeldKey { lease_id: lease_id.clone(), holds, expires_at }));
    }
}
