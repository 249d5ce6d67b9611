//! Cycles of clients that wait for each other. `quorum/wait_graph.rs` makes the waits from a list of locks.
//!
//! A waiting client is *stuck* if the wait can never end. The stuck clients are the largest set in which each client
//! has a stuck wait:
//!
//! ```text
//!   a wait for all blockers      is stuck if one other blocker is stuck     (a lock: a holder, or each of its readers)
//!   a wait for any blocker       is stuck if all blockers are stuck         (a permit: each holder of a slot)
//! ```
//!
//! A client is not its own blocker: another task of the client may release. So a wait for any blocker is not stuck if
//! the client itself is a blocker.
//!
//! Each stuck client waits for another stuck client, so the stuck clients contain at least one cycle (Knapp: Deadlock
//! detection in distributed databases, 1987: the AND and the OR model).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The wait of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wait<C> {
    pub(crate) client: C,
    /// The holders of the leases that must end. The client itself may be a holder.
    pub(crate) blockers: BTreeSet<C>,
    /// Whether one release ends the wait, by any of the blockers. Otherwise all blockers have to release.
    pub(crate) ends_by_any: bool,
}

/// A part of a cycle: the index of a wait, and the blocker that is the next client of the cycle.
pub(crate) type CycleStep<C> = (usize, C);

/// Returns a cycle for each group of stuck clients that all wait for each other, directly or by other clients: a
/// shortest cycle that contains the smallest client of the group. A cycle begins with the wait of that client. A client
/// that waits only for itself is in no cycle, because a second task of the client may release.
pub(crate) fn wait_cycles<C: Ord + Clone>(waits: &[Wait<C>]) -> Vec<Vec<CycleStep<C>>> {
    let graph = StuckGraph::new(waits);
    let (mut cycles, mut seen) = (Vec::new(), BTreeSet::new());
    for client in graph.edges.keys() {
        if seen.contains(client) {
            continue;
        }
        if let Some(cycle) = graph.shortest_cycle(client) {
            cycles.push(cycle);
            let (ahead, behind) = (graph.reachable(client), graph.reversed().reachable(client));
            seen.extend(ahead.intersection(&behind).cloned());
        }
    }
    cycles
}

/// The waits of stuck clients for other stuck clients.
struct StuckGraph<C> {
    /// The clients that each client waits for, each with the index of a wait.
    edges: BTreeMap<C, BTreeMap<C, usize>>,
}

impl<C: Ord + Clone> StuckGraph<C> {
    fn new(waits: &[Wait<C>]) -> Self {
        let mut stuck: BTreeSet<&C> = waits.iter().map(|wait| &wait.client).collect();
        loop {
            let still: BTreeSet<&C> =
                waits.iter().filter(|wait| wait.is_stuck(&stuck)).map(|wait| &wait.client).collect();
            let still: BTreeSet<&C> = stuck.intersection(&still).copied().collect();
            if still.len() == stuck.len() {
                break;
            }
            stuck = still;
        }
        let mut edges: BTreeMap<C, BTreeMap<C, usize>> = BTreeMap::new();
        for (index, wait) in waits.iter().enumerate().filter(|(_, wait)| wait.is_stuck(&stuck)) {
            let blockers = wait.others().filter(|blocker| stuck.contains(blocker));
            if stuck.contains(&wait.client) {
                let edges = edges.entry(wait.client.clone()).or_default();
                blockers.for_each(|blocker| _ = edges.entry(blocker.clone()).or_insert(index));
            }
        }
        Self { edges }
    }

    fn reversed(&self) -> Self {
        let mut edges: BTreeMap<C, BTreeMap<C, usize>> = BTreeMap::new();
        for (client, blockers) in &self.edges {
            for (blocker, wait) in blockers {
                edges.entry(blocker.clone()).or_default().insert(client.clone(), *wait);
            }
        }
        Self { edges }
    }

    fn next<'a>(&'a self, client: &C) -> impl Iterator<Item = (&'a C, usize)> + use<'a, C> {
        self.edges.get(client).into_iter().flatten().map(|(next, wait)| (next, *wait))
    }

    /// Returns the clients that a client waits for, directly or by other clients, and the client itself.
    fn reachable(&self, from: &C) -> BTreeSet<C> {
        let (mut reached, mut queue) = (BTreeSet::from([from.clone()]), VecDeque::from([from.clone()]));
        while let Some(client) = queue.pop_front() {
            for (next, _) in self.next(&client) {
                if reached.insert(next.clone()) {
                    queue.push_back(next.clone());
                }
            }
        }
        reached
    }

    /// Returns a shortest cycle through a client, by a breadth-first search.
    fn shortest_cycle(&self, start: &C) -> Option<Vec<CycleStep<C>>> {
        // The client before each reached client, and the wait of that client.
        let mut before: BTreeMap<C, (C, usize)> = BTreeMap::new();
        let mut queue = VecDeque::from([start.clone()]);
        while let Some(client) = queue.pop_front() {
            for (next, wait) in self.next(&client) {
                if next == start {
                    let mut steps = vec![(wait, next.clone())];
                    let mut at = &client;
                    while let Some((earlier, wait)) = before.get(at) {
                        steps.push((*wait, at.clone()));
                        at = earlier;
                    }
                    steps.reverse();
                    return Some(steps);
                }
                if !before.contains_key(next) {
                    before.insert(next.clone(), (client.clone(), wait));
                    queue.push_back(next.clone());
                }
            }
        }
        None
    }
}

impl<C: Ord> Wait<C> {
    /// Returns the blockers except the client itself.
    fn others(&self) -> impl Iterator<Item = &C> {
        self.blockers.iter().filter(|blocker| **blocker != self.client)
    }

