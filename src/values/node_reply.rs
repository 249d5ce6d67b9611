//! The reply of each node to one call, for errors and reports.

use std::{fmt, sync::Arc, time::Duration};

use crate::values::{Fingerprint, LeaseId, NodeError, Printable, node_error::text_of_replacement};

/// The reply of one node to one call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeReply {
    /// The node was not asked, because the call was decided before. In
    /// [`AdminError::Incomplete`](crate::error::AdminError::Incomplete), the node answered and was not changed.
    NotAsked,
    /// The node was asked and did not answer before the end of the call. The call was decided without the answer, or
    /// the time of the call ended.
    Pending,
    /// The node executed the request: for example, the node granted or unlocked.
    Done,
    /// The node refused.
    Refused(Refusal),
    /// The request could not be sent, the node did not answer in time, or the node answered with an error. A failure is
    /// neither a grant nor a refusal, because the node may have granted.
    Failed(NodeError),
}

/// The reason of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The node has the key of another lease on the resource.
    #[non_exhaustive]
    Held {
        /// The id of that lease; [`LeaseId::is_of_readers`] for readers, `None` for a key of another program.
        by: Option<LeaseId>,
        /// The time after which the key expires without a renewal.
        remaining: Option<Duration>,
    },
    /// Earlier waiters have precedence. Another lease may hold the resource as well.
    Deferred,
    /// The request arrived after an unlock of the same lease, such as a rollback or a force-unlock.
    RolledBack,
    /// The node is in quarantine, because the node may have lost votes: the node restarted, failed over, was flushed, or
    /// is new.
    #[non_exhaustive]
    Quarantined {
        /// The time until the node votes; `None` until a client has registered with the node.
        remaining: Option<Duration>,
    },
    /// The lease does not exist on the node any more, or a later lease was granted there.
    Superseded,
    /// The node has recorded another count for the latch.
    #[non_exhaustive]
    CountMismatch {
        /// The recorded count.
        recorded: u32,
    },
    /// The node belongs to a quorum with other settings, or was [replaced](Self::replaced_by).
    #[non_exhaustive]
    WrongQuorum {
        /// The settings of that quorum as one line, or the line of the replaced node.
        fingerprint: Arc<str>,
    },
}

/// The reply of each node to one call, in the order in which the nodes were named.
#[derive(Clone, PartialEq, Eq)]
pub struct NodeReplies {
    addresses: Arc<[Arc<str>]>,
    replies: Arc<[NodeReply]>,
    needed: usize,
}

/// The display of replies, with other words in place of some replies.
pub(crate) struct RepliesInWords<'a> {
    replies: &'a NodeReplies,
    /// Some replies, each with its words.
    words: &'a [(NodeReply, &'static str)],
}

impl Refusal {
    /// Returns the address of the server that stands in for the node, as `HOST:PORT`, if
    /// [`admin::replace`](crate::admin::replace) has replaced the node. If the address of the node is wrong, this is a
    /// server of another quorum, which the text of the refusal names.
    #[must_use]
    pub fn replaced_by(&self) -> Option<&str> {
        match self {
            Self::WrongQuorum { fingerprint } => Fingerprint::replacement_in(fingerprint),
            _ => None,
        }
    }

    pub(crate) fn wrong_quorum(fingerprint: &Fingerprint) -> Self {
        Self::WrongQuorum { fingerprint: fingerprint.as_str().into() }
    }
}

impl NodeReplies {
    pub(crate) fn new(
        addresses: Arc<[Arc<str>]>,
        replies: impl IntoIterator<Item = NodeReply>,
        needed: usize,
    ) -> Self {
        Self { addresses, replies: replies.into_iter().collect(), needed }
    }

    /// Returns the replies without the addresses.
    pub(crate) fn all(&self) -> &[NodeReply] {
        &self.replies
    }

