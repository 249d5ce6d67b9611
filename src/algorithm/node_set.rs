//! Sets of nodes.

use std::fmt;

/// The most nodes that a quorum can have.
pub(crate) const MAX_NODES: usize = 64;

/// A set of nodes. A node is an index into the nodes of the quorum.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeSet(u64);

impl NodeSet {
    pub(crate) const EMPTY: Self = Self(0);

    /// Returns the nodes 0 to `count` - 1.
    pub(crate) fn first(count: usize) -> Self {
        (0..count).collect()
    }

    pub(crate) fn only(node: usize) -> Self {
        Self::EMPTY.with(node)
    }

    /// Whether the node is a member. A node past [`MAX_NODES`] cannot be a member.
    pub(crate) fn contains(self, node: usize) -> bool {
        self.0 & Self::bit(node) != 0
    }

    #[must_use]
    pub(crate) fn with(self, node: usize) -> Self {
        Self(self.0 | Self::bit(node))
    }

    pub(crate) fn insert(&mut self, node: usize) {
        *self = self.with(node);
    }

    pub(crate) fn remove(&mut self, node: usize) {
        self.0 &= !Self::bit(node);
    }

    #[must_use]
    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[must_use]
    pub(crate) fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    #[must_use]
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) fn len(self) -> usize {
        usize::try_from(self.0.count_ones()).unwrap_or(MAX_NODES)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the nodes in ascending order.
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        (0..MAX_NODES).take_while(move |node| self.0 >> node != 0).filter(move |node| self.contains(*node))
    }

    fn bit(node: usize) -> u64 {
        u32::try_from(node).ok().and_then(|node| 1_u64.checked_shl(node)).unwrap_or(0)
    }
}

impl FromIterator<usize> for NodeSet {
    fn from_iter<I: IntoIterator<Item = usize>>(nodes: I) -> Self {
        nodes.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Debug for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_each_node_once_and_no_node_above_63() {
        let set: NodeSet = [5, 0, 63, 5, 64, 1000].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 5, 63]);
        assert_eq!(set.len(), 3);
        assert_eq!(set.without(NodeSet::only(5)).iter().collect::<Vec<_>>(), [0, 63]);
        assert_eq!(NodeSet::first(64).len(), 64);
        assert!(NodeSet::EMPTY.is_empty());
    }

    #[test]
    fn a_union_has_the_nodes_of_both_sets() {
        let set = |nodes: &[usize]| nodes.iter().copied().collect::<NodeSet>();
        assert_eq!(set(&[0, 5]).union(set(&[5, 63])), set(&[0, 5, 63]));
        assert_eq!(NodeSet::only(63).iter().collect::<Vec<_>>(), [63]);
        assert_eq!(format!("{:?}", set(&[5, 0])), "{0, 5}");
    }
}
