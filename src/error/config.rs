//! Errors of settings, names, servers and calls that no retry corrects.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use crate::values::{InvalidResource, NodeError, Printable, Resource, shown_name, shown_value};

/// An error of a setting, name, server or call, which an operator or a programmer has to correct. The text names the
/// fault, and the accepted values or a remedy.
///
/// `connect` checks the settings of a quorum, and the first call of a lock checks the settings of the lock. Programs
/// match the variants in tests and for messages. For a decision, [`Error::Config`](crate::Error::Config) is enough,
/// because a retry helps with none of the variants.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No node is named.
    #[error(
        "no nodes: name an odd number of nodes, such as 3 or 5: by `nodes` of the builder, by `nodes` in the settings \
         file that REDQUORUM_CONFIG or the program names, or by REDQUORUM_NODES"
    )]
    NoNodes,
    /// A setting is out of its range.
    #[error("{setting} is {}: expected {expected}", ShownValue(.given))]
    #[non_exhaustive]
    OutOfRange {
        /// The name of the setting or argument, as in the API and in settings files.
        setting: &'static str,
        /// The value. A text that does not have the form of a setting is not shown, because the text may hold a
        /// password: `given` has stars in its place.
        given: Arc<str>,
        /// The accepted values.
        expected: Arc<str>,
    },
    /// The url of a node is wrong, or is given twice. The error shows only the scheme and host of a wrong url.
    #[error("{}: {reason}", ShownValue(.url))]
    #[non_exhaustive]
    Url {
        /// The address of a node that is named twice. For a wrong url, its scheme and host, after the number of the
        /// node if there are several nodes, or after the name of the argument of a call.
        url: Arc<str>,
        /// The fault of the url, and what is expected.
        reason: Arc<str>,
    },
    /// A certificate, a key, the certificates of the system or the crypto provider cannot be used for TLS.
    #[error("tls: {reason}")]
    #[non_exhaustive]
    Tls {
        /// The fault, and what is expected.
        reason: Arc<str>,
    },
    /// The name of a resource, or another name, cannot be used.
    #[error(transparent)]
    Resource(#[from] InvalidResource),
    /// The group is invalid: it is empty, is too large, names a resource twice, contains two clients of one quorum, or
    /// contains locks of one client with different options or owners.
    #[error("group: {reason}")]
    #[non_exhaustive]
    Group {
        /// The fault of the group, and what is expected.
        reason: Arc<str>,
    },
    /// A node belongs to a quorum with other settings. All clients must agree on name, nodes, votes needed,
    /// `max_ttl`, attempt timeout, drift and the version of the protocol.
    #[error("{node} belongs to another quorum: {difference}; {}", remedy(.difference))]
    #[non_exhaustive]
    WrongQuorum {
        /// The node's address.
        node: Arc<str>,
        /// The settings that differ, as on the node and in the client.
        difference: Arc<str>,
    },
    /// A server cannot be a node: two urls lead to the server or to its cluster, the server's clock differs from the
    /// client's clock by more than an hour, the server does not fit its url (a Sentinel, a server of a cluster behind
    /// `redis://`, a standalone server behind `redis+cluster://`), has no command `INFO`, or its Redis user may not call
    /// `INFO`.
    #[error("{node}: {reason}")]
    #[non_exhaustive]
    Server {
        /// The node's address.
        node: Arc<str>,
        /// The fault of the server.
        reason: NodeError,
    },
    /// The clock of the client differs by more than an hour from the clocks of all nodes that answered, which are a
    /// quorum and at least two, in the same direction.
    #[error(
        "the clock of this client is {gap:?} {} the clocks of all nodes that answered: set the clock of this machine",
        order(.is_client_ahead)
    )]
    #[non_exhaustive]
    ClientClockOff {
        /// The smallest difference.
        gap: Duration,
        /// Whether the clock of the client is the later clock.
        is_client_ahead: bool,
    },
    /// Clients use one latch with different numbers of arrivals.
    #[error(
        "the latch {latch} opens at {recorded} arrivals, not at {given}: give all clients the same number, or give \
         this latch another name"
    )]
    #[non_exhaustive]
    CountMismatch {
        /// The latch.
        latch: Resource,
        /// The number of this call.
        given: u32,
        /// The number on the nodes.
        recorded: u32,
    },
    /// The owner of the call holds a read lease on the resource that the call would lock to write, so the owner would
    /// wait for itself.
    #[error(
        "the owner of this call holds a read lease on {resource}, so the call would wait for itself: unlock that lease \
         first"
    )]
    #[non_exhaustive]
    WouldDeadlock {
        /// The resource.
        resource: Resource,
    },
    /// A lease with several guards can neither be downgraded nor become a ticket, because the other guards still allow
    /// writes.
    #[error(
        "{resource} has {holds} guards: only the last guard of a lease can be downgraded or become a ticket"
    )]
    #[non_exhaustive]
    HeldMoreThanOnce {
        /// The resource.
        resource: Resource,
        /// The number of guards.
        holds: u32,
    },
    /// The call or an option does not fit the kind of lock.
    #[error("{reason}")]
    #[non_exhaustive]
    Unsupported {
        /// The fault of the call, and a remedy.
        reason: Arc<str>,
    },
    /// The client is read-only: the client can inspect and observe, but cannot change anything.
    #[error(
        "the client was built with `read_only`, so it can only inspect and observe: to lock, campaign, force-unlock, \
         or make a quorum, build a client without `read_only`"
    )]
    ReadOnly,
    /// There is no tokio runtime for the client's tasks, or no thread for the blocking API.
    #[error("no runtime: {reason}")]
    #[non_exhaustive]
    NoRuntime {
        /// The missing part, and a remedy.
        reason: Arc<str>,
    },
    /// A settings file or a PEM file cannot be used.
    #[error("{}: {}{reason}", path.display(), LinePrefix(*line))]
    #[non_exhaustive]
    File {
        /// The file. A path in the form of a url is not shown, because the url may hold a password: `path` has stars
        /// in its place.
        path: PathBuf,
        /// The number of the line, from 1; `None` if the reason concerns the whole file.
        line: Option<usize>,
        /// The fault, and what is expected. A text of the file that may be a password is not shown.
        reason: Arc<str>,
    },
    /// An environment variable cannot be used.
    #[error("the environment variable {name}={:?}: {reason}", Printable(.given).to_string())]
    #[non_exhaustive]
    Variable {
        /// The name of the variable.
        name: &'static str,
        /// The value. A value that may hold a password is not shown: `given` is empty for the urls of nodes, and has
        /// stars in place of a value that does not have the form of a setting.
        given: Arc<str>,
        /// The fault of the value, and what is expected.
        reason: Arc<str>,
    },
}

