//! The settings of a quorum from a file and the environment. Services and the command `redquorum` read the
//! same settings.
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
//! The environment overrides the file, and the file overrides the defaults. The arguments of the command override the
//! environment. A later call of a setter of the [`QuorumBuilder`] overrides all of these sources, except that `nodes`
//! and `ca_certificates` add to the earlier values.
//!
//! | file | environment | |
//! |---|---|---|
//! | | `REDQUORUM_CONFIG` | the path of the file |
//! | `nodes` | `REDQUORUM_NODES` | urls: a list, or a text as [`nodes_from_env`](QuorumBuilder::nodes_from_env) reads it |
//! | `name` | `REDQUORUM_NAME` | [the quorum's name](QuorumBuilder::name) |
//! | `label` | `REDQUORUM_LABEL` | [the label of this client](QuorumBuilder::label) |
//! | `votes_needed` | `REDQUORUM_VOTES_NEEDED` | [the number of nodes that must grant](QuorumBuilder::votes_needed) |
//! | `ttl`, `max_ttl`, `attempt_timeout`, `node_timeout`, `connect_timeout`, `counter_ttl` | `REDQUORUM_TTL` and so on | durations such as `30s`, `500ms` or `1m 30s`: whole numbers with a unit |
//! | `drift` | `REDQUORUM_DRIFT` | [a share of time](QuorumBuilder::drift) |
//! | `restart_guard` | `REDQUORUM_RESTART_GUARD` | `per-connection`, `per-vote` or `off`: [`RestartGuard`](crate::RestartGuard) |
//! | `ca`, `certificate`, `key` in `[tls]` | `REDQUORUM_CA`, `REDQUORUM_CERT`, `REDQUORUM_KEY` | PEM files; a path in the file is relative to the directory of the file |
//!
//! Passwords and certificates may change: each dial reads the urls of the file again, for user and password, and the
//! PEM files. If a file is missing or cannot be used at that moment, the last good content stays, and a warning is
//! logged. All other settings, the addresses of the nodes and the environment are read once.
//!
//! Unknown keys of a file are refused, so that mistyped keys are found. An empty variable counts as unset.

use std::path::Path;

use self::arguments::{Arguments, load_from};
#[cfg(feature = "__command")]
pub(crate) use self::duration::parse_duration;
use crate::{error::Error, quorum::QuorumBuilder};

#[cfg_attr(not(feature = "__command"), expect(unreachable_pub, reason = "public for the command alone"))]
pub(crate) mod arguments;
mod duration;
mod files;
mod raw_settings;
#[cfg(test)]
mod tests;

/// The variable with the path of the settings file.
const CONFIG_VARIABLE: &str = "REDQUORUM_CONFIG";

/// Returns the settings of `file`, or else of the file that `REDQUORUM_CONFIG` names, and of `REDQUORUM_...`
/// variables. A variable overrides the file.
///
/// # Errors
///
/// [`Error::Config`] if a file cannot be read, if a value in the file or in the environment cannot be parsed,
/// or if no node is named. [`connect`](QuorumBuilder::connect) checks whether the settings can work together.
pub fn load(file: Option<&Path>) -> Result<QuorumBuilder, Error> {
    let arguments = file.map_or_else(Arguments::new, |file| Arguments::new().file(file));
    Ok(load_from(&arguments, |name| std::env::var_os(name))?)
}
