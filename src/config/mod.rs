//! Settings, their defaults, and every check of them.

mod lock;
mod quorum;

pub use self::lock::LockOptions;
pub(crate) use self::{
    lock::CheckedLock,
    quorum::{CheckedQuorum, QuorumSettings},
};
