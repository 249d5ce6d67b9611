//! Why there is no quorum to begin with.

use std::sync::Arc;

use crate::{error::ConfigError, vote::Votes};

/// Why a quorum could not be connected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The settings cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Fewer nodes than a quorum answered.
    #[error("no quorum could be connected: {needed} nodes needed; {votes}")]
    NoQuorum {
        /// How many nodes would have been enough.
        needed: usize,
        /// What each node said.
        votes: Votes,
    },
    /// One server answers at two addresses and would have two votes.
    #[error(
        "{first} and {second} are the same server (run_id {run_id}): each server has one vote, name it once"
    )]
    SameServer {
        /// One of its addresses.
        first: Arc<str>,
        /// The other.
        second: Arc<str>,
        /// What gave it away.
        run_id: Arc<str>,
    },
}
