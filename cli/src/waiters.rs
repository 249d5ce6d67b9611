//! The number of waiters of a lock or of a semaphore, by the wait queues of the nodes.

use std::collections::{BTreeMap, BTreeSet};

use redquorum::{
    __command::{MAX_CANDIDATES_JOINED, QUEUES_JOINED, client_of},
    LeaseId,
    inspection::Inspection,
};
use serde::{Serialize, Serializer};

use crate::at_least::AtLeast;

/// The waiters of a lock, or of the slots of a semaphore.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiters {
    /// The waiters of each lock that has waiters.
    queues: Vec<Queue>,
    /// The number of slots, of which some may have no waiters.
    slots: usize,
}

/// The waiters of one lock. Usually one node has them all. If clients disagree about a silent node, several nodes have
/// waiters, and one waiter may be at several nodes.
#[derive(Clone, Debug)]
struct Queue {
    waiters: AtLeast,
    /// The number of waiters of each client, as far as the answers name the waiters.
    named: BTreeMap<Vec<u8>, usize>,
}

impl Waiters {
    pub(crate) fn of(found: &Inspection) -> Self {
        let named = |id: &LeaseId| id.as_bytes().to_vec();
        let at_nodes = found.nodes().map(|node| (node.waiters() as usize, node.queue().map(named).collect()));
        Self { queues: Queue::of(at_nodes).into_iter().collect(), slots: 1 }
    }

    /// Adds the waiters of another slot of the same semaphore.
    pub(crate) fn add(&mut self, other: &Self) {
        self.queues.extend(other.queues.iter().cloned());
        self.slots += other.slots;
    }

    /// Returns the number of waiters.
    ///
    /// A wait for a permit joins the queues of two slots, or of all slots if there are at most three, under a lease id
    /// for each. If all waits join the same queues, each wait is in the longest queue. Otherwise, entries of one client
    /// in different queues may be the same wait, so a client has at least as many waits as entries in one queue.
    pub(crate) fn count(&self) -> AtLeast {
        let longest = self.queues.iter().map(|queue| queue.waiters.number).max().unwrap_or(0);
        if self.slots <= MAX_CANDIDATES_JOINED || self.queues.len() <= QUEUES_JOINED {
            let may_be_more = self.queues.iter().any(|queue| queue.waiters.may_be_more);
            return AtLeast { number: longest, may_be_more };
        }
        let mut of_clients: BTreeMap<&[u8], usize> = BTreeMap::new();
        for (client, waiters) in self.queues.iter().flat_map(|queue| &queue.named) {
            let most = of_clients.entry(client).or_default();
            *most = (*most).max(*waiters);
        }
        AtLeast { number: longest.max(of_clients.values().sum()), may_be_more: true }
    }
}

impl Queue {
    /// Merges the queues of nodes, each with its length and its first waiters. Returns `None` without waiters.
    fn of(at_nodes: impl Iterator<Item = (usize, Vec<Vec<u8>>)>) -> Option<Self> {
        let (mut ids, mut longest, mut nodes, mut has_unnamed) = (BTreeSet::new(), 0, 0, false);
        for (length, named) in at_nodes.filter(|(length, _)| *length > 0) {
            has_unnamed |= length > named.len();
            nodes += 1;
            longest = length.max(longest);
            ids.extend(named);
        }
        let number = ids.len().max(longest);
        let mut named: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        for id in ids {
            *named.entry(client_of(&id)).or_default() += 1;
        }
        let waiters = AtLeast { number, may_be_more: nodes > 1 && has_unnamed };
        (number > 0).then_some(Self { waiters, named })
    }
}

/// The fields of JSON.
#[derive(Serialize)]
struct Fields {
    waiters: usize,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    waiters_may_be_more: bool,
}

impl Serialize for Waiters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let AtLeast { number, may_be_more } = self.count();
        Fields { waiters: number, waiters_may_be_more: may_be_more }.serialize(serializer)
    }
}

#[cfg(test)]
impl Waiters {
    /// Returns the waiters of one queue with this number of waiters, of which each named client has one.
    pub(crate) fn in_queue(number: usize, clients: impl IntoIterator<Item = usize>) -> Self {
        let named = clients.into_iter().map(|client| (client.to_string().into_bytes(), 1)).collect();
        let waiters = AtLeast { number, may_be_more: false };
        let queue = Some(Queue { waiters, named }).filter(|_| number > 0);
        Self { queues: queue.into_iter().collect(), slots: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_a_permit_in_several_queues_counts_once() {
        let queue = Waiters::in_queue;
        for (queues, expected) in [
            (vec![], "0"),
            (vec![queue(90, 0..32)], "90"),
            (vec![queue(3, 0..3), queue(3, 0..3), queue(3, 0..3)], "3"),
            // Some clients count two slots, and others three.
            (vec![queue(90, 0..32), queue(90, 0..32), queue(40, 0..32)], "90"),
            // Of many slots, all waits have joined the queues of the same two.
            (vec![queue(2, 0..2), queue(2, 0..2), queue(0, 0..0), queue(0, 0..0)], "2"),
            (vec![queue(1, 0..1), queue(2, 0..2), queue(1, 1..2), queue(0, 0..0)], "2+"),
            (vec![queue(1, 0..1), queue(1, 1..2), queue(1, 0..1), queue(1, 1..2)], "2+"),
            (vec![queue(40, 0..32), queue(1, 0..1), queue(1, 1..2), queue(1, 40..41)], "40+"),
        ] {
            let mut all = Waiters::default();
            queues.iter().for_each(|queue| all.add(queue));
            assert_eq!(all.count().to_string(), expected, "{queues:?}");
        }
    }

    #[test]
    fn a_waiter_at_several_nodes_counts_once_and_unnamed_waiters_make_a_lower_bound() {
        let id = |number: usize| format!("5f0c1f1e-4f0f-4b6f-8d55-0e2b7a3f8d10:{number}").into_bytes();
        let count = |nodes: &[(usize, std::ops::Range<usize>)]| {
            let at_nodes = nodes.iter().map(|(length, named)| (*length, named.clone().map(id).collect()));
            Waiters { queues: Queue::of(at_nodes).into_iter().collect(), slots: 1 }.count().to_string()
        };
        assert_eq!(count(&[(0, 0..0), (0, 0..0)]), "0");
        assert_eq!(count(&[(3, 0..3), (2, 1..3)]), "3");
        assert_eq!(count(&[(3, 0..3), (2, 3..5)]), "5");
        // The length of one queue is exact, even if the answer does not name all waiters.
        assert_eq!(count(&[(90, 0..32), (0, 0..0)]), "90");
        assert_eq!(count(&[(90, 0..32), (1, 39..40)]), "90+");
        assert_eq!(count(&[(33, 0..20), (20, 20..40)]), "40+");
    }
}
