//! The reasons why a node gave no vote, from the client, the network or the server.

use std::{sync::Arc, time::Duration};

use crate::values::{ClosedReason, Fingerprint, Printable};

/// The error of a node that gave no vote. An error is never evidence that a resource is held, nor that it is
/// free.
///
/// The texts come from the server, a proxy or the operating system. `Display` escapes characters that do not print.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The request was not sent, because there is no connection: refused, or an unknown or unreachable host.
    #[error("unreachable: {}", Printable(.0))]
    Unreachable(Arc<str>),
    /// The request was not executed, for this reason, although the server may run: the server closed the new connection
    /// without a reason, had a full queue of new connections, had lost the script, or is another server than before, or
    /// this client could not open a socket.
    #[error("not executed: {}", Printable(.0))]
    NotExecuted(Arc<str>),
    /// The request was not sent, because a step of opening a connection had no answer in time. The text names the step.
    #[error("unreachable: {}", Printable(.0))]
    DialTimedOut(Arc<str>),
    /// The request was not sent, because the server was reached and then refused the connection, for this reason.
    #[error("the connection cannot be used: {0}")]
    Handshake(Arc<Self>),
    /// The request was sent, and no answer arrived within the node timeout.
    #[error("no answer within the node timeout")]
    TimedOut,
    /// The request was not sent, because the node has not answered earlier calls within the node timeout, or before the
    /// request expired.
    #[error("not asked: no answer to earlier calls in time")]
    Unresponsive,
    /// The request was not sent, because more than 4,096 operations of this client wait for the node.
    #[error("not asked: too many calls are waiting for the node")]
    Overloaded,
    /// The request was sent, and the connection broke before the answer arrived. The node may have executed
    /// the request.
    #[error("the connection broke before the answer came")]
    Disconnected,
    /// The request was not sent, because the client no longer works, for this reason.
    #[error("{0}")]
    Closed(ClosedReason),
    /// `WRONGTYPE`: the key of the resource, or of its counter, holds something that is no lock or counter.
    #[error(
        "the key holds something that is not a lock (WRONGTYPE): name another resource, or delete the key"
    )]
    WrongType,
    /// `NOAUTH` or `WRONGPASS`: the server requires credentials, or other credentials.
    #[error("authentication failed: {}", Printable(.0))]
    NoAuth(Arc<str>),
    /// The provider of credentials failed, and has not returned credentials before.
    #[error("no credentials: {}", Printable(.0))]
    NoCredentials(Arc<str>),
    /// `READONLY`: the node is a replica.
    #[error("the node is a read-only replica (READONLY): name its master")]
    ReadOnly,
    /// `OOM`: the node is out of memory. A node must not evict keys, so the node refuses writes.
    #[error("the node is out of memory (OOM): raise its maxmemory")]
    OutOfMemory,
    /// `LOADING`: the node is reading its data set from disk.
    #[error("the node is loading its data (LOADING)")]
    Loading,
    /// `NOPERM`: the ACL user of the client lacks a permission.
    #[error("permission missing: {}{}", Printable(.0), note_of_unnamed_permission(.0))]
    NoPermission(Arc<str>),
    /// The ACL user may not call `INFO`, by which the restart guard distinguishes the incarnations of a
    /// server.
    #[error(
        "the user may not call INFO, which the restart guard needs: allow it (`ACL SETUSER ... +info`), or set \
         RestartGuard::Off if the servers keep every vote"
    )]
    RunIdForbidden,
    /// The server has no command `INFO` under its own name, such as after `rename-command`. The restart guard
    /// distinguishes the incarnations of a server by `INFO`.
    #[error(
        "the server has no command INFO, which the restart guard needs: give the command its own name again \
         (`rename-command`), or set RestartGuard::Off if the servers keep every vote"
    )]
    InfoMissing,
    /// The ACL user may not call `SCAN`, by which a node lists its locks.
    #[error("the user may not call SCAN, with which locks are listed (`ACL SETUSER USER +scan`)")]
    ScanForbidden,
    /// The node belongs to a quorum with other settings, or was [replaced](Self::replaced_by). The text is the
    /// fingerprint of that quorum, or of the replaced node.
    #[error("{}", text_of_wrong_quorum(.0))]
    WrongQuorum(Arc<str>),
    /// The address leads to a server to which this client is connected by another address. Each server has
    /// one vote.
    #[error(
        "the same server as {} (run_id {}): each server has one vote, name it once",
        Printable(.other),
        Printable(run_id(.incarnation))
    )]
    #[non_exhaustive]
    SameServer {
        /// The other address.
        other: Arc<str>,
        /// The incarnation of the server, the same at both addresses.
        incarnation: Arc<str>,
    },
    /// The address leads to a Redis Cluster to which this client is connected by another address. Each cluster has one
    /// vote, because its servers share their configuration.
    #[error("the same Redis Cluster as {}: each cluster has one vote, name it once", Printable(.other))]
    #[non_exhaustive]
    SameCluster {
        /// The other address.
        other: Arc<str>,
    },
    /// The server is part of a Redis Cluster, and the url is that of a standalone master. Three small servers beside
    /// the cluster have all guarantees. A whole cluster can be one node, by `redis+cluster://`.
    #[error(
        "the server is part of a Redis Cluster: name a standalone master (`cluster-enabled no`), such as one of three \
         small servers beside the cluster, or make the cluster one node by redis+cluster://HOST:PORT (docs/CLUSTER.md)"
    )]
    ClusterMode,
    /// The server is no part of a Redis Cluster, and the url begins with `redis+cluster://`.
    #[error("the server is no part of a Redis Cluster (`cluster-enabled no`): write redis://HOST:PORT")]
    StandaloneMode,
    /// The server is a Sentinel, which keeps no keys.
    #[error(
        "the server is a Sentinel, which keeps no keys: redis+sentinel://HOST:PORT/NAME would lead \
         to the master that it watches under that name"
    )]
    SentinelMode,
    /// No Sentinel could name the master of the node's set. The text has the reply of each Sentinel.
    #[error("no Sentinel names a master: {}", Printable(.0))]
    NoMaster(Arc<str>),
    /// No server of the Redis Cluster is the master of the node's hash slot, or the master could not be found. The text
    /// has the reason.
    #[error(
        "no master of the hash slot: {} (start the servers of its shard; if these run, correct the servers in the url, or \
         the addresses that the servers of the cluster announce)",
        Printable(.0)
    )]
    NoSlotMaster(Arc<str>),
    /// `ASK` or `TRYAGAIN`: the node's hash slot moves to another server of the Redis Cluster. The node gives no vote
    /// until the slot has moved.
    #[error(
        "the hash slot moves to another server of the Redis Cluster: complete the migration \
         (`redis-cli --cluster fix HOST:PORT`)"
    )]
    SlotMigrating,
    /// `CLUSTERDOWN`: the Redis Cluster refuses all calls, usually until a replica is promoted.
    #[error(
        "the Redis Cluster is down (CLUSTERDOWN): {} (if this lasts, repair the shard without a master, and set \
         cluster-require-full-coverage no)",
        Printable(.0)
    )]
    ClusterDown(Arc<str>),
    /// TLS failed: usually, one side does not trust the certificate of the other side.
    #[error("TLS failed: {}", Printable(.0))]
    Tls(Arc<str>),
    /// The clocks of the node and of the client are more than an hour apart.
    #[error(
        "the clock of the node is {gap:?} {} the clock of this client: set the wrong clock, at most an hour apart",
        direction(.is_node_ahead)
    )]
    #[non_exhaustive]
    ClockOff {
        /// The difference.
        gap: Duration,
        /// Whether the clock of the node is the later clock.
        is_node_ahead: bool,
    },
    /// `MISCONF`: the node refuses writes because it cannot persist them.
    #[error("the node cannot persist writes (MISCONF): its log names the cause, such as a full disk")]
    CannotPersist,
    /// `BUSY`: the node is running a long script, of any of its users.
    #[error("the node is busy with a long script (BUSY)")]
    Busy,
    /// The fencing counter is used up or unreadable. The text is its value.
    #[error("the fencing counter cannot be used: {}", Printable(.0))]
    InvalidCounter(Arc<str>),
    /// The server sent or announced more than `most` bytes, or a reply of more than `most_values` values, without
    /// completing an expected answer or notice. The connection was closed, and the next connection is opened after a
    /// delay that grows to 1 s.
    #[error(
        "the server sent or announced more than {most} bytes or {most_values} values without completing an answer or \
         a notice that was asked for"
    )]
    #[non_exhaustive]
    ReadLimit {
        /// The largest number of bytes that was allowed.
        most: usize,
        /// The largest number of values that was allowed in one reply, such as the elements of a list.
        most_values: usize,
    },
    /// The node violated the protocol.
    #[error("protocol error: {}", Printable(.0))]
    Protocol(Arc<str>),
    /// Another error of the server, in a script that has ended.
    #[error("server error: {}{}", Printable(.0), note_of_missing_command(.0))]
    Server(Arc<str>),
    /// Another error in place of all answers to a call. The error may come from a proxy, which may have forwarded the
    /// call.
    #[error("the whole call failed: {}{}", Printable(.0), note_of_missing_command(.0))]
    CallFailed(Arc<str>),
}

