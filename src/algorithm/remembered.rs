//! Which nodes remember which fencing counters for long enough.

use std::{collections::HashMap, time::Duration};

use crate::{algorithm::node_set::NodeSet, clock::Instant, node::Resources};

/// So many locks are known at least, if there are as many: those that were noted last.
const MOST: usize = 4096;

/// The nodes whose counters were found, or made, to live for long enough, by what was locked there.
///
/// A node keeps a counter for `counter_ttl` after each use, so each use has to look how long it lives. A vote makes it live
/// for a quarter of that longer. So for a fifth, by the client's clock and from when the vote was asked for, whoever had it
/// need not ask the node to look again: the rest makes up for clocks of different rates, and for requests that are delayed.
///
/// What is forgotten here costs a look, and so does a node that never answers before the others have decided. What a node loses
/// meanwhile, it notices: a counter that is missing is begun anew, and one that comes from a backup is below the floor.
#[derive(Debug)]
pub(crate) struct Remembered {
    lasts: Duration,
    /// Looked up, never iterated. When the young are too many, they become the old, and the old are forgotten.
    young: HashMap<Resources, Looked>,
    old: HashMap<Resources, Looked>,
}

/// Nodes that looked when they were asked at `since`, or later.
#[derive(Clone, Copy, Debug)]
struct Looked {
    nodes: NodeSet,
    since: Instant,
}

impl Remembered {
    pub(crate) fn new(counter_ttl: Duration) -> Self {
        Self { lasts: counter_ttl / 5, young: HashMap::new(), old: HashMap::new() }
    }

    /// The nodes that need not look now.
    pub(crate) fn at(&self, resources: &Resources, now: Instant) -> NodeSet {
        self.looked(resources, now).map_or(NodeSet::EMPTY, |looked| looked.nodes)
    }

    /// Nodes have looked, and voted, which were asked at `asked`.
    pub(crate) fn note(&mut self, resources: &Resources, nodes: NodeSet, asked: Instant) {
        let looked = match self.looked(resources, asked) {
            Some(Looked { nodes: known, since }) => {
                Looked { nodes: known.union(nodes), since: since.min(asked) }
            }
            None => Looked { nodes, since: asked },
        };
        if self.young.len() >= MOST && !self.young.contains_key(resources) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(resources.clone(), looked);
    }

    fn looked(&self, resources: &Resources, now: Instant) -> Option<Looked> {
        let looked = self.young.get(resources).or_else(|| self.old.get(resources)).copied();
        looked.filter(|looked| now.saturating_duration_since(looked.since) < self.lasts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::entries::resources;

    const COUNTER_TTL: Duration = Duration::from_secs(100);

    fn at(seconds: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(seconds))
    }

    fn nodes<const N: usize>(nodes: [usize; N]) -> NodeSet {
        nodes.into_iter().collect()
    }

    #[test]
    fn nodes_that_looked_are_known_for_a_fifth_of_the_counters_life_from_when_they_were_asked() {
        let mut remembered = Remembered::new(COUNTER_TTL);
        remembered.note(&resources("a"), nodes([0, 2]), at(10));
        assert_eq!(remembered.at(&resources("a"), at(10)), nodes([0, 2]));
        assert_eq!(remembered.at(&resources("a"), at(29)), nodes([0, 2]));
        assert_eq!(remembered.at(&resources("a"), at(30)), NodeSet::EMPTY);
        assert_eq!(remembered.at(&resources("b"), at(10)), NodeSet::EMPTY);
        assert_eq!(remembered.at(&resources("a b"), at(10)), NodeSet::EMPTY);
    }

    #[test]
    fn nodes_that_look_later_are_known_no_longer_than_the_first() {
        let mut remembered = Remembered::new(COUNTER_TTL);
        remembered.note(&resources("a"), nodes([0]), at(10));
        remembered.note(&resources("a"), nodes([1]), at(25));
        assert_eq!(remembered.at(&resources("a"), at(29)), nodes([0, 1]));
        assert_eq!(remembered.at(&resources("a"), at(30)), NodeSet::EMPTY);
        // What was asked for earlier may be heard later.
        remembered.note(&resources("a"), nodes([1]), at(40));
        remembered.note(&resources("a"), nodes([2]), at(35));
        assert_eq!(remembered.at(&resources("a"), at(54)), nodes([1, 2]));
        assert_eq!(remembered.at(&resources("a"), at(55)), NodeSet::EMPTY);
    }

    #[test]
    fn of_too_many_locks_those_are_forgotten_that_were_not_noted_for_longest() {
        let mut remembered = Remembered::new(COUNTER_TTL);
        for number in 0..5 * MOST {
            remembered.note(&resources(&number.to_string()), nodes([0]), at(0));
            remembered.note(&resources("often"), nodes([1]), at(0));
            assert!(remembered.young.len() <= MOST && remembered.old.len() <= MOST);
        }
        let known = |name: &str| remembered.at(&resources(name), at(1));
        assert_eq!(known("often"), nodes([1]));
        assert_eq!(known("0"), NodeSet::EMPTY);
        let latest = (4 * MOST + 1..5 * MOST).filter(|number| !known(&number.to_string()).is_empty());
        assert_eq!(latest.count(), MOST - 1);
    }
}
