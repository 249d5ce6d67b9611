//! The holder check, as a part of the waiter schedule: whether a quorum names the same holder as the queue node.

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
/// A check inspects all nodes. A check is wanted if the queue node has named the same lease in the last two attempts,
/// no quorum has named that lease, and the last attempt was unprompted or the last check was inconclusive. If two
/// checks find that no lease can have a quorum, and a node names the same lease in both, the key at that node counts as
/// orphaned. The waiter then uses the next queue node, until a release at the node with the key.
#[derive(Clone, Debug)]
pub(super) struct HolderCheck {
    orphaned: OrphanedKeys,
    /// Whether the last attempt was a fallback poll, or followed a release without a wake.
    is_unprompted: bool,
    /// Whether no lease could have a quorum, according to the last check.
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

    /// Handles the result of a check. Returns whether the result was conclusive: some lease may have a quorum.
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

    /// Removes and returns the lease that the queue node named.
    pub(super) fn take_named(&mut self) -> Option<LeaseId> {
        self.is_named_again = false;
        self.named.take()
    }

    /// Records the lease that the queue node names now.
    pub(super) fn record_named(&mut self, named: Option<LeaseId>, named_before: Option<&LeaseId>) {
        self.is_named_again = named.is_some() && named.as_ref() == named_before;
        self.named = named;
    }

    /// Handles a release at a node. If the node has a key from then on, the key is new.
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
