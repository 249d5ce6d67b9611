//! Why a closure did not run to its end.

use crate::error::{LeaseLost, LockError};

/// Why a closure under a lock did not run to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The lock was not had, so the closure was not called.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The lease was lost while the closure ran: it was dropped at the await where it was.
    #[error("stopped: {0}")]
    LeaseLost(LeaseLost),
}
