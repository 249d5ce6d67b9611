//! Settings, their defaults, and every check of them.

mod lock;
mod quorum;
#[cfg(feature = "tls")]
mod tls;

pub use self::lock::LockOptions;
#[cfg(feature = "tls")]
pub use self::tls::Tls;
#[cfg(feature = "tls")]
pub(crate) use self::tls::in_words;
pub(crate) use self::{
    lock::CheckedLock,
    quorum::{CheckedQuorum, QuorumSettings},
};
