//! What a node says to one operation of a request.

use std::{sync::Arc, time::Duration};

use crate::{
    node::operation::{Holder, InspectAnswer, ListPage, ObserveAnswer, Queued, Registration, wire},
    values::{Arrivals, Fingerprint, NodeError, NodeReply, Refusal},
};

/// A node's answer to one [`Operation`](super::Operation).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Lock: ours now (or already: a resend), with this vote for the fencing token.
    Granted { vote: u64 },
    /// Lock, renewal: another owner has one of the resources.
    Held(Holder),
    /// Enqueue: it is not this waiter's turn. Lock: others are queued here, or are to be let go
    /// first.
    Queued(Queued),
    /// Withdrawal: it is not queued (any more).
    Withdrawn,
    /// Lock, renewal: this owner was unlocked here before; its tombstone says so.
    Tombstone,
    /// Any but unlocks, withdrawals, and what only looks: the node belongs to a quorum of another
    /// configuration.
    WrongQuorum { fingerprint: Fingerprint },
    /// Write-back: the counters now stand at the token.
    WrittenBack,
    /// Write-back: not the owner's, or a counter is above the token already. The largest counter, 0
    /// if none.
    NotWrittenBack { counter: u64 },
    /// Renewal: ours, for another ttl. `proves`: no token above the lease's own was given here
    /// before.
    Renewed { proves: bool },
    /// Unlock, force unlock: how many of the resources were deleted; the others were not ours.
    Unlocked { deleted: u32 },
    /// Granted, renewed or unlocked as it says, at a node where others are queued for one of the
    /// resources.
    WithWaiters(Box<Self>),
    /// Unlock, sent again after its connection broke: nothing was there, or it was deleted the
    /// first time.
    UnlockedBefore,
    /// Lock, write-back: the node must not vote, for it may have forgotten votes.
    Abstains(Abstention),
    /// Renewal: ours, for another ttl, but at a node that does not count yet, for the same reason.
    RenewedInQuarantine(Abstention),
    /// Inspection.
    Inspected(InspectAnswer),
    /// Proclamation: it is kept, or something later of the same leader is.
    Proclaimed,
    /// Proclamation: the lock is not the owner's here.
    NotLeader,
    /// Observation.
    Observed(ObserveAnswer),
    /// A look for vacant resources: which, by their indices.
    Vacant(Vec<usize>),
    /// A part of what is held.
    Listed(ListPage),
    /// Latch: it is open.
    Open,
    /// Latch: it is not, as far as this node knows, at which these have arrived.
    Arrived(Arrivals),
    /// Latch: so many open it, and not as many as the client says.
    CountMismatch(u32),
    /// Registration, initialisation, reconfiguration: done.
    Registered(Registration),
    /// Initialisation: the node has metadata already.
    AlreadyRegistered { fingerprint: Fingerprint },
    /// Not answered, or answered with an error: never evidence that the resource is held.
    Error(NodeError),
}

impl Answer {
    /// The same, at a node where others are queued, or where they are not.
    pub(crate) fn with_waiters(self, has_waiters: bool) -> Self {
        if has_waiters { Self::WithWaiters(Box::new(self)) } else { self }
    }

    /// What it says of the request alone.
    pub(crate) fn without_waiters(&self) -> &Self {
        if let Self::WithWaiters(answer) = self { answer } else { self }
    }

    /// Of an unlock that may have been executed before, when its connection broke: that nothing was
    /// there says nothing.
    pub(crate) fn mark_resent(&mut self) {
        match self {
            Self::Unlocked { deleted: 0 } => *self = Self::UnlockedBefore,
            Self::WithWaiters(answer) => answer.mark_resent(),
            _ => {}
        }
    }

    /// What it says of the request alone, and whether others are queued; `None` where that is not
    /// known.
    pub(crate) fn into_parts(self) -> (Self, Option<bool>) {
        let has_waiters = self.has_waiters();
        (if let Self::WithWaiters(answer) = self { *answer } else { self }, has_waiters)
    }

    /// Whether others are queued; `None` where that is not known.
    pub(crate) fn has_waiters(&self) -> Option<bool> {
        match self {
            // Without an entry, it says how many are queued.
            Self::Queued(Queued { arrival: 0, rank, .. }) => Some(*rank > 0),
            Self::WithWaiters(_) | Self::Queued(_) => Some(true),
            Self::Granted { .. } | Self::Held(_) | Self::Renewed { .. } | Self::Unlocked { .. } => {
                Some(false)
            }
            _ => None,
        }
    }

    /// Whether the node has to be registered before it does what was asked.
    pub(crate) fn is_not_registered(&self) -> bool {
        matches!(
            self,
            Self::Abstains(Abstention::NotRegistered) | Self::RenewedInQuarantine(Abstention::NotRegistered)
        )
    }
}

/// Why a node must not vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abstention {
    /// It has no metadata, or that of another incarnation than the connection's: it has to be
    /// registered first.
    NotRegistered,
    /// It is in quarantine, for so long.
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

/// What an answer amounts to: one that refuses nothing is a vote for what was asked.
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
            | Answer::CountMismatch(_)
            | Answer::Registered(_)
            | Answer::Inspected(_) => Self::Done,
            Answer::Held(Holder { owner, remaining, .. }) => {
                Self::Refused(Refusal::Held { by: owner.clone(), remaining: Some(*remaining) })
            }
            Answer::Queued(Queued { holder: Some(Holder { owner, remaining, .. }), .. }) => {
                Self::Refused(Refusal::Held { by: owner.clone(), remaining: Some(*remaining) })
            }
            Answer::Queued(_) => Self::Refused(Refusal::Deferred),
            Answer::Tombstone => Self::Refused(Refusal::RolledBack),
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
