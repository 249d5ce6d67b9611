//! The time for which keys that a client leaves on nodes block a resource, for the report of a shutdown.

use std::collections::BTreeMap;

use crate::{algorithm::tally::Electorate, clock::Instant};

/// Returns the time from which each resource has a quorum of nodes without a key; `None` if each resource has that
/// quorum already.
///
/// An element of `left` is a node, a resource of which the node may have a key, and the latest expiry of that key. The
/// keys of a resource count together, whichever lease they belong to: two attempts that each left keys at a minority of
/// nodes can together block a quorum.
pub(crate) fn blocks_until<R: Ord>(
    electorate: Electorate,
    left: impl IntoIterator<Item = (usize, R, Instant)>,
) -> Option<Instant> {
    let mut ends: BTreeMap<R, BTreeMap<usize, Instant>> = BTreeMap::new();
    for (node, resource, end) in left {
        let last = ends.entry(resource).or_default().entry(node).or_insert(end);
        *last = end.max(*last);
    }
    let free_at = |ends: BTreeMap<usize, Instant>| {
        let mut ends: Vec<Instant> = ends.into_values().collect();
        ends.sort_unstable_by(|one, other| other.cmp(one));
        ends.get(electorate.spare()).copied()
    };
    ends.into_values().filter_map(free_at).max()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(seconds))
    }

    /// Returns the time until which keys at five nodes block a quorum of three. Each key is a node, a resource and an
    /// end.
    fn five_nodes_block_until(keys: &[(usize, &str, u64)]) -> Option<Instant> {
        let electorate = Electorate::new(5, 3);
        blocks_until(electorate, keys.iter().map(|(node, resource, end)| (*node, *resource, at(*end))))
    }

    #[test]
    fn keys_at_a_minority_block_no_quorum() {
        assert_eq!(five_nodes_block_until(&[]), None);
        assert_eq!(five_nodes_block_until(&[(0, "r", 9), (1, "r", 9)]), None);
        assert_eq!(
            five_nodes_block_until(&[(0, "r", 9), (1, "r", 9), (1, "r", 8), (2, "s", 9)]),
            None,
            "only keys of the same resource count"
        );
    }

    #[test]
    fn keys_at_a_majority_block_until_a_quorum_is_free() {
        assert_eq!(five_nodes_block_until(&[(0, "r", 9), (1, "r", 7), (2, "r", 8)]), Some(at(7)));
        assert_eq!(
            five_nodes_block_until(&[(0, "r", 9), (1, "r", 7), (2, "r", 8), (3, "r", 10)]),
            Some(at(8))
        );
        assert_eq!(
            five_nodes_block_until(&[(0, "r", 9), (1, "r", 3), (2, "r", 8), (1, "r", 7)]),
            Some(at(7)),
            "the last key at a node counts"
        );
    }

    #[test]
    fn the_resource_that_is_blocked_longest_counts() {
        let all = |resource, end| [0, 1, 2].map(|node| (node, resource, end));
        assert_eq!(five_nodes_block_until(&[all("r", 5), all("s", 6), all("t", 4)].concat()), Some(at(6)));
    }
}