impl ConfigError {
    /// Adds the number of the node, from 1, to a [`Url`](Self::Url) error if there are several nodes. The error does
    /// not show the whole url, so the number identifies the node.
    pub(crate) fn of_node(self, number: usize, count: usize) -> Self {
        match self {
            Self::Url { url, reason } if count > 1 => {
                Self::Url { url: format!("node {number}, {url}").into(), reason }
            }
            other => other,
        }
    }

    /// Adds the name of the argument to a [`Url`](Self::Url) error, if the url is an argument of a call.
    pub(crate) fn of_argument(self, argument: &'static str) -> Self {
        match self {
            Self::Url { url, reason } => Self::Url { url: format!("{argument}, {url}").into(), reason },
            other => other,
        }
    }
}

/// The prefix `line 3: ` of a reason; empty without a line.
struct LinePrefix(Option<usize>);

impl fmt::Display for LinePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |line| write!(f, "line {line}: "))
    }
}

/// The display of a value that a caller gave. An empty value is shown as a pair of quotes.
struct ShownValue<'a>(&'a str);

impl fmt::Display for ShownValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            "" => f.write_str("\"\""),
            text => Printable(text).fmt(f),
        }
    }
}

/// Returns the remedy for a difference between the fingerprints of a node and a client.
///
/// If the protocols differ, node and client have different versions of this crate, and no change of settings helps. A
/// difference names the fields of the node before those of the client. If the node is closed for a move, its fields
/// have two protocols, the new one first. The quorum is about to have the new protocol.
fn remedy(difference: &str) -> &'static str {
    let mut protocols = difference
        .split([' ', ',', ')'])
        .filter_map(|field| field.strip_prefix("protocol=")?.parse::<u32>().ok());
    match (protocols.next(), protocols.next_back()) {
        (Some(node), Some(client)) if node < client => {
            "an older version of redquorum made this quorum: stop all clients, then move the nodes to this version \
             (docs/OPERATIONS.md, \"Moving to a new protocol\")"
        }
        (Some(node), Some(client)) if node > client => {
            "a newer version of redquorum made this quorum: update this client"
        }
        _ if difference.starts_with("it has (closed for ") && difference.contains(" replaced by ") => {
            "the node was replaced in its quorum by the server at that address: if this client belongs to that quorum, give \
             the client the new list of nodes; otherwise correct the address of the node"
        }
        _ if difference.starts_with("it has (closed for ") && difference.contains(" in place of ") => {
            "a replacement has closed this server, which votes after its end: run the same `redquorum replace` or \
             `admin::replace` again"
        }
        _ if difference.starts_with("it has (closed for ") => {
            "a move of the quorum has closed the node: if the move has ended, give this client the new settings; \
             otherwise run the same `redquorum reconfigure --from FILE --to FILE` or `admin::reconfigure` again, or \
             give the move up: add `--give-up`, or call `admin::give_up_reconfigure`"
        }
        _ => {
            "give all clients the same settings; `redquorum reconfigure` or `admin::reconfigure` moves a quorum to \
             other settings"
        }
    }
}

/// Returns the words for the clock of a client that is ahead, or behind.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "the error's `Display` passes references to fields")]
fn order(is_client_ahead: &bool) -> &'static str {
    if *is_client_ahead { "ahead of" } else { "behind" }
}

