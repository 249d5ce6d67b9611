//! Settings of a quorum from a file and the environment, alike for every program: services and the
//! command `redquorum` read the same.
//!
//! [`load`] is all that a service needs:
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let quorum = redquorum::settings::load(None)?.connect().await?;
//! # Ok(())
//! # }
//! ```
//!
//! What an argument says goes before the environment, that before the file, and that before the
//! default. What is set by calls of the [`QuorumBuilder`] afterwards goes before all of them.
//!
//! | file | environment | |
//! |---|---|---|
//! | | `REDQUORUM_CONFIG` | the path of the file |
//! | `nodes` | `REDQUORUM_NODES` | urls: a list, or as [`node_urls`](crate::admin::node_urls) reads them |
//! | `name` | `REDQUORUM_NAME` | [the quorum's name](QuorumBuilder::name) |
//! | `label` | `REDQUORUM_LABEL` | [what this client calls itself](QuorumBuilder::label) |
//! | `votes_needed` | `REDQUORUM_VOTES_NEEDED` | [how many nodes have to grant](QuorumBuilder::votes_needed) |
//! | `ttl`, `max_ttl`, `attempt_timeout`, `node_timeout`, `connect_timeout`, `counter_ttl` | `REDQUORUM_TTL` and so on | durations such as `30s`, as [`parse_duration`] reads them |
//! | `drift` | `REDQUORUM_DRIFT` | [a share of time](QuorumBuilder::drift) |
//! | `restart_guard` | `REDQUORUM_RESTART_GUARD` | `per-connection`, `per-vote` or `off`: [`RestartGuard`](crate::RestartGuard) |
//! | `ca`, `certificate`, `key` in `[tls]` | `REDQUORUM_CA`, `REDQUORUM_CERT`, `REDQUORUM_KEY` | PEM files; in the file, relative to it |
//!
//! Unknown keys of a file are refused, so that a slip is found. A variable that is set to nothing says
//! nothing.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

pub use self::duration::parse_duration;
use self::{
    files::Files,
    given::{Environment, Given, Nodes},
};
use crate::{error::SettingsError, quorum::QuorumBuilder};

mod duration;
mod files;
mod given;
#[cfg(test)]
mod tests;

/// The variable that names the file.
const CONFIG_VARIABLE: &str = "REDQUORUM_CONFIG";

/// What a program was told by its own arguments, before which neither the environment nor a file
/// goes. Nothing by default.
#[derive(Clone, Debug, Default)]
#[must_use = "it is for `load_from`"]
pub struct Arguments {
    file: Option<PathBuf>,
    nodes: Vec<String>,
    files: Files,
}

impl Arguments {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The file, in place of the one that `REDQUORUM_CONFIG` names.
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }

    /// The urls of all nodes; if there are none, this says nothing.
    pub fn nodes<S: Into<String>>(mut self, urls: impl IntoIterator<Item = S>) -> Self {
        self.nodes = urls.into_iter().map(Into::into).collect();
        self
    }

    /// A PEM file with the CAs to trust.
    pub fn ca(mut self, path: impl Into<PathBuf>) -> Self {
        self.files.ca = Some(path.into());
        self
    }

    /// A PEM file with the client's certificate and its chain.
    pub fn certificate(mut self, path: impl Into<PathBuf>) -> Self {
        self.files.certificate = Some(path.into());
        self
    }

    /// A PEM file with the key of that certificate.
    pub fn key(mut self, path: impl Into<PathBuf>) -> Self {
        self.files.key = Some(path.into());
        self
    }
}

/// The quorum that the environment and a file describe: this file, or else the one that
/// `REDQUORUM_CONFIG` names, or none.
///
/// # Errors
///
/// A [`SettingsError`] if a file cannot be read, something in it or in the environment cannot be
/// understood, or nobody names a node. Whether the settings can work together is found out by
/// [`connect`](QuorumBuilder::connect).
pub fn load(file: Option<&Path>) -> Result<QuorumBuilder, SettingsError> {
    let arguments = Arguments { file: file.map(Path::to_owned), ..Arguments::new() };
    load_from(&arguments, |name| std::env::var_os(name))
}

/// The same for a program that has arguments of its own, or another environment than that of the
/// process: a map in a test, or `|_| None`.
///
/// # Errors
///
/// As [`load`].
pub fn load_from(
    arguments: &Arguments,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<QuorumBuilder, SettingsError> {
    let environment = Environment(&environment);
    let Arguments { file, nodes, files } = arguments.clone();
    let told = Given { nodes: Nodes(nodes), files, ..Given::default() };
    let in_environment = Given::of_environment(&environment)?;
    let path = file.or_else(|| environment.path(CONFIG_VARIABLE));
    let in_file = path.map(|path| Given::read(&path)).transpose()?.unwrap_or_default();
    told.or(in_environment).or(in_file).builder()
}
