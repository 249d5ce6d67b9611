//! The nodes with an orphaned key, according to holder checks.

use crate::{
    algorithm::{
        holder::{is_unknown, named},
        node_set::NodeSet,
    },
    values::{LeaseId, NodeReply},
};

/// The nodes with an orphaned key. A node is in this set if the node has named the same lease in two holder checks, and
/// in both checks no lease could have a quorum.
///
/// A client rolls back a failed attempt within a round trip, and never uses the lease id again. If a node still names
/// the lease in the second check, the client of the lease was killed or has lost its connection. A node with an
/// orphaned key would wake no waiter until the key expires.
#[derive(Clone, Debug)]
pub(crate) struct OrphanedKeys {
    /// The lease that each node named in the last check without a quorum.
    named: Vec<Option<LeaseId>>,
    nodes: NodeSet,
}

impl OrphanedKeys {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { named: vec![None; nodes], nodes: NodeSet::EMPTY }
    }

    pub(crate) fn nodes(&self) -> NodeSet {
        self.nodes
    }

    /// Handles a release at a node. The key at the node counts as deleted, and a later key as new.
    pub(crate) fn released(&mut self, node: usize) {
        self.nodes.remove(node);
        if let Some(named) = self.named.get_mut(node) {
            *named = None;
        }
    }

    /// Records a check in which no lease could have a quorum. A refusal in favour of readers does not name a reader, so
    /// `readers` has, for each node, the reader with the earliest expiry.
    pub(crate) fn record(&mut self, votes: &[NodeReply], readers: &[Option<LeaseId>]) {
        for (node, (before, vote)) in self.named.iter_mut().zip(votes).enumerate() {
            if is_unknown(vote) {
                continue;
            }
            let lease_id = match named(vote).and_then(|(lease_id, _)| lease_id) {
                Some(lease_id) if lease_id.is_of_readers() => readers.get(node).and_then(Option::as_ref),
                lease_id => lease_id,
            };
            if lease_id.is_some() && lease_id == before.as_ref() {
                self.nodes.insert(node);
            } else {
                self.nodes.remove(node);
                *before = lease_id.cloned();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::values::Refusal;

    #[test]
    fn a_key_of_readers_is_orphaned_if_two_checks_find_the_same_reader() {
        let refusal =
            Refusal::Held { by: Some(LeaseId::of_readers()), remaining: Some(Duration::from_secs(30)) };
        let votes = [NodeReply::Refused(refusal), NodeReply::Done, NodeReply::Done];
        let mut orphaned = OrphanedKeys::new(3);
        for (reader, is_orphaned) in [("one", false), ("two", false), ("two", true)] {
            orphaned.record(&votes, &[Some(LeaseId::from_wire(reader.as_bytes())), None, None]);
            assert_eq!(orphaned.nodes().contains(0), is_orphaned, "{reader}");
        }
    }
}