/// Returns the text for a node with this fingerprint, which a client of another quorum meets.
fn text_of_wrong_quorum(fingerprint: &str) -> String {
    match text_of_replacement(fingerprint) {
        Some(replaced) => format!("the node was {replaced}"),
        None => format!("the node belongs to another quorum ({})", Printable(fingerprint)),
    }
}

/// Returns the words for a node with this fingerprint if the node was replaced. They name the quorum, which is another one
/// than that of the client if an address is wrong.
pub(super) fn text_of_replacement(fingerprint: &str) -> Option<String> {
    let (quorum, new) = Fingerprint::replaced_in(fingerprint)?;
    let (quorum, new) = (Printable(quorum), Printable(new));
    Some(format!(
        "replaced by {new} in the quorum ({quorum}): if this is the quorum of this client, restart the client with the new \
         list of nodes; otherwise correct the address of the node"
    ))
}

/// Returns the words for the clock of a node that is ahead, or behind.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "the error's `Display` passes references to fields")]
fn direction(is_node_ahead: &bool) -> &'static str {
    if *is_node_ahead { "ahead of" } else { "behind" }
}

/// Returns the part of an incarnation that `INFO` calls `run_id`.
fn run_id(incarnation: &str) -> &str {
    incarnation.split('/').next().unwrap_or_default()
}

