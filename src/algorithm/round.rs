//! One round of requests, with a deadline for each node: the lock round or the write-back round of an attempt.

use crate::{
    algorithm::{
        node_set::NodeSet,
        tally::{Electorate, Tally, TallyResult},
    },
    clock::Instant,
};

/// One round: the nodes that were asked, their deadlines, and the tally of their votes.
///
/// A node that has not answered by its deadline counts as denying. If the votes of other nodes decide the round, the
/// round does not wait for that deadline.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    tally: Tally,
    /// The nodes by deadline. Nodes that were asked at the same time share a deadline, so there are few groups.
    asked: Vec<(NodeSet, Instant)>,
}

impl Round {
    pub(crate) fn new(electorate: Electorate) -> Self {
        Self { tally: Tally::new(electorate), asked: Vec::new() }
    }

    /// Records a request to these nodes, which may answer until `deadline`.
    pub(crate) fn ask(&mut self, nodes: NodeSet, deadline: Instant) {
        if !nodes.is_empty() {
            self.asked.push((nodes, deadline));
        }
    }

    /// Records a repeated request to these nodes, which have all denied.
    pub(crate) fn ask_again(&mut self, nodes: NodeSet, deadline: Instant) {
        for node in nodes.iter() {
            self.tally.reopen(node);
        }
        for (asked, _) in &mut self.asked {
            *asked = asked.without(nodes);
        }
        self.ask(nodes, deadline);
    }

    pub(crate) fn vote(&mut self, node: usize, granted: bool) {
        self.tally.vote(node, granted);
    }

    /// Records a node without a vote.
    pub(crate) fn abstain(&mut self, node: usize) {
        self.tally.abstain(node);
    }

    /// Counts each node whose deadline has passed at `now` as denying. Returns these nodes.
    pub(crate) fn expire(&mut self, now: Instant) -> NodeSet {
        let late = self.overdue(now);
        for node in late.iter() {
            self.tally.abstain(node);
        }
        late
    }

    pub(crate) fn result(&self) -> TallyResult {
        self.tally.result()
    }

    pub(crate) fn granted(&self) -> NodeSet {
        self.tally.granted()
    }

    /// Returns the nodes that were asked, whether or not they have a vote.
    pub(crate) fn asked(&self) -> NodeSet {
        self.asked.iter().fold(NodeSet::EMPTY, |all, (nodes, _)| all.union(*nodes))
    }

    /// Returns the nodes that were asked and have no vote.
    pub(crate) fn pending(&self) -> NodeSet {
        self.asked().intersection(self.tally.open())
    }

    /// Returns the nodes that may still grant: all nodes without a vote, whether or not they were asked.
    pub(crate) fn open(&self) -> NodeSet {
        self.tally.open()
    }

    /// Returns the earliest deadline of a node that was asked and has no vote.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let open = self.tally.open();
        self.asked
            .iter()
            .filter(|(nodes, _)| !nodes.intersection(open).is_empty())
            .map(|(_, deadline)| *deadline)
            .min()
    }

    fn overdue(&self, now: Instant) -> NodeSet {
        let open = self.tally.open();
        let late = self.asked.iter().filter(|(_, deadline)| *deadline <= now);
        late.fold(NodeSet::EMPTY, |all, (nodes, _)| all.union(nodes.intersection(open)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(millis))
    }

    #[test]
    fn a_node_without_a_vote_counts_as_denying_after_its_deadline() {
        let mut round = Round::new(Electorate::new(3, 2));
        round.ask(NodeSet::first(3), at(10));
        round.vote(0, true);
        assert_eq!(round.expire(at(9)), NodeSet::EMPTY);
        assert_eq!(round.result(), TallyResult::Pending);
        assert_eq!(round.next_deadline(), Some(at(10)));
        assert_eq!(round.expire(at(10)), [1, 2].into_iter().collect());
        assert_eq!(round.result(), TallyResult::Lost);
        assert_eq!(round.next_deadline(), None);
    }

    #[test]
    fn a_node_that_was_not_asked_may_still_grant_and_has_no_deadline() {
        let mut round = Round::new(Electorate::new(3, 2));
        round.ask(NodeSet::only(1), at(5));
        round.vote(1, true);
        assert_eq!((round.pending(), round.open()), (NodeSet::EMPTY, [0, 2].into_iter().collect()));
        round.ask(round.open(), at(8));
        assert_eq!(round.expire(at(7)), NodeSet::EMPTY);
        round.vote(2, true);
        assert_eq!(round.result(), TallyResult::Won);
    }
}
