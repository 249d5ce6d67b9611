//! The lack of a quorum.

use std::{fmt, sync::Arc, time::Duration};

use crate::values::{NodeReplies, Resource};

/// The error of too few nodes that granted or answered, with the reply of each node.
#[derive(Clone, PartialEq, Eq)]
pub struct NoQuorum(Arc<Evidence>);

#[derive(PartialEq, Eq)]
struct Evidence {
    goal: Goal,
    replies: NodeReplies,
    /// Whether no validity was left when the attempt ended.
    is_late: bool,
}

/// The purpose of a call that needed a quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    Connect,
    Lock(Resource),
    Renew(Resource),
    ForceUnlock(Resource),
    Inspect(Resource),
    List,
    /// To find the leader of an election.
    FindLeader(Resource),
    /// To record the value of a leader.
    Proclaim(Resource),
    Latch(Resource),
}

impl NoQuorum {
    pub(crate) fn new(goal: Goal, replies: NodeReplies) -> Self {
        Self(Arc::new(Evidence { goal, replies, is_late: false }))
    }

    /// Returns the error of a quorum that granted too late to leave any validity.
    pub(crate) fn late(goal: Goal, replies: NodeReplies) -> Self {
        Self(Arc::new(Evidence { goal, replies, is_late: true }))
    }

    /// Returns the last reply of each node.
    #[must_use]
    pub fn node_replies(&self) -> &NodeReplies {
        &self.0.replies
    }

    /// Returns the time until enough nodes leave quarantine, counted from the answers of the nodes. `None` if more than
    /// the votes of nodes in quarantine is missing, or if the nodes have not reported the end of their quarantine.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        if self.is_quarantined() { self.0.replies.quarantined_for() } else { None }
    }

    /// Whether quarantines are the reason, because nodes restarted, were flushed, or are new. If all nodes are new,
    /// [`admin::init`](crate::admin::init) makes them vote at once.
    #[must_use]
    pub fn is_quarantined(&self) -> bool {
        !self.0.is_late && self.0.replies.is_quarantined()
    }

    pub(crate) fn is_late(&self) -> bool {
        self.0.is_late
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect => f.write_str("no quorum of nodes could be connected"),
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
        let Evidence { goal, replies, is_late } = &*self.0;
        write!(f, "{goal}: {} of {} nodes needed", replies.needed(), replies.all().len())?;
        if *is_late {
            f.write_str(match replies.has_quorum() {
                true => ", and their votes came too late to leave any validity",
                false => ", and no validity was left before they had answered",
            })?;
        }
        if self.is_quarantined() {
            let time =
                self.retry_after().map_or_else(|| "some time".to_owned(), |time| format!("{time:.1?}"));
            write!(
                f,
                ", and nodes are in quarantine for {time} more, as they restarted, were flushed, or are new \
                 (if all nodes are new, `redquorum init` or `admin::init` makes them vote at once)"
            )?;
        }
        write!(f, "; {replies}")
    }
}

impl fmt::Debug for NoQuorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Evidence { goal, replies, is_late } = &*self.0;
        f.debug_struct("NoQuorum")
            .field("goal", goal)
            .field("node_replies", replies)
            .field("is_late", is_late)
            .finish()
    }
}

impl std::error::Error for NoQuorum {}
