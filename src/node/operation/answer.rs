//! The answer of a node to one operation.

use std::{sync::Arc, time::Duration};

use crate::{
    node::operation::{Holder, InspectAnswer, ListPage, ObserveAnswer, Queued, Registration, wire},
    values::{Arrivals, Fingerprint, NodeError, NodeReply, Refusal},
};

/// The answer of a node to one [`Operation`](super::Operation).
///
/// The doc of each variant begins with the operations that get this answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Lock, enqueue, transfer: granted, now or by an earlier delivery, with this vote for the fencing token.
    Granted { vote: u64 },
    /// Lock, transfer, renewal: refused, because another lease holds one of the resources.
    Held(Holder),
    /// Lock, enqueue: deferred, because waiters are queued or a mark makes the client yield. Enqueue: deferred, because
    /// another lease holds one of the resources, or because the request is only for a queue entry.
    Queued(Queued),
    /// Withdrawal: done. The waiter has no queue entry now.
    Withdrawn,
    /// Lock, enqueue, transfer, renewal: refused, because the node has a tombstone of the lease id, or, for a
    /// transfer, of the earlier lease.
    Tombstone,
    /// Any operation except unlock, force-unlock, withdrawal, inspection, observation, listing and initialisation:
    /// refused, because the node belongs to another quorum.
    WrongQuorum { fingerprint: Fingerprint },
    /// Write-back: done. No counter is below the token now.
    WrittenBack,
    /// Write-back: refused, because the lease does not hold all resources, or because a counter, a phase of readers or
    /// the minimum token exceeds the token. `counter` is the largest counter, 0 if there is none.
    NotWrittenBack { counter: u64 },
    /// Renewal: done. `proves` is whether the node certainly never gave a vote above the token of the lease, so that no
    /// later lease has the vote of this node.
    Renewed { proves: bool },
    /// Unlock: done, with the number of resources that the lease held on this node. Force-unlock: done, with the number
    /// of resources that any lease held on this node.
    Unlocked { deleted: u32 },
    /// Granted enqueue, renewal, unlock: the answer of a node on which one of the resources has waiters.
    WithWaiters(Box<Self>),
    /// Unlock, sent again after its connection broke: no key was found. The first delivery may have deleted the keys.
    UnlockedBefore,
    /// Lock, enqueue, transfer, write-back, vacancy query, latch: refused, because the node may have lost votes.
    /// Reconfiguration: refused, because the node has no metadata. Record of replacements: refused, because the
    /// node has no metadata.
    Abstains(Abstention),
    /// Renewal: done, but no vote, because the node may have lost votes.
    RenewedInQuarantine(Abstention),
    /// Inspection: the state of one resource.
    Inspected(InspectAnswer),
    /// Proclamation: stored, or superseded by a later proclamation of the same leader.
    Proclaimed,
    /// Proclamation: refused, because the lease does not hold the resource on this node.
    NotLeader,
    /// Observation: the holder and the last proclamation of an election.
    Observed(ObserveAnswer),
    /// Vacancy query: the indices of the vacant resources.
    Vacant(Vec<usize>),
    /// Listing: one page of the held resources.
    Listed(ListPage),
    /// Latch: open.
    Open,
    /// Latch: closed on this node, with the arrivals that the node has recorded.
    Arrived(Arrivals),
    /// Latch: refused, because the node has recorded another count.
    CountMismatch(u32),
    /// Count of permits: recorded, with the number that was recorded before, if any.
    PermitsCounted { before: Option<u32> },
    /// Registration, initialisation, reconfiguration: done.
    Registered(Registration),
    /// Record of replacements: the text that the node has now.
    Recorded { text: Arc<str> },
    /// Clock: the time of day of the server, since the epoch.
    Clock { time: Duration },
    /// Initialisation: refused, because the node belongs to a quorum, or may have forgotten a quorum.
    AlreadyRegistered { fingerprint: Fingerprint },
    /// Any operation: no answer, or an error. An error is no evidence that a resource is held.
    Error(NodeError),
}

impl Answer {
    /// Returns the answer, marked as an answer of a node with waiters if `has_waiters`.
    pub(crate) fn with_waiters(self, has_waiters: bool) -> Self {
        if has_waiters { Self::WithWaiters(Box::new(self)) } else { self }
    }

    /// Returns the answer without the mark that the node has waiters.
    pub(crate) fn without_waiters(&self) -> &Self {
        if let Self::WithWaiters(answer) = self { answer } else { self }
    }

    /// Converts the answer to an unlock that was sent again after its connection broke.
    ///
    /// The first delivery may have been executed, so a missing key is no evidence.
    pub(crate) fn mark_resent(&mut self) {
        match self {
            Self::Unlocked { deleted: 0 } => *self = Self::UnlockedBefore,
            Self::WithWaiters(answer) => answer.mark_resent(),
            _ => {}
        }
    }