/// Returns the error of a setting, or an argument of a call, that is out of its range.
pub(crate) fn out_of_range(
    setting: &'static str,
    given: impl fmt::Display,
    expected: impl Into<Arc<str>>,
) -> ConfigError {
    ConfigError::OutOfRange {
        setting,
        given: shown_name(&given.to_string()).into(),
        expected: expected.into(),
    }
}

/// Returns the error of a setting, or an argument of a call, whose time is out of its range.
pub(crate) fn duration_out_of_range(
    setting: &'static str,
    given: Duration,
    expected: impl Into<Arc<str>>,
) -> ConfigError {
    // The unit of a zero is no information, and no user gives nanoseconds.
    let shown = if given.is_zero() { "0".to_owned() } else { format!("{given:?}") };
    out_of_range(setting, shown, expected)
}

/// Returns the error of a setting whose value is a refused text.
pub(crate) fn refused_text(setting: &'static str, given: &str, expected: impl Into<Arc<str>>) -> ConfigError {
    out_of_range(setting, shown_value(given), expected)
}

/// Returns the error of a file that cannot be used. `line` counts from 1.
#[cfg(any(feature = "settings", feature = "tls"))]
pub(crate) fn file_error(
    path: &std::path::Path,
    line: Option<usize>,
    reason: impl Into<Arc<str>>,
) -> ConfigError {
    use crate::values::shown_path;

    let text = path.to_string_lossy();
    let path = if shown_path(&text) == text { path.to_owned() } else { shown_path(&text).into() };
    ConfigError::File { path, line, reason: reason.into() }
}

pub(crate) fn group_of_none() -> ConfigError {
    ConfigError::Group { reason: "no resources: name at least one".into() }
}

pub(crate) fn group_too_large(given: usize, most: usize) -> ConfigError {
    ConfigError::Group { reason: format!("{given} resources: expected at most {most}").into() }
}

pub(crate) fn resource_twice(resource: &Resource) -> ConfigError {
    let shown = resource.to_string();
    let reason = format!("{} is named twice: name each resource once", shown_name(&shown));
    ConfigError::Group { reason: reason.into() }
}

/// Returns the error of two urls that lead to one server.
pub(crate) fn node_twice(address: &Arc<str>) -> ConfigError {
    let reason = "the node is named twice: each server has one vote, even if the urls differ in database or user, so \
                  name the server once";
    ConfigError::Url { url: Arc::clone(address), reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Fingerprint;

    /// Returns the error of a client with one fingerprint at a node with another fingerprint.
    fn refusal(node: &str, client: &str) -> String {
        let difference = Fingerprint::new(client).difference_from(&Fingerprint::new(node)).into();
        ConfigError::WrongQuorum { node: "redis://a:6379".into(), difference }.to_string()
    }

    #[test]
    fn a_refusal_for_a_different_protocol_names_the_version_to_change() {
        assert_eq!(
            refusal("name=a protocol=2", "name=a protocol=3"),
            "redis://a:6379 belongs to another quorum: it has protocol=2, this client protocol=3; an older \
             version of redquorum made this quorum: stop all clients, then move the nodes to this version \
             (docs/OPERATIONS.md, \"Moving to a new protocol\")"
        );
        assert!(refusal("name=a protocol=2", "name=a nodes=3 protocol=3").contains("an older version"));
        assert!(refusal("name=a protocol=10", "name=a protocol=9").ends_with("update this client"));
    }

    #[test]
    fn a_refusal_for_other_settings_names_the_reconfigure_command() {
        assert!(refusal("name=a protocol=3", "name=b protocol=3").contains("`redquorum reconfigure`"));
        assert!(refusal("name=a protocol=3", "name=b protocol=3").contains("the same settings"));
    }

    /// The node of an ended move stays closed for good if the node has left the quorum.
    #[test]
    fn a_refusal_by_a_closed_node_names_the_ways_to_end_the_move() {
        let closed = "closed for name=b protocol=3 from name=a protocol=3";
        for node in
            ["closed for name=a protocol=3", &format!("{closed} by 1"), &format!("{closed} for good by 1")]
        {
            for client in ["name=a protocol=3", "name=b protocol=3"] {
                let text = refusal(node, client);
                for words in ["the new settings", "the same `redquorum reconfigure", "`--give-up`"] {
                    assert!(text.contains(words), "{words} is not in {text}");
                }
                assert!(!text.contains("moves a quorum"), "{text}");
            }
        }
    }

    /// The fingerprint of a closed node has two protocols, and the protocol of the client comes after both.
    #[test]
    fn a_refusal_by_a_closed_node_compares_the_protocols_of_its_move_and_the_client() {
        let closed = "closed for name=a protocol=3 from name=a protocol=2 by 1";
        assert!(refusal(closed, "name=b protocol=3").contains("`--give-up`"));
        assert!(refusal(closed, "name=a protocol=2").contains("a newer version"));
        assert!(refusal(closed, "name=a protocol=4").contains("an older version"));
    }
}
