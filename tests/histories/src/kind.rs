//! The kinds of locks that have histories.

use std::fmt;

/// A kind of lock, with a workload of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// One holder at a time.
    Lock,
    /// One writer or several readers. Some writers become readers by a downgrade.
    RwLock,
    /// [`PERMITS`] permits, each with a list of its own.
    Semaphore,
    /// One leader at a time. The term of a leader is the token.
    Election,
    /// One holder at a time. Most holders pass the lock on by a ticket.
    Ticket,
}

/// The permits of the semaphore: fewer than the workers.
pub(crate) const PERMITS: u32 = 2;

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lock => "lock",
            Self::RwLock => "rw-lock",
            Self::Semaphore => "semaphore",
            Self::Election => "election",
            Self::Ticket => "ticket",
        })
    }
}

/// The rule by which the store accepts an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Store {
    /// The store checks no token: a memory that only the lock protects.
    Plain,
    /// The store records the token of each access, reads included, and refuses smaller tokens.
    Fenced,
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Fenced => "fenced",
        })
    }
}
