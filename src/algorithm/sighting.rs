//! What an attempt has seen at one node.

use std::time::Duration;

use crate::owner_id::OwnerId;

/// What an attempt has seen at one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sighting {
    /// Ours, and rolled back.
    Free,
    Held {
        owner: Option<OwnerId>,
        remaining: Duration,
    },
    /// Asked, but it gave no vote.
    Unknown,
    NotAsked,
}

impl Sighting {
    pub(crate) fn remaining(&self) -> Option<Duration> {
        if let Self::Held { remaining, .. } = self { Some(*remaining) } else { None }
    }

    pub(crate) fn owner(&self) -> Option<&OwnerId> {
        if let Self::Held { owner, .. } = self { owner.as_ref() } else { None }
    }
}
