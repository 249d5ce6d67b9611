//! Settings, their defaults, and every check of them.

mod lock;
mod quorum;
mod retry_policy;
#[cfg(feature = "tls")]
mod tls;

pub use self::retry_policy::RetryPolicy;
#[cfg(feature = "tls")]
pub use self::tls::Tls;
#[cfg(feature = "tls")]
pub(crate) use self::tls::in_words;
pub(crate) use self::{
    lock::{CheckedLock, LockSettings},
    quorum::{CheckedQuorum, QuorumSettings},
};
