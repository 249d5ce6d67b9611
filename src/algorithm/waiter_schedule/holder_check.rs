//! The check whether a quorum agrees with the holder that the queue node names.

use crate::{
    algorithm::{
        holder::{holder, is_split},
        node_set::NodeSet,
        orphaned_keys::OrphanedKeys,
        tally::Electorate,
    },
    values::{LeaseId, NodeReply},
};

/// Evidence that the queue node keeps an orphaned key: a key of a lease that no quorum can have.
///
/// A check inspects all nodes. A check is wanted if an unprompted attempt is refused for the same lease as the attempt
/// before, and no quorum has named that lease. After two checks without a quorum for the lease, the key counts as
/// orphaned, and the waiter uses the next queue node until a release.
#[derive(Clone, Debug)]
pub(super) struct HolderCheck {
    orphaned: OrphanedKeys,
    /// Whether the last attempt was a fallback poll, or followed a release without a wake.
    is_unprompted: bool,
    /// Whether the last check found no possible quorum for any lease.
    is_inconclusive: bool,
    /// The lease that a queue node named last.
    named: Option<LeaseId>,
    /// Whether the queue node named the same lease in the last two attempts.
    is_named_again: bool,
    /// The lease that a quorum named in the last check.
    confirmed: Option<LeaseId>,
}

impl HolderCheck {
    pub(super) fn new(electorate: Electorate) -> Self {
        Self {
            orphaned: OrphanedKeys::new(electorate.nodes()),
            is_unprompted: false,
            is_inconclusive: false,
            named: None,
            is_named_again: false,
            confirmed: None,
        }
    }

    pub(super) fn attempt_begins(&mut self, is_unprompted: bool) {
        self.is_unprompted = is_unprompted;
    }

    pub(super) fn is_wanted(&self) -> bool {
        let is_suspect = self.is_unprompted || self.is_inconclusive;
        is_suspect && self.is_named_again && self.confirmed != self.named
    }

    /// Handles the result of a check. Returns whether the result was conclusive.
    pub(super) fn finish(
        &mut self,
        votes: &[NodeReply],
        readers: &[Option<LeaseId>],
        electorate: Electorate,
    ) -> bool {
        self.is_inconclusive = is_split(votes, electorate);
        if self.is_inconclusive {
            self.orphaned.record(votes, readers);
        } else {
            self.orphaned = OrphanedKeys::new(electorate.nodes());
            self.confirmed = holder(votes, electorate).cloned();
        }
        !self.is_inconclusive
    }

    /// Removes the lease that the queue node named, and returns this lease.
    pub(super) fn take_named(&mut self) -> Option<LeaseId> {
        self.is_named_again = false;
        self.named.take()
    }

    /// Records the lease that the queue node names now.
    pub(super) fn record_named(&mut self, named: Option<LeaseId>, named_before: Option<&LeaseId>) {
        self.is_named_again = named.is_some() && named.as_ref() == named_before;
        self.named = named;
    }

    /// Handles a release at a node. A key that the node has from now on is a new key.
    pub(super) fn released(&mut self, node: usize) {
        self.orphaned.released(node);
    }

    pub(super) fn acquired(&mut self) {
        self.is_inconclusive = false;
    }

    pub(super) fn orphaned_nodes(&self) -> NodeSet {
        self.orphaned.nodes()
    }
}
