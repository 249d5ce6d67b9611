//! Why a leader's value was not proclaimed.

use crate::{
    error::{ConfigError, LeaseLost},
    values::{Resource, Votes},
};

/// Why a leader's new value is not certainly seen by those who observe it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProclaimError {
    /// The value is too long. The one before stands.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The leadership is over.
    #[error(transparent)]
    LeaseLost(#[from] LeaseLost),
    /// Fewer nodes than a quorum keep it so far. It is the leader's value all the same, and is told
    /// to the nodes again after a third of the ttl.
    #[error("no quorum keeps what the leader of {resource} proclaims; {votes}")]
    NoQuorum {
        /// Which election.
        resource: Resource,
        /// What each node said.
        votes: Votes,
    },
}
