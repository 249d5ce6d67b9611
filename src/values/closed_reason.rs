//! The reason why a client is closed.

/// The reason why a client no longer works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClosedReason {
    /// The client was [shut down](crate::Quorum::shutdown).
    #[error("the client was shut down")]
    ShutDown,
    /// The tokio runtime on which the client was connected has ended, and with it the client's tasks.
    #[error(
        "the tokio runtime of the client has ended: connect a new client, on a runtime that runs for as long as the \
         client is used"
    )]
    RuntimeEnded,
    /// The process was forked after the client was connected. The client belongs to the parent process.
    #[error("the process was forked: connect a new client in the child process")]
    Forked,
}
