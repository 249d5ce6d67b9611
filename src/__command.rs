//! The interface for the command `redquorum` of the same version, by
//! `redquorum = { version = "=0.1.0", features = ["__command"] }`. The interface is hidden in the documentation, and
//! exempt from semver.

use std::collections::BTreeMap;

use crate::{
    acquire::any_of,
    error::{ConfigError, Error},
    latch::Latch,
    node::names::{self, HashTag},
    quorum::Quorum,
    values::{LeaseId, NodeError, Resource},
};
pub use crate::{
    node::redis::NodeConnector,
    quorum::{
        AwaitedLock, EffectiveSettings, WaitGraph, WaitStep, connectors, effective, list_answering,
        reconfigure_unless_done, unconnected,
    },
    settings::arguments::{
        Arguments, load_from, overridden_variables, shared_variables_beside_file, source_of,
    },
};

/// Returns the commands that the script of a node calls, in lower case and in order.
#[must_use]
pub fn script_commands() -> std::collections::BTreeSet<String> {
    crate::node::redis::script_commands()
}

/// Returns the keys that a node may have for a resource, semaphore, latch or election of this name, except the key of
/// the lock: one key of each kind, and the keys of the node itself. `hash_tag` is the hash tag of the node with its
/// braces, if the node is in a Redis Cluster.
///
/// # Errors
///
/// [`Error::Config`] if the name is invalid for a resource.
pub fn keys_of(name: impl AsRef<[u8]>, hash_tag: Option<&str>) -> Result<Vec<Vec<u8>>, Error> {
    let resource = Resource::new(name).map_err(ConfigError::from)?;
    Ok(names::keys_of(&resource, tag(hash_tag).as_ref()))
}

/// Returns the channels of notices for a resource, latch or election of this name: one channel of each kind.
/// `hash_tag` is that of [`keys_of`].
///
/// # Errors
///
/// [`Error::Config`] if the name is invalid for a resource.
pub fn channels_of(name: impl AsRef<[u8]>, hash_tag: Option<&str>) -> Result<Vec<String>, Error> {
    let resource = Resource::new(name).map_err(ConfigError::from)?;
    let channels = names::channels_of(&resource, tag(hash_tag).as_ref());
    Ok(channels.iter().map(|channel| String::from_utf8_lossy(channel).into_owned()).collect())
}

fn tag(hash_tag: Option<&str>) -> Option<HashTag> {
    hash_tag.map(|tag| HashTag::new(tag.trim_matches(['{', '}'])))
}

/// Returns the nodes that refused to publish a notice on the present connections of this client, with the last error of
/// each. After a call, the errors of its notices are included.
#[must_use]
pub fn unpublished_notices(quorum: &Quorum) -> BTreeMap<String, NodeError> {
    let nodes = quorum.client().context.nodes.iter();
    nodes.filter_map(|node| Some((node.address().to_string(), node.unpublished()?))).collect()
}

/// Returns the label of the client in a lease id, or in the id of an arrival that the client has not chosen.
#[must_use]
pub fn label_of(id: &[u8]) -> Option<String> {
    LeaseId::from_wire(id).label().map(str::to_owned)
}

/// Returns the ids of all arrivals at a latch; `None` if the latch is open. An inspection has the ids only if no node
/// has more than 32.
///
/// # Errors
///
/// As [`Latch::arrivals`].
pub async fn arrival_ids(latch: &Latch) -> Result<Option<Vec<Vec<u8>>>, Error> {
    let ids = latch.arrival_ids().await?;
    Ok(ids.map(|ids| ids.iter().map(|id| id.to_vec()).collect()))
}

/// Returns the part of a waiter's lease id that all lease ids of the client share, or an id of another form.
#[must_use]
pub fn client_of(waiter: &[u8]) -> Vec<u8> {
    let waiter = names::without_reader_suffix(&LeaseId::from_wire(waiter));
    waiter.client().unwrap_or(waiter.as_bytes()).to_vec()
}

/// The number of wait queues that a wait for a permit joins.
pub const QUEUES_JOINED: usize = any_of::QUEUES_JOINED;

/// The largest number of slots of which a wait for a permit joins all queues.
pub const MAX_CANDIDATES_JOINED: usize = any_of::MAX_CANDIDATES_JOINED;

/// Whether the lease id of a waiter is that of a reader.
#[must_use]
pub fn is_reader(waiter: &LeaseId) -> bool {
    names::is_reader(waiter)
}

/// Returns the node urls in a text, such as the value of `REDQUORUM_NODES`. Blanks or commas separate the urls. If no
/// `scheme://` follows a comma, the comma is part of a url, because a url may name several Sentinels.
#[must_use]
pub fn parse_node_urls(text: &str) -> Vec<String> {
    crate::node::redis::node_urls(text)
}

/// Returns a refused value, key or argument if the text has the form of a setting, and stars otherwise. A text in the
/// wrong place may be a url with a password.
#[must_use]
pub fn shown_value(text: &str) -> &str {
    crate::values::shown_value(text)
}

/// Returns a refused name, or stars if the text may be a url with a password.
#[must_use]
pub fn shown_name(text: &str) -> &str {
    crate::values::shown_name(text)
}

/// Returns a refused path, or stars if the text may be a url or a connection string with a password.
#[must_use]
pub fn shown_path(text: &str) -> &str {
    crate::values::shown_path(text)
}

/// Returns a name or value of any bytes in the form that errors show: printable UTF-8 unchanged, other bytes,
/// characters that do not print and backslashes escaped, and the user and password of a url hidden.
#[must_use]
pub fn readable(bytes: &[u8]) -> String {
    crate::values::readable(bytes)
}

/// Parses a duration such as `30s`, `500ms` or `1m 30s`: whole numbers, each with its unit (`ns`, `us`, `ms`,
/// `s`, `m`, `h` or `d`). Only `0` needs no unit.
///
/// # Errors
///
/// A text with the mistake and the expected form.
pub fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    crate::settings::parse_duration(text)
}
