//! Helpers of the tests on real servers: clients and settings, queries and changes of servers that bypass the library,
//! and waits for states of servers.

use std::time::Duration;

use redis::cmd;
use redquorum::{LockOptions, Quorum, QuorumBuilder, RestartGuard};
use redquorum_tests::{Cluster, Kind, Server, eventually};

/// The deadline of an effect that has to happen at once. The deadline is longer than any step takes on a machine under
/// load, and shorter than the default ttl. Therefore a key that disappears within this time was unlocked, and did not
/// expire.
pub(super) const SOON: Duration = Duration::from_secs(10);

/// A poll interval that is longer than any test.
const NEVER: Duration = Duration::from_secs(300);

/// The earliest attempt of a waiter without a notice, after its call: half of the first poll interval.
pub(super) const FIRST_POLL: Duration = Duration::from_millis(250);

/// Options with fallback polls that become rare: each poll interval is about twice the poll interval before, without
/// a limit that a test reaches.
pub(super) const RARE_POLLS: LockOptions = LockOptions::new().poll_interval(NEVER);

/// Connects a client with the settings of [`builder`] to all servers.
pub(super) async fn client(cluster: &Cluster) -> Quorum {
    builder(cluster).connect().await.unwrap()
}

/// Whether the servers of the tests can be nodes with this restart guard. A Redis Cluster cannot be a node without a
/// restart guard.
pub(super) fn is_possible(guard: RestartGuard) -> bool {
    guard != RestartGuard::Off || Kind::choose() != Kind::RedisClusters
}

/// Returns the default settings for all servers of a cluster, but with the admission of new nodes. Therefore a test
/// needs no `admin::init`.
pub(super) fn builder(cluster: &Cluster) -> QuorumBuilder {
    Quorum::builder().admit_new_nodes().nodes(cluster.urls())
}

/// Repeats `wait`, which returns the time from a waiter's call to its lock, until this time is shorter than
/// [`FIRST_POLL`]. The waiter then attempted because of a notice or the end of a ttl, and not by a poll. On a machine
/// under load, most waits may take longer, so one short wait is enough.
pub(super) async fn repeat_until_woken(what: &str, wait: impl AsyncFn() -> Duration) {
    const LONG: Duration = Duration::from_secs(60);
    eventually(LONG, what, async || wait().await < FIRST_POLL).await;
}

/// Returns the leases of a resource on one server: the lease id and the number of holds of each.
pub(super) async fn leases(server: &Server, resource: &str) -> Vec<(String, u32)> {
    server.query(cmd("HGETALL").arg(resource)).await
}

/// Returns the number of holds of a resource on each of these servers, or 0 for a server without the key. Asserts that
/// each server has at most one lease.
pub(super) async fn holds(servers: &[Server], resource: &str) -> Vec<u32> {
    let mut holds = Vec::new();
    for server in servers {
        let leases = leases(server, resource).await;
        assert!(leases.len() <= 1, "{resource} has several leases: {leases:?}");
        holds.push(leases.first().map_or(0, |(_, holds)| *holds));
    }
    holds
}

/// Waits until the resource has `count` holds of one lease on each of these servers. A `count` of 0 stands for a free
/// resource.
pub(super) async fn wait_for_holds(servers: &[Server], resource: &str, count: u32) {
    let what = format!("{resource} has {count} holds on {} servers", servers.len());
    let has_count = async || holds(servers, resource).await.iter().all(|holds| *holds == count);
    eventually(SOON, &what, has_count).await;
}

/// Replaces the key of a resource on one server by the key of a lease with this lease id and one hold, in one atomic
/// step.
pub(super) async fn put_lease(server: &Server, resource: &str, lease_id: &str, ttl: Duration) {
    const PUT: &str = "redis.call('DEL', KEYS[1])
        redis.call('HSET', KEYS[1], ARGV[1], 1)
        return redis.call('PEXPIRE', KEYS[1], ARGV[2])";
    server.command(&["EVAL", PUT, "1", resource, lease_id, &ttl.as_millis().to_string()]).await;
}

/// Returns the remaining ttl of a key; zero if the key does not exist.
pub(super) async fn remaining(server: &Server, key: &str) -> Duration {
    let remaining: i64 = server.query(cmd("PTTL").arg(key)).await;
    assert_ne!(remaining, -1, "{key} has no ttl");
    Duration::from_millis(remaining.try_into().unwrap_or(0))
}

/// Returns the number of connections of a server that are subscribed to the release notices of a resource.
pub(super) async fn subscribers(server: &Server, resource: &str) -> u64 {
    let channel = if resource.contains('{') {
        format!("redisson_lock__channel:{resource}")
    } else {
        format!("redisson_lock__channel:{{{resource}}}")
    };
    let (_, count): (String, u64) = server.query(cmd("PUBSUB").arg("NUMSUB").arg(channel)).await;
    count
}

/// Whether no connection of a server is subscribed to a channel other than the channel for force-unlocks. A client
/// keeps the subscription to that channel until the client ends.
pub(super) async fn has_no_release_subscriber(server: &Server) -> bool {
    server
        .channels()
        .await
        .iter()
        .all(|channel| channel.starts_with("redisson_lock__channel:redquorum:force_unlocked:{"))
}

/// Waits until `count` connections of a server are subscribed to the release notices of a resource.
pub(super) async fn wait_for_subscribers(server: &Server, resource: &str, count: u64) {
    let what = format!("{resource} has {count} subscribers");
    eventually(SOON, &what, async || subscribers(server, resource).await == count).await;
}

/// Waits until the wait queues of a resource have `count` entries on all servers together.
pub(super) async fn wait_for_queue_entries(cluster: &Cluster, resource: impl AsRef<[u8]>, count: u64) {
    let resource = resource.as_ref();
    let queue = [b"redquorum:queue:{", resource, b"}"].concat();
    let what = format!("the queue of {} has {count} entries", resource.escape_ascii());
    eventually(SOON, &what, async || {
        let mut waiting = 0;
        for server in cluster.servers() {
            waiting += server.query::<u64>(cmd("ZCARD").arg(&queue)).await;
        }
        waiting == count
    })
    .await;
}

/// Returns the number of `EVALSHA` commands that a server has executed. A request of a client is one `EVALSHA`, once
/// the server has the script.
pub(super) async fn evalsha_calls(server: &Server) -> u64 {
    let info = server.info("commandstats").await;
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.and_then(|line| line.split(',').next()).map_or(0, |calls| calls.parse().unwrap())
}
