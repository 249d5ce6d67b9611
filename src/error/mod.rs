//! The errors of all calls. [`Error`] is what a program decides by; the other types are its evidence.
//!
//! That another client holds a lock is no error: the `try_` calls return `Ok(None)`.

mod admin;
mod closed;
mod config;
mod lease_lost;
mod no_quorum;

pub use self::{
    admin::AdminError,
    closed::ClosedReason,
    config::ConfigError,
    lease_lost::{LeaseLost, LossReason},
    no_quorum::NoQuorum,
};
pub(crate) use self::{
    config::{group_of_none, group_too_large, node_twice, out_of_range, resource_twice},
    no_quorum::Goal,
};
pub use crate::values::{
    InvalidResource, InvalidToken, NodeError, NodeReplies, NodeReply, Refusal, StaleToken,
};

/// The reason why a call failed.
///
/// | variant | the caller |
/// |---|---|
/// | `NoQuorum` | tries later (HTTP 503); [`retry_after`](NoQuorum::retry_after) may say when |
/// | `LeaseLost` | stops: another client may hold the resource |
/// | `Config` | is mended by people; repeating the call does not help |
/// | `Closed` | ends: this client works no longer |
///
/// After any error of a lock call, nothing of that call stays locked on nodes that answer, and nothing of it for longer
/// than one ttl on the others. Leases that other calls hold are not touched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Too few nodes granted or answered.
    #[error(transparent)]
    NoQuorum(#[from] NoQuorum),
    /// A lease ended before it was unlocked.
    #[error(transparent)]
    LeaseLost(#[from] LeaseLost),
    /// The settings, a name, or the way in which the call was made cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The client works no longer, for this reason.
    #[error("{0}")]
    Closed(ClosedReason),
}
