//! What other quorum locks were seen to do wrong, and what this one does instead: a row of tests for each, on real servers.

use std::time::Duration;

use futures::future::join_all;
use redquorum::{LockError, LockGuard, Quorum, QuorumBuilder, Vote, Votes};

use crate::support::{Cluster, Direction, Proxy, Server, eventually};

mod acquisition;
mod latency;
mod quiet;
mod renewal;
mod rollback;
mod unlocking;

/// Far longer than anything that happens at once takes on a machine under load, and far shorter than [`TTL`].
pub(super) const SOON: Duration = Duration::from_secs(10);

/// Whatever is gone before this has not gone by itself.
pub(super) const TTL: Duration = Duration::from_secs(60);

/// Settings for the servers of a cluster.
pub(super) fn builder(cluster: &Cluster) -> QuorumBuilder {
    Quorum::builder().nodes(cluster.urls())
}

/// A client of all servers.
pub(super) async fn client(cluster: &Cluster) -> Quorum {
    builder(cluster).connect().await.unwrap()
}

/// A proxy before every server.
pub(super) async fn proxies(cluster: &Cluster) -> Vec<Proxy> {
    join_all(cluster.servers().iter().map(Proxy::before)).await
}

/// Settings for the servers behind these proxies.
pub(super) fn builder_behind(proxies: &[Proxy]) -> QuorumBuilder {
    Quorum::builder().nodes(proxies.iter().map(Proxy::url))
}

/// The numbers of the servers on which the resource is locked.
pub(super) async fn locked_on(cluster: &Cluster, resource: &str) -> Vec<usize> {
    let mut locked = Vec::new();
    for (number, server) in cluster.servers().iter().enumerate() {
        if is_locked(server, resource).await {
            locked.push(number);
        }
    }
    locked
}

pub(super) async fn is_locked(server: &Server, resource: &str) -> bool {
    server.keys().await.iter().any(|key| key == resource)
}

/// Waits until the resource is locked nowhere.
pub(super) async fn unlocked_everywhere(cluster: &Cluster, resource: &str) {
    let what = "no key of the resource is left";
    eventually(SOON, what, async || locked_on(cluster, resource).await.is_empty()).await;
}

/// Waits until an unlock has come after everything that was unanswered: it leaves a tombstone; and nothing else.
///
/// For a resource that only one owner has asked for; anybody's tombstone will do.
pub(super) async fn buried(server: &Server, resource: &str) {
    buried_by(server, resource, "").await;
}

/// As [`buried`], by this owner: the attempts of others may have left tombstones of their own.
pub(super) async fn buried_by(server: &Server, resource: &str, owner: &str) {
    let tombstone = format!("redquorum:gone:{{{resource}}}:{owner}");
    let is_buried = async || server.keys().await.iter().any(|key| key.starts_with(&tombstone));
    eventually(SOON, "the unlock has arrived", is_buried).await;
    assert!(!is_locked(server, resource).await, "a lock stands beside its own tombstone");
}

/// How many requests of clients a server has executed.
pub(super) async fn calls(server: &Server) -> u64 {
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

/// The owner of the resource on a server, with everything else that the key holds.
pub(super) async fn hash(server: &Server, resource: &str) -> Vec<(String, String)> {
    server.query(redis::cmd("HGETALL").arg(resource)).await
}

/// Waits until every node has said that it has the lease.
pub(super) async fn on_all_nodes(guard: &LockGuard) {
    let nodes = guard.votes().nodes();
    eventually(SOON, "every node has granted", async || guard.votes().granted() == nodes).await;
}

/// The votes of an attempt that found no quorum.
pub(super) fn votes_of(error: LockError) -> Votes {
    let LockError::NoQuorum { votes, .. } = error else { panic!("not a lack of quorum: {error}") };
    votes
}

/// The votes in the order of the servers.
pub(super) fn in_order(votes: &Votes) -> Vec<Vote> {
    votes.iter().map(|(_, vote)| vote.clone()).collect()
}

pub(super) fn all(proxies: &[Proxy], change: impl Fn(&Proxy)) {
    proxies.iter().for_each(change);
}

pub(super) fn hold_requests(proxies: &[Proxy]) {
    all(proxies, |proxy| proxy.hold(Direction::Requests));
}

pub(super) fn open_requests(proxies: &[Proxy]) {
    all(proxies, |proxy| proxy.open(Direction::Requests));
}