    /// Returns the answer without its mark, and whether the node has waiters: `None` if the answer does not
    /// show that.
    pub(crate) fn into_parts(self) -> (Self, Option<bool>) {
        let has_waiters = self.has_waiters();
        (if let Self::WithWaiters(answer) = self { *answer } else { self }, has_waiters)
    }

    /// Whether the node has waiters for a resource; `None` if the answer does not show that.
    pub(crate) fn has_waiters(&self) -> Option<bool> {
        match self {
            // An arrival of 0 shows that the client has no entry. Without an entry, all waiters are ahead.
            Self::Queued(Queued { arrival: 0, rank, .. }) => Some(*rank > 0),
            Self::WithWaiters(_) | Self::Queued(_) => Some(true),
            Self::Granted { .. } | Self::Held(_) | Self::Renewed { .. } | Self::Unlocked { .. } => {
                Some(false)
            }
            _ => None,
        }
    }

    /// Whether the node refused because it must be registered first.
    pub(crate) fn is_not_registered(&self) -> bool {
        matches!(
            self,
            Self::Abstains(Abstention::NotRegistered) | Self::RenewedInQuarantine(Abstention::NotRegistered)
        )
    }
}

/// The reason for which a node abstains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abstention {
    /// Missing metadata, or metadata of another incarnation than the connection. A client has to register first.
    NotRegistered,
    /// A quarantine, with the rest of its time.
    Quarantined(Duration),
}

impl Abstention {
    pub(super) fn read(fields: &[wire::Value]) -> Option<Self> {
        match fields {
            [] => Some(Self::NotRegistered),
            [remaining] => wire::milliseconds(remaining).map(Self::Quarantined),
            _ => None,
        }
    }
}

/// Shows an answer that refuses nothing, and a count mismatch, as a performed request.
impl From<&Answer> for NodeReply {
    fn from(answer: &Answer) -> Self {
        match answer {
            Answer::WithWaiters(answer) => Self::from(&**answer),
            Answer::Granted { .. }
            | Answer::WrittenBack
            | Answer::Renewed { .. }
            | Answer::Unlocked { .. }
            | Answer::UnlockedBefore
            | Answer::Withdrawn
            | Answer::Proclaimed
            | Answer::Observed(_)
            | Answer::Vacant(_)
            | Answer::Listed(_)
            | Answer::Open
            | Answer::Arrived(_)
            | Answer::PermitsCounted { .. }
            | Answer::Recorded { .. }
            | Answer::Clock { .. }
            | Answer::Registered(_)
            | Answer::Inspected(_) => Self::Done,
            Answer::Held(Holder { lease_id, remaining, .. }) => {
                Self::Refused(Refusal::Held { by: lease_id.clone(), remaining: Some(*remaining) })
            }
            Answer::Queued(Queued { holder: Some(Holder { lease_id, remaining, .. }), .. }) => {
                Self::Refused(Refusal::Held { by: lease_id.clone(), remaining: Some(*remaining) })
            }
            Answer::Queued(_) => Self::Refused(Refusal::Deferred),
            Answer::Tombstone => Self::Refused(Refusal::RolledBack),
            Answer::CountMismatch(recorded) => Self::Refused(Refusal::CountMismatch { recorded: *recorded }),
            Answer::NotWrittenBack { .. } | Answer::NotLeader => Self::Refused(Refusal::Superseded),
            Answer::WrongQuorum { fingerprint } | Answer::AlreadyRegistered { fingerprint } => {
                Self::Refused(Refusal::wrong_quorum(fingerprint))
            }
            Answer::Abstains(abstention) | Answer::RenewedInQuarantine(abstention) => {
                Self::Refused(Refusal::from(*abstention))
            }
            Answer::Error(NodeError::Handshake(refused)) => match &**refused {
                NodeError::WrongQuorum(fingerprint) => {
                    Self::Refused(Refusal::WrongQuorum { fingerprint: Arc::clone(fingerprint) })
                }
                _ => Self::Failed(NodeError::Handshake(Arc::clone(refused))),
            },
            Answer::Error(error) => Self::Failed(error.clone()),
        }
    }
}

impl From<Abstention> for Refusal {
    fn from(abstention: Abstention) -> Self {
        let remaining = match abstention {
            Abstention::NotRegistered => None,
            Abstention::Quarantined(remaining) => Some(remaining),
        };
        Self::Quarantined { remaining }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_no_performed_request() {
        let fingerprint = || Fingerprint::new("name=other");
        for refusal in [
            Answer::CountMismatch(3),
            Answer::Tombstone,
            Answer::NotWrittenBack { counter: 1 },
            Answer::NotLeader,
            Answer::WrongQuorum { fingerprint: fingerprint() },
            Answer::AlreadyRegistered { fingerprint: fingerprint() },
            Answer::Abstains(Abstention::NotRegistered),
        ] {
            assert!(matches!(NodeReply::from(&refusal), NodeReply::Refused(_)), "{refusal:?}");
        }
        let mismatch = NodeReply::from(&Answer::CountMismatch(3)).to_string();
        assert_eq!(mismatch, "the latch has the count 3 there");
    }
}
