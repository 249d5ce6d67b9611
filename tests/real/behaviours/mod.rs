//! What quorum locks have been known to get wrong, and what this one does instead, on real servers
//! and through the public API.
//!
//! A row is a letter of the table in `docs/BEHAVIOURS.md`; its tests name it. Rows that virtual
//! time shows better are tested beside the code.

use std::time::Duration;

use futures::future::join_all;
use redis::cmd;
use redquorum::{
    Error, LockGuard, LockOptions, Quorum, QuorumBuilder, RestartGuard,
    error::{LossReason, NodeReplies, NodeReply},
};
use redquorum_tests::{Cluster, Direction, Proxy, Server, eventually};

use super::servers::{RARE_POLLS, have_waiters, is_woken, nobody_waits_for_a_release};

mod acquisition;
mod cancellation;
mod configuration;
mod cost;
mod diagnosis;
mod endings;
mod fencing;
mod healing;
mod many_waiters;
mod names;
mod renewal;
mod rollback;
mod scripts;
mod unlocking;
mod waiting;
mod watchdog;

/// Far longer than anything that happens at once takes on a machine under load, and far shorter
/// than [`TTL`].
pub(super) const SOON: Duration = Duration::from_secs(10);

/// Whatever is gone before this has not gone by itself.
pub(super) const TTL: Duration = Duration::from_secs(60);

/// Options with this ttl.
pub(super) const WITH_TTL: LockOptions = LockOptions::new().ttl(TTL);

/// Short enough to wait for in a test, long enough for a healthy node under load.
const NODE_TIMEOUT: Duration = Duration::from_millis(400);

/// What a node keeps about itself for as long as it lives.
pub(super) const NODE_METADATA: &str = "redquorum:node";

/// Settings for the servers of a cluster.
pub(super) fn builder(cluster: &Cluster) -> QuorumBuilder {
    Quorum::builder().admit_new_nodes().nodes(cluster.urls())
}

/// A client of all servers.
pub(super) async fn client(cluster: &Cluster) -> Quorum {
    builder(cluster).connect().await.unwrap()
}

/// The same, which gives up on a node sooner.
async fn impatient(cluster: &Cluster) -> Quorum {
    builder(cluster).node_timeout(NODE_TIMEOUT).connect().await.unwrap()
}

/// A proxy before every server.
async fn proxies(cluster: &Cluster) -> Vec<Proxy> {
    join_all(cluster.servers().iter().map(Proxy::before)).await
}

/// A client that trusts servers to keep every vote: where something else is the matter, and the
/// restart guard would have them wait out a quarantine first.
async fn trusting(cluster: &Cluster) -> Quorum {
    builder(cluster).restart_guard(RestartGuard::Off).connect().await.unwrap()
}

/// Settings for the servers behind these proxies.
fn builder_behind(proxies: &[Proxy]) -> QuorumBuilder {
    Quorum::builder().admit_new_nodes().nodes(proxies.iter().map(Proxy::url))
}

/// Puts somebody else's lock on a server, with or without a ttl.
async fn hold_as(server: &Server, resource: &str, owner: &str, ttl: Option<Duration>) {
    server.command(&["DEL", resource]).await;
    server.command(&["HSET", resource, owner, "1"]).await;
    if let Some(ttl) = ttl {
        server.command(&["PEXPIRE", resource, &ttl.as_millis().to_string()]).await;
    }
}

/// The numbers of the servers, all of which answer, on which the resource is locked.
async fn locked_on(cluster: &Cluster, resource: impl AsRef<[u8]>) -> Vec<usize> {
    let mut locked = Vec::new();
    for (number, server) in cluster.servers().iter().enumerate() {
        if is_locked(server, &resource).await {
            locked.push(number);
        }
    }
    locked
}

pub(super) async fn is_locked(server: &Server, resource: impl AsRef<[u8]>) -> bool {
    server.query(cmd("EXISTS").arg(resource.as_ref())).await
}

/// Waits until the resource is locked nowhere, long before its ttl could have seen to that.
pub(super) async fn unlocked_everywhere(cluster: &Cluster, resource: impl AsRef<[u8]>) {
    unlocked_on(cluster.servers(), resource).await;
}

/// The same for some servers, of those that answer.
async fn unlocked_on(servers: &[Server], resource: impl AsRef<[u8]>) {
    let what = format!("{} is left on no server", resource.as_ref().escape_ascii());
    for server in servers {
        eventually(SOON, &what, async || !is_locked(server, &resource).await).await;
    }
}

