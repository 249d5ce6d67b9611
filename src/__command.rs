//! What the command `redquorum` of the same version uses: `redquorum = { version = "=0.1.0", features = ["__command"] }`.
//! Not documented and exempt from semver.

pub use crate::{
    node::redis::NodeConnector,
    quorum::{EffectiveSettings, connectors, effective},
    settings::arguments::{Arguments, load_from},
};

/// Returns the urls of nodes in one text, as in the environment variable `REDQUORUM_NODES`: separated by blanks, or by
/// commas. A comma that is not followed by a new `scheme://` is part of a url, which may name several Sentinels.
#[must_use]
pub fn parse_node_urls(text: &str) -> Vec<String> {
    crate::node::redis::node_urls(text)
}

/// Returns the duration that a text such as `30s`, `500ms` or `1m 30s` says: whole numbers, each with its unit (`ns`, `us`,
/// `ms`, `s`, `m`, `h` or `d`). A number alone has none, except for `0`.
///
/// # Errors
///
/// What is wrong with the text, and what would be right.
pub fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    crate::settings::parse_duration(text)
}
