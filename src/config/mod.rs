//! Settings, their defaults, and every check of them.

mod lock;
mod quorum;
mod retry_policy;

pub use self::retry_policy::RetryPolicy;
pub(crate) use self::{
    lock::{CheckedLock, LockSettings},
    quorum::{CheckedQuorum, QuorumSettings},
};
