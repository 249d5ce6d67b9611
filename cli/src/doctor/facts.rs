//! The facts about the nodes, which `gather` collects and `judge` judges.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use redquorum::RestartGuard;

use crate::connect::{Disconnected, Reply};

/// The facts about the nodes, and the settings to judge them by.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) expected: ExpectedSettings,
    pub(crate) nodes: Vec<NodeFacts>,
    /// The cycles of clients that wait for each other, as texts, or the reason for which the locks could not be listed.
    pub(crate) cycles: Result<Vec<String>, NotSearched>,
}

/// The settings that the nodes have to fit.
#[derive(Clone, Debug)]
pub(crate) struct ExpectedSettings {
    pub(crate) fingerprint: String,
    pub(crate) votes_needed: usize,
    pub(crate) guard: RestartGuard,
    pub(crate) node_timeout: Duration,
    pub(crate) ttl: Duration,
    pub(crate) max_ttl: Duration,
    pub(crate) drift: f64,
    /// The number of clients that each server has to have room for; `None` if the user gave no number.
    pub(crate) clients: Option<u64>,
}

/// The facts about a node.
#[derive(Clone, Debug)]
pub(crate) struct NodeFacts {
    pub(crate) address: String,
    /// The IP addresses of the node's name; empty if unknown.
    pub(crate) hosts: Vec<IpAddr>,
    /// The `run_id` of the server at each IP address, if there are several addresses.
    pub(crate) run_ids: BTreeMap<IpAddr, String>,
    /// Whether Sentinels name the server. Sentinels may promote another server in its place.
    pub(crate) is_behind_sentinel: bool,
    /// Whether the url of the node names a Redis Cluster.
    pub(crate) is_in_cluster: bool,
    /// The servers of the Redis Cluster that the url names; empty for any other node.
    pub(crate) seeds: Vec<Seed>,
    /// The server, or the failure of the connection.
    pub(crate) server: Result<ServerFacts, Disconnected>,
}

/// The answers of a server. If the server refused a command, the reply has the server's error text.
#[derive(Clone, Debug)]
pub(crate) struct ServerFacts {
    pub(crate) info: Reply<Info>,
    pub(crate) persistence: Persistence,
    /// `min-replicas-max-lag`, in seconds.
    pub(crate) max_lag: Reply<String>,
    /// The Redis Cluster that is the node; `None` if the node is a server.
    pub(crate) cluster: Option<ClusterFacts>,
    /// The settings of connections; `None` if the user gave no number of clients.
    pub(crate) connections: Option<ConnectionSettings>,
    /// The latency of each measured answer.
    pub(crate) latencies: Vec<Duration>,
    pub(crate) clock: Reply<ClockReading>,
    pub(crate) access: Access,
    /// The node metadata; `None` if the node belongs to no quorum.
    pub(crate) metadata: Reply<Option<NodeMetadata>>,
    /// The remaining time of the quarantine; `None` without a quarantine.
    pub(crate) quarantine: Reply<Option<Duration>>,
}

/// The facts about a Redis Cluster, from the master of the node's hash slot.
#[derive(Clone, Debug)]
pub(crate) struct ClusterFacts {
    pub(crate) settings: ClusterSettings,
    /// Whether the hash slot moves to another server.
    pub(crate) is_moving: Reply<bool>,
    /// The IP address by which the master is known to the cluster; `None` if the address is unknown.
    pub(crate) host: Option<IpAddr>,
    /// The ids of the servers of the cluster.
    pub(crate) members: Reply<BTreeSet<String>>,
    /// The replicas of the master, by their announced addresses.
    pub(crate) replicas: Reply<Vec<Replica>>,
}

/// The settings of a server of a Redis Cluster that only `CONFIG GET` returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterSettings {
    /// `cluster-require-full-coverage`.
    pub(crate) requires_coverage: Reply<String>,
    /// `cluster-node-timeout`, in milliseconds.
    pub(crate) node_timeout: Reply<String>,
}

/// A server of a Redis Cluster that the url of a node names.
#[derive(Clone, Debug)]
pub(crate) struct Seed {
    pub(crate) address: String,
    /// The ids of the servers of its cluster.
    pub(crate) members: Result<Reply<BTreeSet<String>>, Disconnected>,
}

/// A replica of the master of the node's hash slot.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    /// The address that the cluster names to clients; `None` if the cluster names no host.
    pub(crate) address: Option<(String, u16)>,
    /// The server at the address, or the failure of the connection; `None` without an address.
    pub(crate) server: Option<Result<ReplicaFacts, Disconnected>>,
}

/// The facts about a replica that judge what the replica does as a master.
#[derive(Clone, Debug)]
pub(crate) struct ReplicaFacts {
    pub(crate) info: Reply<Info>,
    /// `min-replicas-max-lag`, in seconds.
    pub(crate) max_lag: Reply<String>,
    pub(crate) settings: ClusterSettings,
}

