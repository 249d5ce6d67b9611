//! What the tests see and do on servers behind the library's back.

use std::time::Duration;

use redis::cmd;
use redquorum::{LockOptions, Quorum, QuorumBuilder};
use redquorum_tests::{Cluster, Server, eventually};

/// Far longer than anything here takes on a machine under load, and shorter than the default ttl:
/// what is gone by then was taken away, and did not end by itself.
pub(super) const SOON: Duration = Duration::from_secs(10);

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(300);

/// The earliest attempt of a waiter without a notice, after its call: half of the first poll interval.
pub(super) const FIRST_POLL: Duration = Duration::from_millis(250);

/// Fallback polls that grow rare, each at about twice the interval of the one before.
pub(super) const RARE_POLLS: LockOptions = LockOptions::new().poll_interval(NEVER);

/// A client of all servers, with the default settings.
pub(super) async fn client(cluster: &Cluster) -> Quorum {
    builder(cluster).connect().await.unwrap()
}

pub(super) fn builder(cluster: &Cluster) -> QuorumBuilder {
    Quorum::builder().admit_new_nodes().nodes(cluster.urls())
}

/// Repeats a wait, which returns the time from the waiter's call to its lock, until that time is too short for a poll:
/// then a notice, or the end of a ttl, has woken the waiter. Beside much other work, few waits are that short.
pub(super) async fn is_woken(what: &str, wait: impl AsyncFn() -> Duration) {
    const LONG: Duration = Duration::from_secs(60);
    eventually(LONG, what, async || wait().await < FIRST_POLL).await;
}

/// The owners of a resource on one server, with the value that stands beside each.
pub(super) async fn owners(server: &Server, resource: &str) -> Vec<(String, u32)> {
    server.query(cmd("HGETALL").arg(resource)).await
}

/// The holds of a resource's only owner on each of these servers, 0 where nobody owns it.
pub(super) async fn holds(servers: &[Server], resource: &str) -> Vec<u32> {
    let mut holds = Vec::new();
    for server in servers {
        let owners = owners(server, resource).await;
        assert!(owners.len() <= 1, "{resource} has several owners: {owners:?}");
        holds.push(owners.first().map_or(0, |(_, holds)| *holds));
    }
    holds
}

/// Waits until the only owner has so many holds on each of these servers, or for 0 until there is
/// none.
pub(super) async fn have_holds(servers: &[Server], resource: &str, count: u32) {
    let what = format!("{resource} has {count} holds on {} servers", servers.len());
    let is_so = async || holds(servers, resource).await.iter().all(|holds| *holds == count);
    eventually(SOON, &what, is_so).await;
}

/// Gives the resource on one server to another owner, with nothing in between.
pub(super) async fn put_owner(server: &Server, resource: &str, owner: &str, ttl: Duration) {
    const PUT: &str = "redis.call('DEL', KEYS[1])
        redis.call('HSET', KEYS[1], ARGV[1], 1)
        return redis.call('PEXPIRE', KEYS[1], ARGV[2])";
    server.command(&["EVAL", PUT, "1", resource, owner, &ttl.as_millis().to_string()]).await;
}

/// How long a key still lives; zero if there is none.
pub(super) async fn remaining(server: &Server, key: &str) -> Duration {
    let remaining: i64 = server.query(cmd("PTTL").arg(key)).await;
    assert_ne!(remaining, -1, "{key} has no ttl");
    Duration::from_millis(remaining.try_into().unwrap_or(0))
}

/// How many connections of a server are subscribed to the release of a resource.
pub(super) async fn subscribers(server: &Server, resource: &str) -> u64 {
    let channel = if resource.contains('{') {
        format!("redisson_lock__channel:{resource}")
    } else {
        format!("redisson_lock__channel:{{{resource}}}")
    };
    let (_, count): (String, u64) = server.query(cmd("PUBSUB").arg("NUMSUB").arg(channel)).await;
    count
}

/// Whether no connection of a server is subscribed to the release of anything. The channel on which a
/// client hears of force stays for as long as the client lives.
pub(super) async fn nobody_waits_for_a_release(server: &Server) -> bool {
    let channels: Vec<String> = server.query(cmd("PUBSUB").arg("CHANNELS")).await;
    channels.iter().all(|channel| channel.starts_with("redisson_lock__channel:redquorum:force_unlocked:{"))
}

/// Waits until so many connections of a server are subscribed to the release of a resource.
pub(super) async fn have_subscribers(server: &Server, resource: &str, count: u64) {
    let what = format!("{resource} has {count} subscribers");
    eventually(SOON, &what, async || subscribers(server, resource).await == count).await;
}

/// Waits until so many clients are queued for a resource.
pub(super) async fn have_waiters(cluster: &Cluster, resource: impl AsRef<[u8]>, count: u64) {
    let resource = resource.as_ref();
    let queue = [b"redquorum:queue:{", resource, b"}"].concat();
    let what = format!("{} has {count} in the queue", resource.escape_ascii());
    eventually(SOON, &what, async || {
        let mut waiting = 0;
        for server in cluster.servers() {
            waiting += server.query::<u64>(cmd("ZCARD").arg(&queue)).await;
        }
        waiting == count
    })
    .await;
}

/// How many requests of clients a server has executed.
pub(super) async fn calls(server: &Server) -> u64 {
    let info = server.info("commandstats").await;
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.and_then(|line| line.split(',').next()).map_or(0, |calls| calls.parse().unwrap())
}
