//! What can happen to leases and stores.

use std::{fmt, time::Duration};

use crate::values::{FencingToken, Resource};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// When, in global time: since the beginning.
    pub at: Duration,
    /// Which process it happened to.
    pub process: usize,
    /// What.
    pub event: Event,
}

/// One attempt to lock, and the lease that came of it, among all of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId(u64);

impl AttemptId {
    /// The attempt of this number, which no other attempt of the history has.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
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

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Event {
    /// An attempt to lock these resources, all or none, began.
    Began {
        /// Which attempt.
        attempt: AttemptId,
        /// What it is to lock: sorted, without repetition.
        resources: Vec<Resource>,
        /// Which of these it only reads, and shares with other readers: sorted, too.
        shared: Vec<Resource>,
    },
    /// The attempt won: from now on there is a lease.
    Granted {
        /// Which attempt.
        attempt: AttemptId,
        /// The lease's token.
        token: FencingToken,
    },
    /// The attempt was lost, or given up.
    Lost {
        /// Which attempt.
        attempt: AttemptId,
    },
    /// The lease ended, because its validity was over by its process's clock, or because it was
    /// unlocked.
    Ended {
        /// Which attempt.
        attempt: AttemptId,
        /// Whether it was unlocked, and not over by itself.
        is_unlocked: bool,
    },
    /// The holder was told that the lease is lost, or found it so. The first time counts.
    Announced {
        /// Which attempt.
        attempt: AttemptId,
    },
    /// The holder asked whether the lease is valid.
    Looked {
        /// Which attempt.
        attempt: AttemptId,
        /// The answer.
        is_valid: bool,
    },
    /// The holder entered its lease again.
    Reentered {
        /// Which attempt.
        attempt: AttemptId,
        /// The token that it was shown.
        token: FencingToken,
    },
    /// The lease is what the holder of another has downgraded that to: it reads on what it wrote.
    Downgraded {
        /// Which attempt.
        attempt: AttemptId,
        /// The attempt of the lease that it had before.
        from: AttemptId,
    },
    /// The holder began to verify its lease. Of one lease, one verification at a time.
    Verifying {
        /// Which attempt.
        attempt: AttemptId,
    },
    /// The verification said that no later lease had been granted when it began.
    Proven {
        /// Which attempt.
        attempt: AttemptId,
    },
    /// A fenced register was read.
    Read {
        /// Which register.
        register: Resource,
        /// Under which token; `None` for a read that carries none, which no register can refuse.
        token: Option<FencingToken>,
        /// What it gave; `None` if it refused the token.
        value: Option<u64>,
    },
    /// A fenced register was written.
    Written {
        /// Which register.
        register: Resource,
        /// Under which token; `None` for a write that carries none, which no register can refuse.
        token: Option<FencingToken>,
        /// What was to be written.
        value: u64,
        /// Whether it was.
        is_accepted: bool,
    },
    /// After everything had calmed down, a node still had a key of an attempt that was over.
    Left {
        /// Whose key.
        attempt: AttemptId,
        /// On which node.
        node: usize,
    },
    /// The process still waited for something when the time was over, although all had been calm for
    /// long enough.
    Stalled,
}

impl Event {
    /// Which attempt it happened to, if it belongs to one.
    pub(crate) const fn attempt(&self) -> Option<AttemptId> {
        match *self {
            Self::Began { attempt, .. }
            | Self::Granted { attempt, .. }
            | Self::Lost { attempt }
            | Self::Ended { attempt, .. }
            | Self::Announced { attempt }
            | Self::Looked { attempt, .. }
            | Self::Reentered { attempt, .. }
            | Self::Downgraded { attempt, .. }
            | Self::Verifying { attempt }
            | Self::Proven { attempt }
            | Self::Left { attempt, .. } => Some(attempt),
            Self::Read { .. } | Self::Written { .. } | Self::Stalled => None,
        }
    }
}
