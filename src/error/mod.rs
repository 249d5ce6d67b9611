//! The errors of all calls. A program decides by the variant of [`Error`]; the other types give the details.
//!
//! A lock that another client holds is no error: the `try_` calls return `Ok(None)`.

mod admin;
mod config;
mod lease_lost;
mod no_quorum;

#[cfg(any(feature = "settings", feature = "tls"))]
pub(crate) use self::config::file_error;
pub use self::{
    admin::AdminError,
    config::ConfigError,
    lease_lost::{LeaseLost, LossReason},
    no_quorum::NoQuorum,
};
pub(crate) use self::{
    config::{
        duration_out_of_range, group_of_none, group_too_large, node_twice, out_of_range, refused_text,
        resource_twice,
    },
    no_quorum::Goal,
};
pub use crate::values::{
    ClosedReason, InvalidResource, InvalidTicket, InvalidToken, NodeError, NodeReplies, NodeReply, Refusal,
    StaleToken,
};

/// The reason why a call failed.
///
/// | variant | the caller |
/// |---|---|
/// | `NoQuorum` | tries later (HTTP 503); [`retry_after`](NoQuorum::retry_after) may give the time |
/// | `LeaseLost` | stops, because another client may hold the resource |
/// | `Config` | reports the error to an operator or a programmer; a retry does not help |
/// | `Closed` | ends, or connects a new client, because this client no longer works |
///
/// A lock call that returns an error leaves no lease of this call behind. Nodes that answer delete the keys of the call
/// at once, and keys on the remaining nodes expire after at most one ttl. The error ends no lease of another call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Too few nodes granted or answered.
    #[error(transparent)]
    NoQuorum(#[from] NoQuorum),
    /// The lease that the call needs has ended.
    #[error(transparent)]
    LeaseLost(#[from] LeaseLost),
    /// A setting, a name, a server or the call is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The client no longer works, for this reason.
    #[error("{0}")]
    Closed(ClosedReason),
}
