//! Tests of faults that other quorum locks are known to have. Each test runs real servers and uses the public
//! API.
//!
//! The table of `docs/BEHAVIOURS.md` lists the behaviours with the tests of each behaviour. Behaviours that need
//! virtual time are tested beside the code in `src/`.

use std::time::Duration;

use futures::future::join_all;
use redis::cmd;
use redquorum::{
    Error, LockGuard, LockOptions, Quorum, QuorumBuilder, RestartGuard,
    error::{LossReason, NodeReplies, NodeReply},
};
use redquorum_tests::{Cluster, Direction, Proxy, Server, eventually};

use super::servers::{RARE_POLLS, has_no_release_subscriber, repeat_until_woken, wait_for_queue_entries};

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

/// The deadline of an effect that has to happen at once. The deadline is much longer than the effect takes on a machine
/// under load, and much shorter than [`TTL`].
pub(super) const SOON: Duration = Duration::from_secs(10);

/// The ttl of most locks in these tests. A key that disappears within [`SOON`] was unlocked, and did not expire.
pub(super) const TTL: Duration = Duration::from_secs(60);

/// Options with the ttl [`TTL`].
pub(super) const WITH_TTL: LockOptions = LockOptions::new().ttl(TTL);

/// A node timeout short enough to wait for in a test, and long enough for a healthy node under load.
const NODE_TIMEOUT: Duration = Duration::from_millis(400);

/// The key with the node metadata, which stays for as long as the server keeps its data.
pub(super) const NODE_METADATA: &str = "redquorum:node";

/// Returns settings for all servers of a cluster. New nodes are admitted.
pub(super) fn builder(cluster: &Cluster) -> QuorumBuilder {
    Quorum::builder().admit_new_nodes().nodes(cluster.urls())
}

/// Connects a client to all servers.
pub(super) async fn client(cluster: &Cluster) -> Quorum {
    builder(cluster).connect().await.unwrap()
}

/// Connects a client that waits for each node for at most [`NODE_TIMEOUT`].
async fn client_with_short_timeout(cluster: &Cluster) -> Quorum {
    builder(cluster).node_timeout(NODE_TIMEOUT).connect().await.unwrap()
}

/// Starts a proxy before each server.
async fn proxies(cluster: &Cluster) -> Vec<Proxy> {
    join_all(cluster.servers().iter().map(Proxy::before)).await
}

/// Connects a client without a restart guard, for tests in which the guard would put nodes into quarantine.
async fn client_without_guard(cluster: &Cluster) -> Quorum {
    builder(cluster).restart_guard(RestartGuard::Off).connect().await.unwrap()
}

/// Returns settings for the servers behind these proxies.
fn builder_behind(proxies: &[Proxy]) -> QuorumBuilder {
    Quorum::builder().admit_new_nodes().nodes(proxies.iter().map(Proxy::url))
}

/// Replaces the key of a resource on a server by the key of a lease with this lease id, with or without a ttl.
async fn put_lock(server: &Server, resource: &str, lease_id: &str, ttl: Option<Duration>) {
    server.command(&["DEL", resource]).await;
    server.command(&["HSET", resource, lease_id, "1"]).await;
    if let Some(ttl) = ttl {
        server.command(&["PEXPIRE", resource, &ttl.as_millis().to_string()]).await;
    }
}

/// Returns the indices of the servers on which the resource is locked. All servers have to answer.
async fn locked_on(cluster: &Cluster, resource: impl AsRef<[u8]>) -> Vec<usize> {
    let mut locked = Vec::new();
    for (number, server) in cluster.servers().iter().enumerate() {
        if is_locked(server, &resource).await {
            locked.push(number);
        }
    }
    locked
}

/// Whether the resource is locked on the server.
pub(super) async fn is_locked(server: &Server, resource: impl AsRef<[u8]>) -> bool {
    server.query(cmd("EXISTS").arg(resource.as_ref())).await
}

/// Waits until the resource is locked on no server. The deadline is much shorter than [`TTL`], so keys with this ttl do
/// not expire within the deadline.
pub(super) async fn wait_until_unlocked(cluster: &Cluster, resource: impl AsRef<[u8]>) {
    wait_until_unlocked_on(cluster.servers(), resource).await;
}

/// Waits until the resource is locked on none of these servers, which have to answer.
async fn wait_until_unlocked_on(servers: &[Server], resource: impl AsRef<[u8]>) {
    let what = format!("{} is locked on no server", resource.as_ref().escape_ascii());
    for server in servers {
        eventually(SOON, &what, async || !is_locked(server, &resource).await).await;
    }
}

