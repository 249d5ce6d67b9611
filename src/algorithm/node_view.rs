//! A node view: what an attempt has seen at one node.

use std::time::Duration;

use crate::{algorithm::tally::Electorate, values::OwnerId};

/// What an attempt has seen at one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeView {
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

impl NodeView {
    pub(crate) fn remaining(&self) -> Option<Duration> {
        if let Self::Held { remaining, .. } = self { Some(*remaining) } else { None }
    }

    pub(crate) fn owner(&self) -> Option<&OwnerId> {
        if let Self::Held { owner, .. } = self { owner.as_ref() } else { None }
    }
}

/// Whether no owner was seen, or may stand, on enough nodes to be the holder. Where nodes were not
/// asked, it may.
pub(crate) fn is_split(seen: &[NodeView], electorate: Electorate) -> bool {
    let unknown = seen.iter().filter(|view| matches!(view, NodeView::Unknown | NodeView::NotAsked)).count();
    let most = seen.iter().map(|one| supporters(seen, one)).max();
    most.unwrap_or(0) + unknown < electorate.needed()
}

/// The owner that a quorum of nodes names.
pub(crate) fn holder(seen: &[NodeView], electorate: Electorate) -> Option<&OwnerId> {
    seen.iter().find(|one| supporters(seen, one) >= electorate.needed())?.owner()
}

/// On how many nodes the owner stands that this one has named.
fn supporters(seen: &[NodeView], one: &NodeView) -> usize {
    if one.remaining().is_none() {
        return 0;
    }
    seen.iter().filter(|other| one.owner() == other.owner() && other.remaining().is_some()).count()
}
