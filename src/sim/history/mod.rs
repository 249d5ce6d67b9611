//! What happened, in global time, and whether it may have happened.
//!
//! A [`History`] is fed with what clients asked for and what they were given, by a simulation or by anything else that
//! knows one clock for all of them. [`History::check`] then answers one question: was any promise broken?

use std::time::Duration;

use crate::{algorithm::fencing::FencingToken, resource::Resource};

/// What happened to the leases and the stores of a quorum, in the order in which it happened.
#[derive(Clone, Debug, Default)]
pub struct History {
    entries: Vec<Entry>,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// When, in global time: since the beginning.
    pub at: Duration,
    /// Which client it happened to.
    pub client: usize,
    /// What.
    pub event: Event,
}

/// One attempt to lock, and the lease that came of it, among all of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt(pub u64);

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// An attempt to lock these resources, all or none, began.
    Began {
        /// Which attempt.
        attempt: Attempt,
        /// What it is to lock: sorted, without repetition.
        resources: Vec<Resource>,
    },
    /// The attempt won: from now on there is a lease.
    Granted {
        /// Which attempt.
        attempt: Attempt,
        /// The lease's token.
        token: FencingToken,
    },
    /// The attempt was lost, or given up.
    Lost {
        /// Which attempt.
        attempt: Attempt,
    },
    /// The lease ended, because its validity was over by its client's clock, or because it was unlocked.
    Ended {
        /// Which attempt.
        attempt: Attempt,
        /// Whether it was unlocked, and not over by itself.
        is_unlocked: bool,
    },
    /// The holder was told that the lease is lost, or found it so.
    Announced {
        /// Which attempt.
        attempt: Attempt,
    },
    /// The holder asked whether the lease is valid.
    Looked {
        /// Which attempt.
        attempt: Attempt,
        /// The answer.
        is_valid: bool,
    },
    /// The holder entered its lease again.
    Reentered {
        /// Which attempt.
        attempt: Attempt,
        /// The token that it was shown.
        token: FencingToken,
    },
    /// The holder began to verify its lease.
    Verifying {
        /// Which attempt.
        attempt: Attempt,
    },
    /// The verification said that no later lease had been granted when it began.
    Proven {
        /// Which attempt.
        attempt: Attempt,
    },
    /// A fenced register was read under a token.
    Read {
        /// Which register.
        register: Resource,
        /// Under which token.
        token: FencingToken,
        /// What it gave; `None` if it refused the token.
        value: Option<u64>,
    },
    /// A fenced register was written under a token.
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
        attempt: Attempt,
        /// On which node.
        node: usize,
    },
    /// The client still waited for something when the time was over, although all had been calm for long enough.
    Stalled,
}

impl History {
    /// An empty history.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes what happened. `at` must not be before what was noted last.
    pub fn note(&mut self, at: Duration, client: usize, event: Event) {
        self.entries.push(Entry { at, client, event });
    }

    /// All of it, in order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}
