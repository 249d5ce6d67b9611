//! Who holds a resource, by what its nodes have said.

use std::time::Duration;

use crate::{
    algorithm::tally::Electorate,
    values::{LeaseId, NodeReply, Refusal},
};

/// Whom a node names as the holder, if it says that there is one, and for how long. The owner is
/// `None` for a lock of some other kind.
pub(crate) fn named(vote: &NodeReply) -> Option<(Option<&LeaseId>, Duration)> {
    match vote {
        NodeReply::Refused(Refusal::Held { by, remaining }) => {
            Some((by.as_ref(), remaining.unwrap_or_default()))
        }
        _ => None,
    }
}

/// Whether a node has not said who holds the resource, or that nobody does.
pub(crate) fn is_unknown(vote: &NodeReply) -> bool {
    *vote != NodeReply::Done && named(vote).is_none()
}

/// Whether no owner was named, or may stand, on enough nodes to be the holder. Where nodes were not
/// asked, it may.
pub(crate) fn is_split(votes: &[NodeReply], electorate: Electorate) -> bool {
    let unknown = votes.iter().filter(|vote| is_unknown(vote)).count();
    let most = votes.iter().map(|one| supporters(votes, one)).max();
    most.unwrap_or(0) + unknown < electorate.needed()
}

/// The owner that a quorum of nodes names.
pub(crate) fn holder(votes: &[NodeReply], electorate: Electorate) -> Option<&LeaseId> {
    named(votes.iter().find(|one| supporters(votes, one) >= electorate.needed())?)?.0
}

/// On how many nodes the owner stands that this one has named.
fn supporters(votes: &[NodeReply], one: &NodeReply) -> usize {
    let Some((owner, _)) = named(one) else { return 0 };
    votes.iter().filter_map(named).filter(|(other, _)| *other == owner).count()
}
