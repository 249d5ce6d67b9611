//! The interface for the command `redquorum` of the same version, by
//! `redquorum = { version = "=0.1.0", features = ["__command"] }`. The interface is not documented, and exempt from semver.

pub use crate::{
    node::redis::NodeConnector,
    quorum::{EffectiveSettings, connectors, effective},
    settings::arguments::{Arguments, load_from},
};

/// Returns the node urls of one text, as in the environment variable `REDQUORUM_NODES`. Blanks or commas separate the
/// urls. A comma without a `scheme://` after it is part of a url, because a url may name several Sentinels.
#[must_use]
pub fn parse_node_urls(text: &str) -> Vec<String> {
    crate::node::redis::node_urls(text)
}

/// Returns the duration of a text such as `30s`, `500ms` or `1m 30s`: whole numbers, each with its unit (`ns`, `us`, `ms`,
/// `s`, `m`, `h` or `d`). Only `0` needs no unit.
///
/// # Errors
///
/// Returns a text that names the mistake and the expected form.
pub fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    crate::settings::parse_duration(text)
}
