//! Every way to reach a node, against real servers: one binary, so that what they need is linked
//! once. The servers run as processes, since they share files with the tests.

#![allow(clippy::disallowed_methods, reason = "real servers need real time, and ports that nobody has")]

mod connections {
    mod floods;
    mod permissions;
    mod places;
    mod refusals;
    mod sentinel;
    mod tls;

    use std::time::Duration;

    use redquorum::{LockGuard, Quorum, QuorumBuilder, Vote, error::NodeError};

    /// Far longer than anything here takes on a machine under load.
    const SOON: Duration = Duration::from_secs(15);

    /// New quorums, made as the first thing.
    async fn made(builder: QuorumBuilder) -> Quorum {
        builder.clone().init().await.unwrap();
        builder.connect().await.unwrap()
    }

    /// That a quorum does what it is for.
    async fn works(quorum: &Quorum) -> LockGuard {
        let guard = quorum.red_lock("r").lock().await.unwrap();
        assert!(quorum.red_lock("r").try_lock().await.unwrap().is_none());
        guard
    }

    /// Why a handshake came to nothing.
    fn refusal(vote: &Vote) -> Option<&NodeError> {
        match vote {
            Vote::Unknown(NodeError::Handshake(error)) => Some(error),
            _ => None,
        }
    }
}