impl Replica {
    /// Returns the address in the form of reports.
    pub(crate) fn shown_address(&self) -> String {
        match &self.address {
            Some((host, port)) if host.contains(':') => format!("[{host}]:{port}"),
            Some((host, port)) => format!("{host}:{port}"),
            None => "an address without a host".to_owned(),
        }
    }
}

/// The relevant fields of `INFO`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Info {
    /// `redis`, `valkey`, ...
    pub(crate) kind: String,
    pub(crate) version: String,
    /// `standalone`, `cluster` or `sentinel`.
    pub(crate) mode: String,
    pub(crate) run_id: String,
    pub(crate) replication_id: String,
    /// `master` or `slave`.
    pub(crate) role: String,
    pub(crate) replicas: u64,
    /// Whether the server refuses writes without enough replicas.
    pub(crate) requires_replicas: bool,
    /// `maxclients`, the largest number of connections; 0 if unknown.
    pub(crate) max_connections: u64,
    pub(crate) connections: u64,
    pub(crate) used_memory: u64,
    /// The memory of the machine; 0 if unknown.
    pub(crate) machine_memory: u64,
    /// `maxmemory`; 0 for no limit.
    pub(crate) max_memory: u64,
    pub(crate) eviction: String,
    /// Whether there is an append-only file.
    pub(crate) appends: bool,
}

/// The settings that only `CONFIG GET` returns.
#[derive(Clone, Debug)]
pub(crate) struct Persistence {
    pub(crate) appendfsync: Reply<String>,
    pub(crate) no_appendfsync_on_rewrite: Reply<String>,
    pub(crate) aof_load_truncated: Reply<String>,
}

/// The settings of connections that only `CONFIG GET` returns.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionSettings {
    /// `tcp-backlog`, the largest number of connections that wait for the server to accept them.
    pub(crate) backlog: Reply<String>,
    /// `timeout`, the seconds after which the server closes an idle connection; 0 for never.
    pub(crate) idle_timeout: Reply<String>,
}

/// A node's clock, compared with this machine's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClockReading {
    /// The seconds by which the node's clock is ahead.
    pub(crate) ahead: f64,
    /// The possible error in seconds: half the round trip.
    pub(crate) error_bound: f64,
    /// The rate of the clock; `None` if it was not measured.
    pub(crate) rate: Option<Rate>,
}

/// The rate of a node's clock, compared with this machine's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rate {
    /// The seconds that the node's clock gains per second.
    pub(crate) gain: f64,
    /// The possible error of the gain.
    pub(crate) error_bound: f64,
    /// The time of the measurement in seconds.
    pub(crate) watched: f64,
}

/// The permissions of the user on a node.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// Whether a script runs by its text (EVAL).
    pub(crate) by_text: Reply<()>,
    /// Whether a script can be loaded (SCRIPT LOAD).
    pub(crate) loads: Reply<()>,
    /// Whether a script runs by its hash (EVALSHA).
    pub(crate) by_hash: Reply<()>,
    /// The refused commands; the server's error text if no script could run.
    pub(crate) trial: Reply<CommandTrial>,
    /// The patterns of keys of this library that the user lacks, with the server's error texts.
    pub(crate) lacking_keys: Vec<(String, String)>,
    /// The keys of locks; the server's error text if no script could run.
    pub(crate) lock_keys: Reply<LockKeys>,
    /// Whether a published notice arrives.
    pub(crate) notices: Result<(), NoticeFailure>,
}

/// The reason why notices do not arrive.
#[derive(Clone, Debug)]
pub(crate) enum NoticeFailure {
    /// The server refused to subscribe, to publish, to unsubscribe, or several of these commands.
    Refused(Vec<RefusedNotice>),
    /// Another reason.
    Other(String),
}

/// A command of notices that the server refused.
#[derive(Clone, Debug)]
pub(crate) struct RefusedNotice {
    /// `subscribe`, `publish` or `unsubscribe`.
    pub(crate) command: &'static str,
    /// The permission that the user lacks; `None` if the error is about no permission.
    pub(crate) missing: Option<NoticePermission>,
    /// The server's error text.
    pub(crate) text: String,
}

/// A permission of notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoticePermission {
    Command,
    Channel,
}

/// The result of trying every command of the library's script.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandTrial {
    /// The refused commands with the server's error texts, each command once.
    pub(crate) refused: Vec<(String, String)>,
}

/// The keys of locks that the user may use.
#[derive(Clone, Debug)]
pub(crate) enum LockKeys {
    /// The keys of every name.
    All,
    /// The keys of some names: the patterns of keys, if the user may read its own permissions.
    Some(Option<Vec<String>>),
    /// The keys of the names that the user gave: each name, and the server's error text if the server refused the key.
    Named(Vec<(String, Reply<()>)>),
}

/// The relevant part of the node metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeMetadata {
    pub(crate) incarnation: String,
    pub(crate) fingerprint: String,
}

/// The reason for which no cycles were searched, as a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotSearched {
    /// No quorum listed its locks.
    Failed(String),
    /// The lists take longer than the check allows.
    TookTooLong(String),
}
