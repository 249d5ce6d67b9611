//! Who holds the resources of an entry.

use crate::{
    node::{
        answer::Holder,
        state::{NodeState, NodeTime},
    },
    values::{OwnerId, Resource},
};

/// Who holds the resources of one entry, before it is executed.
pub(super) struct HolderLookup {
    /// Of those held by others, the one that is held longest; its counter is still to be filled in.
    pub(super) other: Option<Holder>,
    /// Whether all of them are the owner's.
    pub(super) is_all_ours: bool,
}

impl NodeState {
    pub(super) fn look_up(&self, resources: &[Resource], owner: &OwnerId, now: NodeTime) -> HolderLookup {
        let mut lookup = HolderLookup { other: None, is_all_ours: true };
        for (resource, name) in resources.iter().enumerate() {
            let held = self.held(name, now);
            lookup.is_all_ours &= held.is_some_and(|held| held.owner == *owner);
            let Some(other) = held.filter(|held| held.owner != *owner) else { continue };
            let remaining = other.expires_at.remaining(now);
            if lookup.other.as_ref().is_none_or(|longest| remaining > longest.remaining) {
                lookup.other =
                    Some(Holder { resource, owner: Some(other.owner.clone()), remaining, counter: 0 });
            }
        }
        lookup
    }
}