/// Waits until the rollback of an unanswered lock has arrived: the server executed the lock and then the
/// unlock, or executed the unlock first and refused the lock by a tombstone.
///
/// Requires that the resource was never locked on this server before.
pub(super) async fn wait_until_rolled_back(server: &Server, resource: &str) {
    let tombstone = format!("redquorum:tombstone:{{{resource}}}:");
    let counted = format!("redisson_lock_token:{{{resource}}}");
    let is_taken_back = async || {
        // One command returns all keys, so the names belong to one instant.
        let keys = server.keys().await;
        let is_locked = keys.iter().any(|key| key == resource);
        keys.iter().any(|key| key.starts_with(&tombstone) || (*key == counted && !is_locked))
    };
    eventually(SOON, "the unlock has arrived", is_taken_back).await;
    assert!(!is_locked(server, resource).await, "the lock was executed after its unlock");
}

/// Waits until the server has executed an unlock without an earlier lock, which leaves a tombstone and no
/// key.
///
/// Requires that only one lease id was used for the resource: the tombstone of any lease id counts.
pub(super) async fn wait_for_tombstone(server: &Server, resource: &str) {
    wait_for_tombstone_of(server, resource, "").await;
}

/// Does the same as [`wait_for_tombstone`], but for the tombstone of this lease id. Attempts of other clients may have
/// left tombstones, too.
async fn wait_for_tombstone_of(server: &Server, resource: &str, lease_id: &str) {
    let tombstone = format!("redquorum:tombstone:{{{resource}}}:{lease_id}");
    let is_tombstoned = async || server.keys().await.iter().any(|key| key.starts_with(&tombstone));
    eventually(SOON, "the unlock has arrived", is_tombstoned).await;
    assert!(!is_locked(server, resource).await, "the resource is locked beside the tombstone of the lock");
}

/// Returns the number of `EVALSHA` commands that a server has executed. A request of a client is one `EVALSHA`, once
/// the server has the script.
async fn evalsha_calls(server: &Server) -> u64 {
    calls_of(server, &["evalsha"]).await
}

/// Returns how often a server has executed these commands, including calls inside of scripts.
pub(super) async fn calls_of(server: &Server, commands: &[&str]) -> u64 {
    let info = server.info("commandstats").await;
    let lines =
        info.lines().filter_map(|line| line.trim_end().strip_prefix("cmdstat_")?.split_once(":calls="));
    let counted = lines.filter(|(name, _)| commands.contains(name));
    counted.map(|(_, rest)| rest.split(',').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// The commands that a client sends, over all connections. The server counts commands inside of scripts under
/// other names.
const COMMANDS: [&str; 7] =
    ["evalsha", "script|load", "subscribe", "unsubscribe", "ping", "hello", "client|setinfo"];

/// Returns the number of commands that each server has received from clients.
async fn commands_by_server(cluster: &Cluster) -> Vec<u64> {
    join_all(cluster.servers().iter().map(|server| calls_of(server, &COMMANDS))).await
}

/// Returns the fields of a resource's hash on a server that answers: lease ids and their holds.
async fn hash(server: &Server, resource: &str) -> Vec<(String, String)> {
    server.query(cmd("HGETALL").arg(resource)).await
}

/// Returns the number of connections of a server, without the connection of this query.
async fn connections(server: &Server) -> u64 {
    server.info_field("clients", "connected_clients").await.parse::<u64>().unwrap() - 1
}

/// Waits until each node has granted the lease.
async fn wait_for_all_grants(guard: &LockGuard) {
    let nodes = guard.node_replies().iter().count();
    eventually(SOON, "every node has granted", async || guard.node_replies().done() == nodes).await;
}

/// Renews the lease until each node has granted the lease. Some nodes may have refused at first, because the earlier
/// lease expired there a little later. Silent nodes may not have received the request.
async fn renew_until_all_granted(guard: &LockGuard) {
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

/// Returns the replies of the nodes to a call that found no quorum.
pub(super) fn replies_of(error: Error) -> NodeReplies {
    let Error::NoQuorum(error) = error else { panic!("not a lack of quorum: {error}") };
    error.node_replies().clone()
}

/// Returns the reason of a lost lease.
pub(super) fn loss(error: Error) -> LossReason {
    let Error::LeaseLost(lost) = error else { panic!("not the loss of a lease: {error}") };
    lost.reason
}

/// Returns the replies in the order of the servers.
pub(super) fn in_order(replies: &NodeReplies) -> Vec<NodeReply> {
    replies.iter().map(|(_, reply)| reply.clone()).collect()
}

/// Applies a change to each proxy.
fn for_each(proxies: &[Proxy], change: impl Fn(&Proxy)) {
    proxies.iter().for_each(change);
}

/// Holds back the requests at all proxies.
fn hold_requests(proxies: &[Proxy]) {
    for_each(proxies, |proxy| proxy.hold(Direction::Requests));
}

/// Lets the requests pass at all proxies.
fn open_requests(proxies: &[Proxy]) {
    for_each(proxies, |proxy| proxy.open(Direction::Requests));
}
