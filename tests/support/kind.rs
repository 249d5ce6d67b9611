//! The kinds of servers of a cluster: processes, containers, or processes that are Redis Clusters.

use super::{docker, image, server_process::program};

/// How the servers of a cluster run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Child processes of the test.
    Processes,
    /// Docker containers that share the network of this machine.
    Containers,
    /// Child processes of the test, each of which is a Redis Cluster of one server. Their URLs make each cluster a node.
    RedisClusters,
}

impl Kind {
    /// Returns the kind that `REDQUORUM_TEST_SERVERS` names. Without the variable: containers if this build
    /// includes them and Docker can run them, processes otherwise.
    ///
    /// # Panics
    ///
    /// If the variable has another value, or if neither kind is available. The message names the remedy.
    pub fn choose() -> Self {
        match std::env::var("REDQUORUM_TEST_SERVERS").as_deref() {
            Ok("processes") => Self::Processes,
            Ok("containers") => Self::Containers,
            Ok("redis-clusters") => Self::RedisClusters,
            Ok(other) => panic!(
                "REDQUORUM_TEST_SERVERS is {other:?}, not `processes`, `containers` or `redis-clusters`"
            ),
            Err(_) => Self::available(),
        }
    }

    fn available() -> Self {
        let is_built = if cfg!(redquorum_containers) {
            Ok(())
        } else {
            Err("this build is without containers".to_owned())
        };
        let engine = is_built.and_then(|()| docker::engine_answers());
        let no_containers = match engine.and_then(|()| image::ensure().map(drop)) {
            Ok(()) => return Self::Containers,
            Err(reason) => reason,
        };
        let how = program::HOW_TO_GET_ONE;
        assert!(
            program::find_server().is_some(),
            "no Redis server to test against: {how}, or start Docker beside it.\nDocker was asked \
             first: {no_containers}"
        );
        Self::Processes
    }
}
