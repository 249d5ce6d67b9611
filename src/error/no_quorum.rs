//! The error of a call that got no quorum.

use std::{fmt, sync::Arc, time::Duration};

use crate::values::{NodeReplies, NodeReply, Resource};

/// The error of a call for which too few nodes granted or answered, with the reply of each node.
#[derive(Clone, PartialEq, Eq)]
pub struct NoQuorum(Arc<Details>);

#[derive(PartialEq, Eq)]
struct Details {
    goal: Goal,
    replies: NodeReplies,
    /// Whether no validity was left when the attempt ended.
    is_late: bool,
    /// Whether nodes answered other requests of the client, but not this call in time.
    is_overloaded: bool,
}

/// The purpose of a call that needed a quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    Connect,
    /// The check that a quorum of nodes votes.
    Vote,
    Lock(Resource),
    Renew(Resource),
    ForceUnlock(Resource),
    Inspect(Resource),
    List,
    /// The query for the leader of an election.
    FindLeader(Resource),
    /// The recording of a leader's value.
    Proclaim(Resource),
    Latch(Resource),
}

impl NoQuorum {
    pub(crate) fn new(goal: Goal, replies: NodeReplies) -> Self {
        Self(Arc::new(Details { goal, replies, is_late: false, is_overloaded: false }))
    }

    /// Returns the error of an attempt that had no validity left at its end, with or without a quorum.
    pub(crate) fn late(goal: Goal, replies: NodeReplies) -> Self {
        Self(Arc::new(Details { goal, replies, is_late: true, is_overloaded: false }))
    }

    /// Returns the same error, of a call that failed because nodes have more work than they can do in time.
    pub(crate) fn of_overloaded_nodes(&self) -> Self {
        let Details { goal, replies, is_late, .. } = &*self.0;
        let (goal, replies, is_late) = (goal.clone(), replies.clone(), *is_late);
        Self(Arc::new(Details { goal, replies, is_late, is_overloaded: true }))
    }

    /// Returns the last reply of each node.
    #[must_use]
    pub fn node_replies(&self) -> &NodeReplies {
        &self.0.replies
    }

    /// Returns the time until enough nodes have left quarantine to form a quorum, counted from the answers of the
    /// nodes. `None` if quarantines are not the reason of the error, or if too few nodes have reported the end of their
    /// quarantine.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        if self.is_quarantined() { self.0.replies.quarantined_for() } else { None }
    }

    /// Whether quarantines are the reason of the error, because nodes restarted, failed over, were flushed, or are
    /// new. If no client has ever locked on these nodes, [`admin::init`](crate::admin::init) makes them vote at once.
    /// After a restart, a failover or a flush, a lease may still be held, so the caller has to wait.
    #[must_use]
    pub fn is_quarantined(&self) -> bool {
        !self.0.is_late && self.0.replies.is_quarantined()
    }

    /// Whether too much work is the reason of the error: nodes have answered other calls of this client meanwhile, but
    /// not this call in time. A program that has more calls in flight than its nodes can execute within the [attempt
    /// timeout](crate::QuorumBuilder::attempt_timeout) should limit the number of its calls.
    #[must_use]
    pub fn is_overloaded(&self) -> bool {
        self.0.is_overloaded
    }

    pub(crate) fn is_late(&self) -> bool {
        self.0.is_late
    }
}

impl Goal {
    /// Returns the words for a node that executed the request. An answer to a call that reads is no vote.
    fn words_for_done(&self) -> &'static str {
        match self {
            Self::Connect | Self::Vote | Self::Inspect(_) | Self::List | Self::FindLeader(_) => "answers",
            Self::Lock(_) | Self::Renew(_) | Self::ForceUnlock(_) | Self::Proclaim(_) | Self::Latch(_) => {
                "done"
            }
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect => f.write_str("no quorum of nodes could be connected"),
            Self::Vote => f.write_str("no quorum of nodes votes"),
            Self::Lock(resource) => write!(f, "no quorum for {resource}"),
            Self::Renew(resource) => write!(f, "no quorum renewed {resource}"),
            Self::ForceUnlock(resource) => {
                write!(f, "no quorum confirmed the unlock of {resource}, which may still be locked")
            }
            Self::Inspect(resource) => write!(f, "no quorum answered about {resource}"),
            Self::List => f.write_str("no quorum listed its locks"),
            Self::FindLeader(election) => write!(f, "no quorum answered about the leader of {election}"),
            Self::Proclaim(election) => {
                write!(f, "no quorum recorded the value of the leader of {election}")
            }
            Self::Latch(latch) => write!(f, "no quorum for the latch {latch}"),
        }
    }
}

