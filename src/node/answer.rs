//! What a node says to one entry of a request.

use std::{sync::Arc, time::Duration};

use crate::{
    node::{parameters::Incarnation, proclamation::Proclamation},
    values::{Fingerprint, NodeError, OwnerId, Refusal, Vote},
};

/// A node's answer to one [`Entry`](super::request::Entry).
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
    Gone,
    /// Any but the unlocks, inspection and observation: the node belongs to a quorum of another
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
    Awaited(Box<Self>),
    /// Unlock, sent again after its connection broke: nothing was there, or it was deleted the
    /// first time.
    UnlockedBefore,
    /// Lock, write-back: the node must not vote, for it may have forgotten votes.
    Abstains(Abstention),
    /// Renewal: ours, for another ttl, but at a node that does not count yet, for the same reason.
    RenewedInQuarantine(Abstention),
    /// Inspection.
    Inspected(Inspection),
    /// Proclamation: it is kept, or something later of the same leader is.
    Proclaimed,
    /// Proclamation: the lock is not the owner's here.
    NotLeader,
    /// Observation.
    Observed(Observation),
    /// Registration, initialisation, reconfiguration: done.
    Registered(Registration),
    /// Initialisation: the node has metadata already.
    AlreadyRegistered { fingerprint: Fingerprint },
    /// Not answered, or answered with an error: never evidence that the resource is held.
    Error(NodeError),
}

impl Answer {
    /// The same, at a node where others are queued, or where they are not.
    pub(crate) fn awaited(self, is_awaited: bool) -> Self {
        if is_awaited { Self::Awaited(Box::new(self)) } else { self }
    }

    /// What it says of the request alone.
    pub(crate) fn told(&self) -> &Self {
        if let Self::Awaited(answer) = self { answer } else { self }
    }

    /// Of an unlock that may have been executed before, when its connection broke: that nothing was
    /// there says nothing.
    pub(crate) fn may_have_been_before(&mut self) {
        match self {
            Self::Unlocked { deleted: 0 } => *self = Self::UnlockedBefore,
            Self::Awaited(answer) => answer.may_have_been_before(),
            _ => {}
        }
    }

    /// What it says of the request alone, and whether others are queued; `None` where that is not
    /// known.
    pub(crate) fn into_parts(self) -> (Self, Option<bool>) {
        let is_awaited = self.is_awaited();
        (if let Self::Awaited(answer) = self { *answer } else { self }, is_awaited)
    }

    /// Whether others are queued; `None` where that is not known.
    pub(crate) fn is_awaited(&self) -> Option<bool> {
        match self {
            Self::Awaited(_) | Self::Queued(_) => Some(true),
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

/// A node that has registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    /// Which incarnation of which server this is; `None` if the client may not know.
    pub(crate) incarnation: Option<Incarnation>,
    /// For how long it must not vote, if it must not.
    pub(crate) quarantine: Option<Duration>,
}

/// The holder that stands in the way of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// Which of the asked resources, by index: of those held by others, the one that is held
    /// longest (the first of them if they tie).
    pub(crate) resource: usize,
    /// `None` if the key has more than one field: a lock of some other kind.
    pub(crate) owner: Option<OwnerId>,
    pub(crate) remaining: Duration,
    /// The largest fencing counter among the asked resources, 0 where there is none.
    pub(crate) counter: u64,
}

/// The entry of a waiter in the wait queue of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queued {
    /// Which of the asked resources, by index: the one that is held, or in whose queue others are.
    pub(crate) resource: usize,
    /// The larger, the later its turn; 0 if it did not enter the queue.
    pub(crate) ticket: u64,
    /// How many are before it in the queue. For a lock: 1 if anybody is queued, 0 if nobody is and
    /// it is to let others go first all the same.
    pub(crate) rank: u32,
    /// When to come back if it is not woken: when the holder's ttl ends if it is the first in the
    /// queue, otherwise when the entry before its own does.
    pub(crate) patience: Duration,
    /// Who holds the resource; `None` if nothing but the queue is in the way.
    pub(crate) holder: Option<Holder>,
}

/// One resource as one node has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inspection {
    /// `None`: free.
    pub(crate) held: Option<HeldBy>,
    /// The fencing counter, 0 where there is none.
    pub(crate) counter: u64,
    /// Which incarnation of which server this is; `None` if the client may not know.
    pub(crate) incarnation: Option<Incarnation>,
    /// To which quorum the node belongs; `None` if it has no metadata.
    pub(crate) fingerprint: Option<Fingerprint>,
    /// Why it would not vote for this client now, if it would not.
    pub(crate) abstention: Option<Abstention>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldBy {
    /// `None` if the key has more than one field: a lock of some other kind.
    pub(crate) owner: Option<OwnerId>,
    pub(crate) holds: u32,
    /// `None`: a key without a ttl, which no lock of ours ever is.
    pub(crate) remaining: Option<Duration>,
}

/// An election as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Observation {
    /// Who holds the lock; `None` if nobody does, or a lock of some other kind is there.
    pub(crate) owner: Option<OwnerId>,
    /// For how long; `None` also for a key without a ttl.
    pub(crate) remaining: Option<Duration>,
    /// What a leader said there last. It may be one that does not hold the lock any more.
    pub(crate) said: Option<Proclamation>,
}

/// What an answer to a lock, a write-back or a renewal amounts to.
impl From<&Answer> for Vote {
    fn from(answer: &Answer) -> Self {
        match answer {
            Answer::Awaited(answer) => Self::from(&**answer),
            Answer::Granted { .. }
            | Answer::WrittenBack
            | Answer::Renewed { .. }
            | Answer::Unlocked { .. }
            | Answer::UnlockedBefore
            | Answer::Withdrawn
            | Answer::Proclaimed
            | Answer::Observed(_)
            | Answer::Registered(_)
            | Answer::Inspected(_) => Self::Granted,
            Answer::Held(Holder { owner, remaining, .. }) => {
                Self::Refused(Refusal::Held { owner: owner.clone(), remaining: *remaining })
            }
            Answer::Queued(Queued { holder: Some(Holder { owner, remaining, .. }), .. }) => {
                Self::Refused(Refusal::Held { owner: owner.clone(), remaining: *remaining })
            }
            Answer::Queued(_) => Self::Refused(Refusal::Queued),
            Answer::Gone => Self::Refused(Refusal::Unlocked),
            Answer::NotWrittenBack { .. } | Answer::NotLeader => Self::Refused(Refusal::Superseded),
            Answer::WrongQuorum { fingerprint } | Answer::AlreadyRegistered { fingerprint } => {
                Self::Refused(Refusal::OtherQuorum { theirs: fingerprint.clone() })
            }
            Answer::Abstains(abstention) | Answer::RenewedInQuarantine(abstention) => {
                Self::Refused(Refusal::from(*abstention))
            }
            Answer::Error(NodeError::Handshake(refused)) => match &**refused {
                NodeError::OtherQuorum(theirs) => {
                    Self::Refused(Refusal::OtherQuorum { theirs: theirs.clone() })
                }
                _ => Self::Unknown(NodeError::Handshake(Arc::clone(refused))),
            },
            Answer::Error(error) => Self::Unknown(error.clone()),
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
