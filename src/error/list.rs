//! Why it is not known what is locked.

use crate::{error::counted, values::Votes};

/// Why [`Quorum::list`](crate::Quorum::list) does not tell what is locked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// Fewer nodes than a quorum have told all that they know. Of a user that may not call `SCAN`, a
    /// node says [`ScanForbidden`](crate::error::NodeError::ScanForbidden).
    #[error("no quorum tells what is locked: {} needed; {votes}", counted(*needed, "answer"))]
    NoQuorum {
        /// How many answers would have been enough.
        needed: usize,
        /// What each node said last; `Granted` of one that told all.
        votes: Votes,
    },
}