/// Waits until a lock that was unanswered has been taken back: executed and unlocked, or refused by
/// a tombstone before it could be.
///
/// For a resource that nobody has locked there before.
pub(super) async fn taken_back(server: &Server, resource: &str) {
    let tombstone = format!("redquorum:tombstone:{{{resource}}}:");
    let counted = format!("redisson_lock_token:{{{resource}}}");
    let is_taken_back = async || {
        // All names at one instant.
        let keys = server.keys().await;
        let is_locked = keys.iter().any(|key| key == resource);
        keys.iter().any(|key| key.starts_with(&tombstone) || (*key == counted && !is_locked))
    };
    eventually(SOON, "the unlock has arrived", is_taken_back).await;
    assert!(!is_locked(server, resource).await, "a lock has come after its unlock");
}

/// Waits until an unlock has come before what was unanswered: it leaves a tombstone; and nothing
/// else.
///
/// For a resource that only one owner has asked for; anybody's tombstone will do.
pub(super) async fn tombstoned(server: &Server, resource: &str) {
    tombstoned_by(server, resource, "").await;
}

/// As [`tombstoned`], by this owner: the attempts of others may have left tombstones of their own.
async fn tombstoned_by(server: &Server, resource: &str, owner: &str) {
    let tombstone = format!("redquorum:tombstone:{{{resource}}}:{owner}");
    let is_tombstoned = async || server.keys().await.iter().any(|key| key.starts_with(&tombstone));
    eventually(SOON, "the unlock has arrived", is_tombstoned).await;
    assert!(!is_locked(server, resource).await, "a lock stands beside its own tombstone");
}

/// How many requests of clients a server has executed.
async fn calls(server: &Server) -> u64 {
    calls_of(server, &["evalsha"]).await
}

/// How often a server has executed these commands, those inside of scripts included.
pub(super) async fn calls_of(server: &Server, commands: &[&str]) -> u64 {
    let info = server.info("commandstats").await;
    let lines =
        info.lines().filter_map(|line| line.trim_end().strip_prefix("cmdstat_")?.split_once(":calls="));
    let ours = lines.filter(|(name, _)| commands.contains(name));
    ours.map(|(_, rest)| rest.split(',').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// What a client sends, over all connections; what runs inside of scripts is counted apart by the
/// server.
const COMMANDS: [&str; 7] =
    ["evalsha", "script|load", "subscribe", "unsubscribe", "ping", "hello", "client|setinfo"];

/// How many commands each server has been sent by clients.
async fn commands_by_server(cluster: &Cluster) -> Vec<u64> {
    join_all(cluster.servers().iter().map(|server| calls_of(server, &COMMANDS))).await
}

/// The fields of a resource's hash on a server that answers: owners and their holds.
async fn hash(server: &Server, resource: &str) -> Vec<(String, String)> {
    server.query(cmd("HGETALL").arg(resource)).await
}

/// How many connections a server has, this look at it aside.
async fn connections(server: &Server) -> u64 {
    server.info_field("clients", "connected_clients").await.parse::<u64>().unwrap() - 1
}

/// Waits until every node has said that it has the lease.
async fn on_all_nodes(guard: &LockGuard) {
    let nodes = guard.node_replies().iter().count();
    eventually(SOON, "every node has granted", async || guard.node_replies().done() == nodes).await;
}

/// The same for a lease that some nodes may have refused, as they let the one before it expire a
/// little later, or were not asked for, as they were silent.
async fn healed_on_all_nodes(guard: &LockGuard) {
    let nodes = guard.node_replies().iter().count();
    eventually(SOON, "every node has granted", async || {
        let is_complete = guard.node_replies().done() == nodes;
        if !is_complete {
            guard.renew().await.unwrap();
        }
        is_complete
    })
    .await;
}

/// The replies of the nodes to a call that found no quorum.
pub(super) fn replies_of(error: Error) -> NodeReplies {
    let Error::NoQuorum(error) = error else { panic!("not a lack of quorum: {error}") };
    error.node_replies().clone()
}

/// The reason of a lost lease.
pub(super) fn loss(error: Error) -> LossReason {
    let Error::LeaseLost(lost) = error else { panic!("not the loss of a lease: {error}") };
    lost.reason
}

/// The replies in the order of the servers.
pub(super) fn in_order(replies: &NodeReplies) -> Vec<NodeReply> {
    replies.iter().map(|(_, reply)| reply.clone()).collect()
}

/// Does the same to all of them.
fn all(proxies: &[Proxy], change: impl Fn(&Proxy)) {
    proxies.iter().for_each(change);
}

fn hold_requests(proxies: &[Proxy]) {
    all(proxies, |proxy| proxy.hold(Direction::Requests));
}

fn open_requests(proxies: &[Proxy]) {
    all(proxies, |proxy| proxy.open(Direction::Requests));
}
