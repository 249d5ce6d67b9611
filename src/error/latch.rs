//! Why a latch was not arrived at, or not waited for.

use std::time::Duration;

use crate::{
    error::{ConfigError, counted},
    values::{Resource, Votes},
};

/// Why a call to a [`Latch`](crate::Latch) came to nothing. An arrival may have been counted for all
/// that: who arrives again with the same id is not counted twice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LatchError {
    /// The latch's settings cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Others use the latch with another count.
    #[error(
        "{latch} opens at {}, and not at {given}: give the same count everywhere, or another name",
        counted(*recorded as usize, "arrival")
    )]
    OtherCount {
        /// Which latch.
        latch: Resource,
        /// The count of this call.
        given: u32,
        /// The count that nodes know.
        recorded: u32,
    },
    /// Fewer nodes than a quorum gave an answer.
    #[error("no quorum for {latch}: {} needed; {votes}", counted(*needed, "answer"))]
    NoQuorum {
        /// Which latch.
        latch: Resource,
        /// How many answers would have been enough.
        needed: usize,
        /// What each node said last.
        votes: Votes,
    },
    /// The time to wait was over.
    #[error("{latch} was not open within {waited:.1?}: {arrived} of {count} had arrived")]
    TimedOut {
        /// Which latch.
        latch: Resource,
        /// How many had arrived, as far as this client knew.
        arrived: u32,
        /// How many open it.
        count: u32,
        /// How long the call waited.
        waited: Duration,
    },
    /// The quorum was shut down.
    #[error("the quorum was shut down")]
    Closed,
}
