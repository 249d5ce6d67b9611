//! The events of leases and stores.

use std::{fmt, time::Duration};

use crate::values::{FencingToken, Resource};

/// An event with its time and process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The global time, since the start of the history.
    pub at: Duration,
    /// The process of the event.
    pub process: usize,
    /// The event.
    pub event: Event,
}

/// The identity of an attempt to lock, and of its lease, within a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId(u64);

impl AttemptId {
    /// Returns the identity with this number. Each attempt of a history needs a number of its own.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt {}", self.0)
    }
}

/// An event of an attempt, a lease or a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Event {
    /// The start of an attempt to lock these resources, all or none.
    Began {
        /// The attempt.
        attempt: AttemptId,
        /// The resources of the attempt: sorted, without repetition.
        resources: Vec<Resource>,
        /// The resources that the attempt shares with other readers: a sorted part of `resources`.
        shared: Vec<Resource>,
    },
    /// The grant of a lease to the attempt.
    Granted {
        /// The attempt.
        attempt: AttemptId,
        /// The token of the lease.
        token: FencingToken,
    },
    /// The failure or cancellation of the attempt.
    Lost {
        /// The attempt.
        attempt: AttemptId,
    },
    /// The end of the lease, by an unlock or by the clock of its process.
    Ended {
        /// The attempt.
        attempt: AttemptId,
        /// Whether the lease was unlocked before its validity ended.
        is_unlocked: bool,
    },
    /// The announcement of the loss of the lease to its holder. Only the first announcement of an attempt
    /// counts.
    Announced {
        /// The attempt.
        attempt: AttemptId,
    },
    /// A check of the lease's validity by its holder.
    Checked {
        /// The attempt.
        attempt: AttemptId,
        /// The result.
        is_valid: bool,
    },
    /// A re-entry of the holder into its lease.
    Reentered {
        /// The attempt.
        attempt: AttemptId,
        /// The token that the re-entry returned.
        token: FencingToken,
    },
    /// The downgrade of a write lease to this read lease.
    Downgraded {
        /// The attempt.
        attempt: AttemptId,
        /// The attempt of the write lease.
        from: AttemptId,
    },
    /// The redemption, by this lease, of the ticket that a lease has become.
    Redeemed {
        /// The attempt.
        attempt: AttemptId,
        /// The attempt of the lease that became the ticket.
        from: AttemptId,
    },
    /// The start of a verification. A lease has at most one verification at a time.
    Verifying {
        /// The attempt.
        attempt: AttemptId,
    },
    /// The proof of the lease by its verification. A verification proves that no lease with a larger
    /// token had been granted when the verification began.
    Proven {
        /// The attempt.
        attempt: AttemptId,
    },
    /// A read of a register.
    Read {
        /// The register.
        register: Resource,
        /// The token; `None` for an unfenced read, which no register refuses.
        token: Option<FencingToken>,
        /// The value; `None` if the register refused the token.
        value: Option<u64>,
    },
    /// A write of a register.
    Written {
        /// The register.
        register: Resource,
        /// The token; `None` for an unfenced write, which no register refuses.
        token: Option<FencingToken>,
        /// The value to write.
        value: u64,
        /// Whether the register accepted the write.
        is_accepted: bool,
    },
    /// A residual key: a node has a key of an attempt that is over, although the client should have
    /// deleted the key.
    Residue {
        /// The attempt that wrote the key.
        attempt: AttemptId,
        /// The node with the key.
        node: usize,
    },
    /// A process whose program had not ended at the end of the run.
    Stalled,
}

impl Event {
    /// Returns the attempt of the event; `None` for events of stores and for a stalled process.
    pub(crate) const fn attempt(&self) -> Option<AttemptId> {
        match *self {
            Self::Began { attempt, .. }
            | Self::Granted { attempt, .. }
            | Self::Lost { attempt }
            | Self::Ended { attempt, .. }
            | Self::Announced { attempt }
            | Self::Checked { attempt, .. }
            | Self::Reentered { attempt, .. }
            | Self::Downgraded { attempt, .. }
            | Self::Redeemed { attempt, .. }
            | Self::Verifying { attempt }
            | Self::Proven { attempt }
            | Self::Residue { attempt, .. } => Some(attempt),
            Self::Read { .. } | Self::Written { .. } | Self::Stalled => None,
        }
    }
}
