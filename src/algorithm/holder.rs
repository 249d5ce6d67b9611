//! The holder of a resource, according to the votes of the nodes in an attempt or a holder check.

use std::time::Duration;

use crate::{
    algorithm::tally::Electorate,
    values::{LeaseId, NodeReply, Refusal},
};

/// Returns the lease that a refusal names, with the remaining ttl. The lease is `None` for a key of another program.
/// Returns `None` for every other vote.
pub(crate) fn named(vote: &NodeReply) -> Option<(Option<&LeaseId>, Duration)> {
    match vote {
        NodeReply::Refused(Refusal::Held { by, remaining }) => {
            Some((by.as_ref(), remaining.unwrap_or_default()))
        }
        _ => None,
    }
}

/// Whether a vote neither shows that the resource is free at the node, nor names a lease.
pub(crate) fn is_unknown(vote: &NodeReply) -> bool {
    *vote != NodeReply::Done && named(vote).is_none()
}

/// Whether no lease can have a quorum. A node whose vote is unknown may have any lease.
pub(crate) fn is_split(votes: &[NodeReply], electorate: Electorate) -> bool {
    let unknown = votes.iter().filter(|vote| is_unknown(vote)).count();
    let most = votes.iter().map(|vote| count_same(votes, vote)).max();
    most.unwrap_or(0) + unknown < electorate.needed()
}

/// Returns the lease that a quorum of nodes names; `None` if there is none, or if a quorum names the key of another
/// program.
pub(crate) fn holder(votes: &[NodeReply], electorate: Electorate) -> Option<&LeaseId> {
    named(votes.iter().find(|vote| count_same(votes, vote) >= electorate.needed())?)?.0
}

/// Returns the number of votes that name the same lease as `vote`; 0 if `vote` names no lease.
fn count_same(votes: &[NodeReply], vote: &NodeReply) -> usize {
    let Some((lease_id, _)) = named(vote) else { return 0 };
    votes.iter().filter_map(named).filter(|(other, _)| *other == lease_id).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::NodeError;

    /// Parses the votes of the nodes, one letter for each node: `-` for a free resource, `?` for no answer, and any
    /// other letter for the lease of that name.
    fn votes(nodes: &str) -> Vec<NodeReply> {
        let vote_of = |letter: char| match letter {
            '-' => NodeReply::Done,
            '?' => NodeReply::Failed(NodeError::TimedOut),
            name => NodeReply::Refused(Refusal::Held {
                by: Some(LeaseId::from_wire(name.to_string().as_bytes())),
                remaining: None,
            }),
        };
        nodes.chars().map(vote_of).collect()
    }

    #[test]
    fn a_lease_may_have_a_quorum_with_the_nodes_whose_votes_are_unknown() {
        let electorate = Electorate::new(5, 3);
        for (nodes, no_lease_can) in [
            ("aa---", true),
            ("aa?--", false),
            ("aab-?", false),
            ("ab?--", true),
            ("aaa--", false),
            ("-----", true),
        ] {
            assert_eq!(is_split(&votes(nodes), electorate), no_lease_can, "{nodes}");
        }
    }

    #[test]
    fn the_holder_is_the_lease_that_a_quorum_names() {
        let electorate = Electorate::new(5, 3);
        let name = |nodes| holder(&votes(nodes), electorate).map(ToString::to_string);
        assert_eq!(name("baa-a").as_deref(), Some("a"));
        assert_eq!(name("baa-?"), None);
    }
}