    /// Returns the address and the reply of each node.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &NodeReply)> {
        self.addresses.iter().map(|node| &**node).zip(&*self.replies)
    }

    /// Returns the number of nodes that executed the request.
    #[must_use]
    pub fn done(&self) -> usize {
        self.replies.iter().filter(|reply| **reply == NodeReply::Done).count()
    }

    /// Returns the number of nodes that a quorum needs.
    #[must_use]
    pub fn needed(&self) -> usize {
        self.needed
    }

    /// Whether a quorum of nodes executed the request.
    #[must_use]
    pub fn has_quorum(&self) -> bool {
        self.done() >= self.needed
    }

    /// Returns the display of the replies, with these words in place of each reply that is named beside them.
    pub(crate) fn with_words<'a>(&'a self, words: &'a [(NodeReply, &'static str)]) -> RepliesInWords<'a> {
        RepliesInWords { replies: self, words }
    }

    /// Whether too many nodes are in quarantine for a quorum of the remaining nodes.
    pub(crate) fn is_quarantined(&self) -> bool {
        let is_quarantined =
            |reply: &&NodeReply| matches!(reply, NodeReply::Refused(Refusal::Quarantined { .. }));
        let quarantined = self.replies.iter().filter(is_quarantined).count();
        quarantined + self.needed > self.replies.len()
    }

    /// Returns the time until quarantines end and a quorum of nodes may vote; `None` if a quorum may vote now, or if
    /// the quarantines with a known end do not complete a quorum.
    pub(crate) fn quarantined_for(&self) -> Option<Duration> {
        let (mut voting, mut remaining_times) = (0, Vec::new());
        for reply in &*self.replies {
            match reply {
                NodeReply::Refused(Refusal::Quarantined { remaining }) => remaining_times.extend(*remaining),
                NodeReply::Failed(_) | NodeReply::Refused(Refusal::WrongQuorum { .. }) => {}
                _ => voting += 1,
            }
        }
        remaining_times.sort_unstable();
        let missing = self.needed.checked_sub(voting)?;
        remaining_times.get(missing.checked_sub(1)?).copied()
    }
}

impl fmt::Display for NodeReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAsked => f.write_str("not needed"),
            Self::Pending => f.write_str("no answer before the end of the call"),
            Self::Done => f.write_str("done"),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { by, remaining } => {
                match by {
                    Some(readers) if readers.is_of_readers() => f.write_str("held by readers")?,
                    Some(lease) => write!(f, "held by {lease}")?,
                    None => f.write_str("held by a lock of another kind")?,
                }
                remaining.map_or(Ok(()), |remaining| write!(f, " for {remaining:?}"))
            }
            Self::Deferred => f.write_str("other waiters come first"),
            Self::RolledBack => f.write_str("unlocked before"),
            Self::Quarantined { remaining: Some(remaining) } => {
                write!(f, "in quarantine for {remaining:?}: it may have lost votes")
            }
            Self::Quarantined { remaining: None } => {
                f.write_str("abstains: no client has registered with it since it started or was flushed")
            }
            Self::Superseded => f.write_str("lost or superseded"),
            Self::CountMismatch { recorded } => write!(f, "the latch has the count {recorded} there"),
            Self::WrongQuorum { fingerprint } => match text_of_replacement(fingerprint) {
                Some(replaced) => f.write_str(&replaced),
                None => write!(f, "belongs to another quorum ({})", Printable(fingerprint)),
            },
        }
    }
}

impl fmt::Display for NodeReplies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (node, reply)) in self.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{node}: {reply}")?;
        }
        Ok(())
    }
}

impl fmt::Display for RepliesInWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (node, reply)) in self.replies.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            match self.words.iter().find(|(named, _)| named == reply) {
                Some((_, words)) => write!(f, "{separator}{node}: {words}")?,
                None => write!(f, "{separator}{node}: {reply}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for NodeReplies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_distinguishes_nodes_not_asked_from_nodes_without_an_answer() {
        assert_eq!(NodeReply::NotAsked.to_string(), "not needed");
        assert_eq!(NodeReply::Pending.to_string(), "no answer before the end of the call");
        assert_eq!(NodeReply::Done.to_string(), "done");
    }

    #[test]
    fn the_refusal_of_a_latch_with_another_count_names_the_count() {
        let refused = NodeReply::Refused(Refusal::CountMismatch { recorded: 3 });
        assert_eq!(refused.to_string(), "the latch has the count 3 there");
    }
}