impl fmt::Display for NoQuorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Details { goal, replies, is_late, is_overloaded } = &*self.0;
        write!(f, "{goal}: {} of {} nodes needed", replies.needed(), replies.all().len())?;
        if *is_late {
            f.write_str(match replies.has_quorum() {
                true => ", and their votes came too late to leave any validity",
                false => ", and no validity was left before they had answered",
            })?;
        }
        if *is_overloaded {
            f.write_str(
                ", and nodes answer other calls but not this call in time, so more calls are in flight than the nodes \
                 can execute within the attempt timeout (limit the calls in flight)",
            )?;
        }
        if self.is_quarantined() {
            let time =
                self.retry_after().map_or_else(|| "some time".to_owned(), |time| format!("{time:.1?}"));
            write!(
                f,
                ", and nodes are in quarantine for {time} more, as they restarted, failed over, were flushed, or \
                 are new (`redquorum init` or `admin::init` makes them vote at once, but only if no client has ever \
                 locked here; after a restart, a failover or a flush, wait)"
            )?;
        }
        write!(f, "; {}", replies.with_words(&[(NodeReply::Done, goal.words_for_done())]))
    }
}

impl fmt::Debug for NoQuorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Details { goal, replies, is_late, is_overloaded } = &*self.0;
        f.debug_struct("NoQuorum")
            .field("goal", goal)
            .field("node_replies", replies)
            .field("is_late", is_late)
            .field("is_overloaded", is_overloaded)
            .finish()
    }
}

impl std::error::Error for NoQuorum {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::{NodeError, NodeReply, Refusal};

    #[test]
    fn an_error_of_overloaded_nodes_names_the_remedy() {
        let replies = NodeReplies::new([Arc::from("a")].into(), [NodeReply::Failed(NodeError::TimedOut)], 1);
        let error = NoQuorum::new(Goal::Lock(Resource::new("r").unwrap()), replies);
        assert!(!error.is_overloaded() && !error.to_string().contains("in flight"));
        let overloaded = error.of_overloaded_nodes();
        assert!(overloaded.is_overloaded());
        let text = overloaded.to_string();
        assert!(text.contains("(limit the calls in flight); a: "), "{text}");
    }

    /// The node may be a master set or a Redis Cluster.
    #[test]
    fn an_error_of_nodes_in_quarantine_names_the_causes() {
        let quarantined = NodeReply::Refused(Refusal::Quarantined { remaining: None });
        let replies = NodeReplies::new([Arc::from("a")].into(), [quarantined], 1);
        let text = NoQuorum::new(Goal::Vote, replies).to_string();
        assert!(
            text.contains("as they restarted, failed over, were flushed, or are new (`redquorum init`"),
            "{text}"
        );
        assert!(text.contains("after a restart, a failover or a flush, wait"), "{text}");
    }

    /// An answer to a call that reads is no vote, so the text must not say that the node has granted.
    #[test]
    fn a_node_that_answered_is_described_by_the_purpose_of_the_call() {
        let replies = || {
            let addresses: Vec<Arc<str>> = ["a", "b", "c"].map(Arc::from).into();
            let replies =
                [NodeReply::Done, NodeReply::Failed(NodeError::Busy), NodeReply::Failed(NodeError::Busy)];
            NodeReplies::new(addresses.into(), replies, 2)
        };
        let resource = || Resource::new("r").unwrap();
        for goal in [Goal::Inspect(resource()), Goal::List, Goal::FindLeader(resource()), Goal::Connect] {
            let text = NoQuorum::new(goal, replies()).to_string();
            assert!(text.contains("; a: answers; b: the node is busy"), "{text}");
        }
        for goal in [Goal::Lock(resource()), Goal::Renew(resource()), Goal::Proclaim(resource())] {
            let text = NoQuorum::new(goal, replies()).to_string();
            assert!(text.contains("; a: done; b: the node is busy"), "{text}");
        }
    }
}
