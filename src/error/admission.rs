//! Why a quorum was not made.

use std::{sync::Arc, time::Duration};

use crate::{
    error::{ConfigError, SameServer},
    values::{Fingerprint, Votes},
};

/// Why a quorum could not be made, or remade.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdmissionError {
    /// The settings cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Nodes did not do what they were asked; those that did stay as they are now.
    #[error("not every node that is needed took part: {votes}")]
    Incomplete {
        /// What each node said.
        votes: Votes,
    },
    /// One server answers at two addresses.
    #[error(transparent)]
    SameServer(#[from] SameServer),
    /// A node's clock and the client's are further apart than an hour: fencing tokens begin at the
    /// node's time.
    #[error(
        "the clocks of {node} and of this client are {by:?} apart: set them right, an hour is the \
         most that may be"
    )]
    ClockOff {
        /// The node's address.
        node: Arc<str>,
        /// How far they are apart.
        by: Duration,
    },
    /// The nodes are other ones, but the configurations are called the same: an old node that is
    /// not reached could not be told from a new one, and nothing would keep clients with the old
    /// list from it.
    #[error(
        "both configurations are ({fingerprint}), with other nodes: give the new one a name of its own \
         (`QuorumBuilder::name`), by which nodes and clients tell them apart"
    )]
    SameConfiguration {
        /// What nodes know of either.
        fingerprint: Fingerprint,
    },
    /// A node belongs to a quorum already, or may have voted in one, so it is none that is new.
    #[error(
        "{node} has node metadata already ({theirs}), so it is not new: `init` is for servers that \
         were in no quorum before; a node that replaces another votes by itself after a quarantine, \
         and `redquorum reconfigure` or `QuorumBuilder::reconfigure` moves a quorum to another configuration"
    )]
    NotNew {
        /// The node's address.
        node: Arc<str>,
        /// The configuration in its metadata.
        theirs: Fingerprint,
    },
}
