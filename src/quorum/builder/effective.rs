//! The settings and connectors of a builder, for the command-line program.

use std::time::Duration;

use super::{QuorumBuilder, runtime};
use crate::{
    error::ConfigError,
    node::{RestartGuard, redis::NodeConnector},
};

/// The settings of a client of a quorum, with defaults for the settings that were not given.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EffectiveSettings {
    /// The number of nodes that have to grant.
    pub votes_needed: usize,
    /// The ttl of locks without a ttl of their own.
    pub ttl: Duration,
    /// The longest ttl of any lock.
    pub max_ttl: Duration,
    /// The time that a lock without a ttl of its own waits for the answer of a node.
    pub node_timeout: Duration,
    /// The time to wait for nodes that do not answer yet.
    pub connect_timeout: Duration,
    /// The bound on the difference between the rates of two clocks, as a share of time.
    pub drift: f64,
    /// The guard against nodes that may have forgotten votes.
    pub restart_guard: RestartGuard,
}

/// Returns the effective settings of a builder, for programs that display or check the settings.
///
/// # Errors
///
/// [`ConfigError`] if the settings are invalid.
pub fn effective(quorum: &QuorumBuilder) -> Result<EffectiveSettings, ConfigError> {
    let settings = quorum.checked()?;
    Ok(EffectiveSettings {
        votes_needed: settings.electorate.needed(),
        ttl: settings.ttl,
        max_ttl: settings.max_ttl,
        node_timeout: settings.node_timeout_for(settings.ttl),
        connect_timeout: settings.connect_timeout,
        drift: quorum.settings.drift,
        restart_guard: quorum.settings.restart_guard,
    })
}

/// Returns the connectors of the nodes, in the order in which the nodes were named, for programs that inspect servers.
///
/// # Errors
///
/// [`ConfigError`] if the nodes are invalid.
pub fn connectors(quorum: &QuorumBuilder) -> Result<Vec<NodeConnector>, ConfigError> {
    let (routes, runtime) = (quorum.routes()?, runtime()?);
    Ok(routes.into_iter().map(|route| NodeConnector::new(route, runtime.clone())).collect())
}