/// Returns the note behind an error about a permission, if the server has not named the command. Redis up to 7.0 names
/// no command that a script may not call.
fn note_of_unnamed_permission(text: &str) -> &'static str {
    if text.contains("can't run this command") {
        ": `redquorum doctor` names the missing permission"
    } else {
        ""
    }
}

/// Returns the note behind an error about a command that the server does not have. In a script, servers name no command.
fn note_of_missing_command(text: &str) -> &'static str {
    let text = text.to_ascii_lowercase();
    if !(text.contains("unknown") && text.contains("command")) {
        return "";
    }
    if text.contains("called from") {
        return ": `redquorum doctor` names the command, which needs its own name again (`rename-command`)";
    }
    ": give the command its own name again (`rename-command`), or connect to the server without a proxy"
}

/// Returns the patterns of keys that the user of a client needs. `hash_tag` is that of a node in a Redis Cluster, with its
/// braces.
fn key_patterns(hash_tag: Option<&str>) -> String {
    match hash_tag {
        Some(tag) => format!(
            "which needs `~{tag}*`, `~redisson_lock_token:{tag}*` and `~redquorum:tombstone:{tag}*` on every server of the \
             cluster"
        ),
        None => "which needs `~redisson_lock_token:*`, `~redquorum:*` and the names of its locks, such as `~lock:*`"
            .to_owned(),
    }
}

/// Whether a text about a missing permission is about a key, and not about a command or a channel.
fn is_about_keys(text: &str) -> bool {
    ["access a key", "access one of the keys", "access at least one of the keys"]
        .iter()
        .any(|words| text.contains(words))
}

