//! The tally of a renewal.

use crate::{
    algorithm::{
        node_set::NodeSet,
        tally::{Electorate, Tally, TallyResult},
    },
    node::Answer,
    observer::RenewalOutcome,
    values::LeaseId,
};

/// The answers of the nodes to one renewal.
#[derive(Debug)]
pub(super) struct RenewalTally {
    electorate: Electorate,
    tally: Tally,
    /// The nodes that have proved, each for itself, that they gave no vote above the token before this round.
    proofs: NodeSet,
    /// The nodes with a tombstone of the lease, which refuse the lease for good.
    with_tombstone: NodeSet,
    /// The lease ids that nodes have in place of this lease; `None` for a lock of another library.
    other_leases: Vec<Option<LeaseId>>,
}

impl RenewalTally {
    pub(super) fn new(electorate: Electorate) -> Self {
        let (proofs, with_tombstone, other_leases) = (NodeSet::EMPTY, NodeSet::EMPTY, Vec::new());
        Self { electorate, tally: Tally::new(electorate), proofs, with_tombstone, other_leases }
    }

    pub(super) fn record(&mut self, node: usize, answer: &Answer) {
        match answer {
            Answer::Renewed { proves: true } => self.proofs.insert(node),
            Answer::Tombstone => self.with_tombstone.insert(node),
            // Readers are left out, because two nodes may name different readers.
            Answer::Held(holder) if !holder.lease_id.as_ref().is_some_and(LeaseId::is_of_readers) => {
                self.other_leases.push(holder.lease_id.clone());
            }
            _ => {}
        }
        self.tally.vote(node, matches!(answer, Answer::Renewed { .. }));
    }

    /// Returns the outcome according to the answers alone; `None` while later answers may change it. The answers of
    /// `Renewed` may still be too late for the lease.
    pub(super) fn outcome(&self) -> Option<RenewalOutcome> {
        match self.tally.result() {
            TallyResult::Won => Some(RenewalOutcome::Renewed),
            TallyResult::Lost if self.is_out_of_reach() => Some(RenewalOutcome::Revoked),
            // A failure needs the answers of all nodes, because a later answer may show that the lease is revoked.
            TallyResult::Lost if self.open().is_empty() => Some(RenewalOutcome::Failed),
            _ => None,
        }
    }

    /// Returns the nodes that have not answered yet.
    pub(super) fn open(&self) -> NodeSet {
        self.tally.open()
    }

    /// Whether a quorum proves that no later lease was granted before this round began.
    pub(super) fn is_proven(&self) -> bool {
        self.electorate.is_quorum(self.proofs)
    }

    /// Whether a quorum of proofs is still possible.
    pub(super) fn may_prove(&self) -> bool {
        self.electorate.is_quorum(self.proofs.union(self.open()))
    }

    /// Whether no renewal can get a quorum any more, because too many nodes have a tombstone of the lease or have the
    /// same other lease. If nodes have several other leases, votes are split, and these leases are probably about to be
    /// rolled back.
    fn is_out_of_reach(&self) -> bool {
        let count_of = |id: &Option<LeaseId>| self.other_leases.iter().filter(|other| *other == id).count();
        let most = self.other_leases.iter().map(count_of).max().unwrap_or(0);
        self.electorate.nodes() - (self.with_tombstone.len() + most).min(self.electorate.nodes())
            < self.electorate.needed()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{node::Holder, values::NodeError};

    const RENEWED: Answer = Answer::Renewed { proves: false };
    const PROVEN: Answer = Answer::Renewed { proves: true };
    const SILENT: Answer = Answer::Error(NodeError::TimedOut);

    fn held_by(lease_id: Option<LeaseId>) -> Answer {
        Answer::Held(Holder { resource: 0, lease_id, remaining: Duration::from_secs(1), counter: 0 })
    }

    fn held(lease_id: Option<&str>) -> Answer {
        held_by(lease_id.map(|lease_id| LeaseId::from_wire(lease_id.as_bytes())))
    }

    /// Returns a tally with a quorum of three of five nodes, after these answers of nodes 0, 1, ...
    fn tally(answers: &[Answer]) -> RenewalTally {
        let mut tally = RenewalTally::new(Electorate::new(5, 3));
        answers.iter().enumerate().for_each(|(node, answer)| tally.record(node, answer));
        tally
    }

    fn outcome(answers: &[Answer]) -> Option<RenewalOutcome> {
        tally(answers).outcome()
    }

    #[test]
    fn a_renewal_succeeds_with_a_quorum_of_answers() {
        assert_eq!(outcome(&[RENEWED, RENEWED]), None);
        assert_eq!(outcome(&[RENEWED, SILENT, RENEWED, RENEWED]), Some(RenewalOutcome::Renewed));
    }

    #[test]
    fn a_renewal_fails_once_all_nodes_have_answered_without_a_quorum() {
        assert_eq!(outcome(&[SILENT, SILENT, SILENT]), None);
        assert_eq!(outcome(&[SILENT, SILENT, SILENT, RENEWED, RENEWED]), Some(RenewalOutcome::Failed));
    }

    #[test]
    fn a_renewal_returns_revoked_if_another_lease_or_tombstones_exclude_a_quorum() {
        let held_elsewhere = || held(Some("other"));
        assert_eq!(outcome(&[Answer::Tombstone, Answer::Tombstone]), None);
        assert_eq!(
            outcome(&[Answer::Tombstone, held_elsewhere(), held_elsewhere()]),
            Some(RenewalOutcome::Revoked)
        );
        let foreign = || held(None);
        assert_eq!(outcome(&[foreign(), foreign(), foreign()]), Some(RenewalOutcome::Revoked));
        // The votes are split between two lease ids, whose clients are about to roll back.
        let split = [held_elsewhere(), held_elsewhere(), held(Some("third")), held(Some("third"))];
        assert_eq!(outcome(&split), None);
        // `of_readers` stands for any readers, so these nodes may be held by different readers.
        let readers = || held_by(Some(LeaseId::of_readers()));
        assert_eq!(outcome(&[readers(), readers(), readers(), readers()]), None);
        assert_eq!(
            outcome(&[readers(), readers(), readers(), RENEWED, RENEWED]),
            Some(RenewalOutcome::Failed)
        );
    }

    #[test]
    fn a_renewal_proves_the_lease_with_a_quorum_of_proofs() {
        assert!(tally(&[PROVEN, PROVEN, PROVEN]).is_proven());
        let without = tally(&[PROVEN, RENEWED, RENEWED, PROVEN]);
        assert!(!without.is_proven() && without.may_prove());
        assert!(!tally(&[RENEWED, RENEWED, RENEWED]).may_prove());
    }
}
