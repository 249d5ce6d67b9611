//! What settings come to.

use std::time::Duration;

use super::{QuorumBuilder, runtime};
use crate::{
    error::ConfigError,
    node::{RestartGuard, redis::NodeConnector},
};

/// Settings of a quorum as they are used, with the defaults of those that were not given.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EffectiveSettings {
    /// How many nodes have to grant.
    pub votes_needed: usize,
    /// The ttl of locks that set none.
    pub ttl: Duration,
    /// The longest ttl that any lock may have.
    pub max_ttl: Duration,
    /// How long a node's answer is waited for by locks that set no ttl.
    pub node_timeout: Duration,
    /// How long nodes that do not answer yet are waited for.
    pub connect_timeout: Duration,
    /// The share of a ttl that clocks may disagree by.
    pub drift: f64,
    /// When a node is asked whether it may have forgotten votes.
    pub restart_guard: RestartGuard,
}

/// Returns what these settings amount to, for programs that show or judge them.
///
/// # Errors
///
/// [`ConfigError`] if the settings cannot work.
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

/// Returns what makes plain connections to the nodes, in the order in which these were named: for programs that look
/// at servers.
///
/// # Errors
///
/// [`ConfigError`] if the nodes cannot be nodes of a quorum.
pub fn connectors(quorum: &QuorumBuilder) -> Result<Vec<NodeConnector>, ConfigError> {
    let (routes, runtime) = (quorum.routes()?, runtime()?);
    Ok(routes.into_iter().map(|route| NodeConnector::new(route, runtime.clone())).collect())
}
