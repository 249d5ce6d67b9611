//! What settings come to.

use std::time::Duration;

use super::QuorumBuilder;
use crate::{error::ConfigError, node::RestartGuard};

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

impl QuorumBuilder {
    /// What these settings come to, for programs that show or judge them.
    ///
    /// # Errors
    ///
    /// The [`ConfigError`] of settings that cannot work, as [`connect`](Self::connect) has it.
    pub fn effective(&self) -> Result<EffectiveSettings, ConfigError> {
        let settings = self.settings.check(self.nodes.len())?;
        Ok(EffectiveSettings {
            votes_needed: settings.electorate.needed(),
            ttl: settings.ttl,
            max_ttl: settings.max_ttl,
            node_timeout: settings.node_timeout_for(settings.ttl),
            connect_timeout: settings.connect_timeout,
            drift: self.settings.drift,
            restart_guard: self.settings.restart_guard,
        })
    }
}