impl NodeError {
    /// Returns the address of the server that stands in for the node, as `HOST:PORT`, if
    /// [`admin::replace`](crate::admin::replace) has replaced the node. The client works with the other nodes, and takes
    /// the new list of nodes at its next start. If the address of the node is wrong, this is a server of another quorum,
    /// which the text of the error names.
    #[must_use]
    pub fn replaced_by(&self) -> Option<&str> {
        self.wrong_quorum().and_then(Fingerprint::replacement_in)
    }

    /// Returns the fingerprint of the node if the node belongs to a quorum with other settings, or was replaced.
    pub(crate) fn wrong_quorum(&self) -> Option<&str> {
        match self {
            Self::WrongQuorum(fingerprint) => Some(fingerprint),
            Self::Handshake(error) => error.wrong_quorum(),
            _ => None,
        }
    }

    /// Whether nothing has answered: no listener, an unknown or unreachable host, or a timeout. Any other error is from a
    /// server that runs, or from this client. A server that closes the connection has answered.
    pub(crate) fn is_silence(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::TimedOut | Self::DialTimedOut(_) | Self::Unresponsive)
    }

    /// Whether the node certainly never received the call, so that no rollback is needed there.
    pub(crate) fn is_unsent(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_)
                | Self::NotExecuted(_)
                | Self::DialTimedOut(_)
                | Self::Handshake(_)
                | Self::Unresponsive
                | Self::Overloaded
                | Self::Closed(_)
                | Self::NoCredentials(_)
        )
    }

    /// Whether the node answers each retry with the same error, unless the data or the settings of the server are
    /// changed. After any other error, a retry may succeed.
    pub(crate) fn is_for_good(&self) -> bool {
        matches!(
            self,
            Self::WrongType
                | Self::NoPermission(_)
                | Self::ScanForbidden
                | Self::NoAuth(_)
                | Self::InvalidCounter(_)
        )
    }

    /// Adds the ACL user to the text about a refused login or a missing permission, unless the server has named the
    /// user. If the user may not access a key, also adds the patterns of keys that the user needs, because servers do not
    /// name the key. `hash_tag` is that of a node in a Redis Cluster, with its braces.
    pub(crate) fn with_user(self, user: Option<&str>, hash_tag: Option<&str>) -> Self {
        let (text, patterns) = match &self {
            Self::NoAuth(text) => (text, None),
            Self::NoPermission(text) => (text, is_about_keys(text).then(|| key_patterns(hash_tag))),
            _ => return self,
        };
        let is_named = |user: &&str| !text.contains(&format!("User {user} "));
        let user = user.filter(is_named).map(|user| format!("user {user}"));
        let notes: Vec<String> = user.into_iter().chain(patterns).collect();
        if notes.is_empty() {
            return self;
        }
        let text = format!("{text} ({})", notes.join(", ")).into();
        if matches!(self, Self::NoAuth(_)) { Self::NoAuth(text) } else { Self::NoPermission(text) }
    }

    /// Adds the number of the database to the server's error about a database that it does not have.
    pub(crate) fn with_database(self, database: i64) -> Self {
        match self {
            Self::Server(text) if text.contains("DB index") => {
                let remedy = "raise `databases` of the server, or write a smaller number in the url";
                Self::Server(format!("{text} (database {database}: {remedy})").into())
            }
            error => error,
        }
    }

    /// Whether the server refuses calls of this client by this error, whatever the resource is.
    pub(crate) fn is_refused_call(&self) -> bool {
        matches!(
            self,
            Self::NoAuth(_)
                | Self::NoPermission(_)
                | Self::ReadOnly
                | Self::OutOfMemory
                | Self::CannotPersist
                | Self::Loading
                | Self::Busy
                | Self::NoSlotMaster(_)
                | Self::SlotMigrating
                | Self::ClusterDown(_)
                | Self::Server(_)
                | Self::CallFailed(_)
        )
    }

    /// Whether the server was reached, and refused the connection or the registration of this client.
    pub(crate) fn is_refused_connection(&self) -> bool {
        self.is_refused_call()
            || matches!(
                self,
                Self::RunIdForbidden
                    | Self::InfoMissing
                    | Self::WrongQuorum(_)
                    | Self::SameServer { .. }
                    | Self::SameCluster { .. }
                    | Self::ClusterMode
                    | Self::StandaloneMode
                    | Self::SentinelMode
                    | Self::ClockOff { .. }
                    | Self::Tls(_)
            )
    }

    /// Whether the node violated the protocol, after which no call shortens the delay before the next dial.
    pub(crate) fn is_violation(&self) -> bool {
        matches!(self, Self::ReadLimit { .. } | Self::Protocol(_))
    }

    /// Whether the error is an answer of the server or of a proxy, or follows from their answers.
    pub(crate) fn is_answer(&self) -> bool {
        !self.is_unsent() && !matches!(self, Self::TimedOut | Self::Disconnected)
    }

    /// Whether the call was sent and may still be executed: there was no answer, or the error may come from a proxy,
    /// which may have forwarded the call.
    pub(crate) fn may_land_yet(&self) -> bool {
        matches!(self, Self::TimedOut | Self::Disconnected | Self::CallFailed(_) | Self::Protocol(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The foreign texts represent the value of a key, the answer of a proxy, or a host that a Sentinel names.
    #[test]
    fn external_texts_are_shown_on_one_line_without_control_characters() {
        let foreign = || Arc::from("it's\n\u{1b}[2J\u{202e}");
        for error in [
            NodeError::Unreachable(foreign()),
            NodeError::NotExecuted(foreign()),
            NodeError::DialTimedOut(foreign()),
            NodeError::NoAuth(foreign()),
            NodeError::NoCredentials(foreign()),
            NodeError::NoPermission(foreign()),
            NodeError::SameServer { other: foreign(), incarnation: foreign() },
            NodeError::NoMaster(foreign()),
            NodeError::SameCluster { other: foreign() },
            NodeError::NoSlotMaster(foreign()),
            NodeError::ClusterDown(foreign()),
            NodeError::Tls(foreign()),
            NodeError::InvalidCounter(foreign()),
            NodeError::Protocol(foreign()),
            NodeError::Server(foreign()),
            NodeError::CallFailed(foreign()),
            NodeError::Handshake(Arc::new(NodeError::Server(foreign()))),
            NodeError::WrongQuorum(foreign()),
        ] {
            let text = error.to_string();
            assert!(text.contains("it's\\n\\u{1b}[2J\\u{202e}"), "{text:?}");
            assert!(!text.contains(|char: char| char == '\u{202e}' || char.is_control()), "{text:?}");
        }
    }

    /// A node that was silent may be stated to be gone.
    #[test]
    fn a_server_that_closes_the_connection_or_refuses_the_call_is_not_silent() {
        let why = || Arc::from("why");
        for silent in [
            NodeError::Unreachable(why()),
            NodeError::DialTimedOut(why()),
            NodeError::TimedOut,
            NodeError::Unresponsive,
        ] {
            assert!(silent.is_silence(), "{silent}");
        }
        for answered in [
            NodeError::NotExecuted(why()),
            NodeError::Disconnected,
            NodeError::Loading,
            NodeError::Handshake(Arc::new(NodeError::Tls(why()))),
            NodeError::NoMaster(why()),
            NodeError::Overloaded,
        ] {
            assert!(!answered.is_silence(), "{answered}");
        }
    }

    #[test]
    fn the_error_of_a_replaced_node_names_the_quorum_and_the_new_server() {
        let error = NodeError::WrongQuorum("closed for name=b nodes=3 replaced by d:1".into());
        assert_eq!(error.replaced_by(), Some("d:1"));
        let text = error.to_string();
        assert!(text.starts_with("the node was replaced by d:1 in the quorum (name=b nodes=3): "), "{text}");
    }

    #[test]
    fn the_error_of_a_wrong_clock_names_the_later_clock() {
        let shown =
            |is_node_ahead| NodeError::ClockOff { gap: Duration::from_secs(7200), is_node_ahead }.to_string();
        assert!(shown(true).starts_with("the clock of the node is 7200s ahead of the clock of this client"));
        assert!(shown(false).starts_with("the clock of the node is 7200s behind the clock of this client"));
    }

    /// The texts of Redis 6.2, 7.0 and 8.2.
    #[test]
    fn an_error_without_the_name_of_a_command_names_doctor() {
        let permission = |text: &str| NodeError::NoPermission(text.into()).to_string();
        let unnamed = "The user executing the script can't run this command or subcommand";
        let named = "ACL failure in script: User u has no permissions to run the 'get' command";
        assert!(permission(unnamed).ends_with("subcommand: `redquorum doctor` names the missing permission"));
        assert!(!permission(named).contains("doctor"));
        let server = |text: &str| NodeError::Server(text.into()).to_string();
        for text in
            ["ERR Unknown Redis command called from script", "Unknown Redis command called from Lua script"]
        {
            assert!(server(text).contains("`redquorum doctor` names the command"), "{}", server(text));
        }
        assert!(server("ERR unknown command 'EVALSHA'").contains("its own name again (`rename-command`)"));
        assert_eq!(server("ERR upstream failure"), "server error: ERR upstream failure");
    }

    #[test]
    fn an_error_of_a_cluster_names_the_remedy() {
        for (error, remedy) in [
            (NodeError::SlotMigrating, "complete the migration (`redis-cli --cluster fix HOST:PORT`)"),
            (
                NodeError::ClusterDown("why".into()),
                "why (if this lasts, repair the shard without a master, and set",
            ),
            (
                NodeError::NoSlotMaster("why".into()),
                "why (start the servers of its shard; if these run, correct the",
            ),
        ] {
            assert!(error.to_string().contains(remedy), "{error}");
        }
    }

    #[test]
    fn a_missing_permission_for_a_key_of_a_cluster_names_the_patterns_of_the_hash_tag() {
        let missing = NodeError::NoPermission("No permissions to access a key".into());
        let shown = missing.with_user(Some("app"), Some("{tag}")).to_string();
        let patterns = "(user app, which needs `~{tag}*`, `~redisson_lock_token:{tag}*` and `~redquorum:tombstone:{tag}*`";
        assert!(shown.contains(patterns), "{shown}");
    }

    #[test]
    fn the_error_of_a_missing_database_names_the_database() {
        let missing = NodeError::Server("ERR DB index is out of range".into()).with_database(99).to_string();
        assert!(missing.contains("out of range (database 99: raise `databases` of the server"), "{missing}");
        assert_eq!(NodeError::Busy.with_database(99), NodeError::Busy);
    }

    #[test]
    fn a_refused_login_names_its_user() {
        let refused = |text: &str| NodeError::NoAuth(text.into());
        let wrong = refused("invalid username-password pair").with_user(Some("app"), None);
        assert_eq!(wrong, refused("invalid username-password pair (user app)"));
        assert_eq!(
            refused("the server wants a password").with_user(None, None),
            refused("the server wants a password")
        );
    }

    #[test]
    fn a_missing_permission_names_the_user_once() {
        let missing = |text: &str| NodeError::NoPermission(text.into());
        let own = missing("No permissions to access a channel").with_user(Some("app"), None);
        assert_eq!(own, missing("No permissions to access a channel (user app)"));
        let named = missing("User app has no permissions to run the 'set' command");
        assert_eq!(named.clone().with_user(Some("app"), None), named);
        assert_eq!(named.clone().with_user(None, None), named);
        assert_eq!(NodeError::ReadOnly.with_user(Some("app"), None), NodeError::ReadOnly);
    }

    /// The texts of Redis 6.2, 7.0 and 8.2, in a script and outside of scripts.
    #[test]
    fn a_missing_permission_for_a_key_names_the_patterns_that_the_user_needs() {
        for text in [
            "this user has no permissions to access one of the keys used as arguments",
            "No permissions to access a key",
            "The user executing the script can't access at least one of the keys mentioned in the command arguments",
            "ACL failure in script: No permissions to access a key",
        ] {
            let shown = NodeError::NoPermission(text.into()).with_user(Some("app"), None).to_string();
            assert!(
                shown.contains(&format!("{text} (user app, which needs `~redisson_lock_token:*`")),
                "{shown}"
            );
        }
    }
}