    fn is_stuck(&self, stuck: &BTreeSet<&C>) -> bool {
        if self.ends_by_any && self.blockers.contains(&self.client) {
            return false;
        }
        let mut others = self.others().peekable();
        others.peek().is_some()
            && if self.ends_by_any {
                others.all(|blocker| stuck.contains(blocker))
            } else {
                others.any(|blocker| stuck.contains(blocker))
            }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// Parses waits: `a>bc` waits until b and c have released, and `a|bc` until b or c has released.
    fn waits(text: &str) -> Vec<Wait<char>> {
        let wait = |word: &str| {
            let mut letters = word.chars();
            let (client, kind) = (letters.next().unwrap(), letters.next().unwrap());
            Wait { client, blockers: letters.collect(), ends_by_any: kind == '|' }
        };
        text.split_whitespace().map(wait).collect()
    }

    /// Returns the cycles as texts of the clients, in order.
    fn cycles(text: &str) -> String {
        let waits = waits(text);
        let cycle = |steps: &Vec<CycleStep<char>>| -> String {
            steps.iter().map(|(wait, _)| waits[*wait].client).collect()
        };
        wait_cycles(&waits).iter().map(cycle).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_cycle_has_all_clients_that_wait_for_each_other() {
        for (waits, expected) in [
            ("", ""),
            ("a>b b>c", ""),
            ("a>b b>a", "ab"),
            ("b>c c>a a>b d>a", "abc"),
            ("a>b b>a c>d d>c", "ab cd"),
            // A client that waits for its own lease may have a second task that releases.
            ("a>a", ""),
            ("a>ab b>a", "ab"),
            // Of several cycles of one group, the shortest with the first client is shown.
            ("a>b b>ac c>a", "ab"),
            // A client with several tasks waits for several resources.
            ("a>c a>b b>a", "ab"),
        ] {
            assert_eq!(cycles(waits), expected, "{waits}");
        }
    }

    #[test]
    fn a_writer_waits_for_each_reader() {
        assert_eq!(cycles("w>abc b>w"), "bw");
        assert_eq!(cycles("w>abc"), "");
    }

    #[test]
    fn a_wait_for_any_permit_is_stuck_only_if_each_holder_is_stuck() {
        for (waits, expected) in [
            ("a|bc b>a", ""),
            ("a|bc b>a c>a", "ab"),
            // Services that hold permits in some tasks and wait for permits in others.
            ("a|ab b|ab", ""),
            ("a|ab b>a", ""),
            ("a|b b|a", "ab"),
            ("a|abc b|abc", ""),
            ("a|a", ""),
            ("a|bc b>a c>d", ""),
            ("a|bc b>a c>d d>c", "ab cd"),
        ] {
            assert_eq!(cycles(waits), expected, "{waits}");
        }
    }

    /// Lets clients without a wait finish one by one, until all remaining clients wait for remaining clients. Returns
    /// the remaining clients.
    fn unfinished(waits: &[Wait<u8>]) -> BTreeSet<u8> {
        let mut remaining: BTreeSet<u8> =
            waits.iter().flat_map(|wait| wait.blockers.iter().copied().chain([wait.client])).collect();
        let may_finish = |client: u8, remaining: &BTreeSet<u8>| {
            waits.iter().filter(|wait| wait.client == client).all(|wait| {
                let others: Vec<u8> =
                    wait.blockers.iter().copied().filter(|other| *other != client).collect();
                let left = others.iter().filter(|other| remaining.contains(other)).count();
                let may_release = wait.blockers.contains(&client);
                left == 0 || (wait.ends_by_any && (may_release || left < others.len()))
            })
        };
        while let Some(client) = remaining.iter().copied().find(|client| may_finish(*client, &remaining)) {
            remaining.remove(&client);
        }
        remaining
    }

    fn any_waits() -> impl Strategy<Value = Vec<Wait<u8>>> {
        let wait = (0..7_u8, prop::collection::btree_set(0..7_u8, 1..4), any::<bool>());
        vec(wait.prop_map(|(client, blockers, ends_by_any)| Wait { client, blockers, ends_by_any }), 0..12)
    }

    proptest! {
        #[test]
        fn there_is_a_cycle_exactly_if_clients_cannot_finish(waits in any_waits()) {
            let unfinished = unfinished(&waits);
            let cycles = wait_cycles(&waits);
            prop_assert_eq!(cycles.is_empty(), unfinished.is_empty());
            let mut seen = BTreeSet::new();
            for cycle in &cycles {
                prop_assert!(cycle.len() > 1);
                for ((index, next), (following, _)) in cycle.iter().zip(cycle.iter().cycle().skip(1)) {
                    let wait = &waits[*index];
                    prop_assert!(wait.blockers.contains(next), "a client waits for the next");
                    prop_assert_eq!(waits[*following].client, *next, "the next client is the next step");
                    prop_assert!(unfinished.contains(&wait.client));
                    prop_assert!(seen.insert(wait.client), "no client is in two cycles, or twice in one");
                }
            }
        }

        #[test]
        fn the_order_of_waits_decides_no_cycle(waits in any_waits(), by in 0..12_usize) {
            let clients = |waits: &[Wait<u8>]| -> Vec<Vec<u8>> {
                let of = |cycle: &Vec<CycleStep<u8>>| cycle.iter().map(|(_, next)| *next).collect();
                wait_cycles(waits).iter().map(of).collect()
            };
            let mut turned = waits.clone();
            turned.rotate_left(by.min(waits.len()));
            prop_assert_eq!(clients(&waits), clients(&turned));
        }
    }
}
