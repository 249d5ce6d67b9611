//! What every node said, as errors and reports show it.

use std::{fmt, sync::Arc, time::Duration};

use crate::values::{Fingerprint, NodeError, OwnerId};

/// What one node said to one question.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Vote {
    /// It was not asked: the decision did not need it.
    NotAsked,
    /// It was asked and has not answered yet; it was not waited for, as its vote could not decide
    /// anything any more.
    Pending,
    /// It is connected, and fits; no vote was asked for.
    Connected,
    /// Yes.
    Granted,
    /// No, for this reason.
    Refused(Refusal),
    /// Nothing that counts, for this reason. It may have granted.
    Unknown(NodeError),
}

/// Why a node refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Somebody else holds the resource there.
    Held {
        /// Who: `redquorum:shared` for readers, `None` for a lock of some other kind.
        owner: Option<OwnerId>,
        /// For how long, unless it is renewed.
        remaining: Duration,
    },
    /// Others are queued for the resource there, or are let go first. Somebody may hold it besides.
    Queued,
    /// This lease was unlocked there already, by its holder or by force.
    Unlocked,
    /// The node must not vote for so long: it may have forgotten votes, as it restarted, was
    /// flushed, or is new. `None` until that is found out.
    Quarantined {
        /// How much longer.
        remaining: Option<Duration>,
    },
    /// The lock is not there any more, or a later one has been granted.
    Superseded,
    /// The node belongs to a quorum that is configured otherwise.
    OtherQuorum {
        /// That quorum's configuration.
        theirs: Fingerprint,
    },
}

/// The vote of every node, in the order of the configuration.
#[derive(Clone, PartialEq, Eq)]
pub struct Votes {
    /// Their addresses.
    nodes: Arc<[Arc<str>]>,
    votes: Vec<Vote>,
}

impl Votes {
    pub(crate) fn new(nodes: Arc<[Arc<str>]>, votes: Vec<Vote>) -> Self {
        Self { nodes, votes }
    }

    /// The votes alone.
    pub(crate) fn all(&self) -> &[Vote] {
        &self.votes
    }

    /// Each node's address and vote.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Vote)> {
        self.nodes.iter().map(|node| &**node).zip(&self.votes)
    }

    /// How many nodes granted.
    #[must_use]
    pub fn granted(&self) -> usize {
        self.votes.iter().filter(|vote| **vote == Vote::Granted).count()
    }

    /// How many nodes must not vote, as they may have forgotten votes.
    pub(crate) fn quarantined(&self) -> usize {
        let is_quarantined = |vote: &&Vote| matches!(vote, Vote::Refused(Refusal::Quarantined { .. }));
        self.votes.iter().filter(is_quarantined).count()
    }

    /// How long until so many nodes may vote, if they only wait for quarantines that have told
    /// their end.
    pub(crate) fn quarantined_for(&self, needed: usize) -> Option<Duration> {
        let (mut able, mut told) = (0, Vec::new());
        for vote in &self.votes {
            match vote {
                Vote::Refused(Refusal::Quarantined { remaining }) => told.extend(*remaining),
                Vote::Unknown(_) | Vote::Refused(Refusal::OtherQuorum { .. }) => {}
                _ => able += 1,
            }
        }
        told.sort_unstable();
        let missing = needed.checked_sub(able)?;
        told.get(missing.checked_sub(1)?).copied()
    }

    /// How many nodes there are.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.votes.len()
    }
}

impl fmt::Display for Vote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAsked => f.write_str("not asked"),
            Self::Pending => f.write_str("no answer yet"),
            Self::Connected => f.write_str("connected"),
            Self::Granted => f.write_str("granted"),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Unknown(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { owner: Some(owner), remaining } if owner.is_of_readers() => {
                write!(f, "held by readers for {remaining:?}")
            }
            Self::Held { owner: Some(owner), remaining } => write!(f, "held by {owner} for {remaining:?}"),
            Self::Held { owner: None, remaining } => {
                write!(f, "held by a lock of another kind for {remaining:?}")
            }
            Self::Queued => f.write_str("others are before it in the wait queue"),
            Self::Unlocked => f.write_str("unlocked before"),
            Self::Quarantined { remaining: Some(remaining) } => {
                write!(f, "in quarantine for {remaining:?}: it may have forgotten votes")
            }
            Self::Quarantined { remaining: None } => {
                f.write_str("abstains: no client has registered with it since it started or was flushed")
            }
            Self::Superseded => f.write_str("lost or superseded"),
            Self::OtherQuorum { theirs } => write!(f, "belongs to another quorum ({theirs})"),
        }
    }
}

impl fmt::Display for Votes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (node, vote)) in self.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{node}: {vote}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Votes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
