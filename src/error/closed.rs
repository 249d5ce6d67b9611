//! The reasons why a client works no longer.

/// The reason why a client works no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClosedReason {
    /// The client was [shut down](crate::Quorum::shutdown).
    #[error("the client was shut down")]
    ShutDown,
    /// The tokio runtime that the client was connected on has ended, and the client's tasks with it.
    #[error("the tokio runtime of the client has ended: connect a new client on a runtime that lives on")]
    RuntimeEnded,
    /// The process was forked after the client was connected: the client belongs to the parent process.
    #[error("the process was forked: connect a new client in the child process")]
    Forked,
}
