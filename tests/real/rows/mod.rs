//! Defects known from other quorum locks, each shown not to be ours, on real servers and through the public API.
//!
//! A row is a letter of the list of those defects; its test names it. Rows that virtual time shows better are tested
//! beside the code.

use std::time::Duration;

use redis::{Cmd, cmd};
use redquorum::{Quorum, QuorumBuilder, RetryPolicy};

use crate::support::{Cluster, Server, eventually};

mod configuration;
mod diagnosis;
mod endings;
mod healing;
mod many_waiters;
mod names;
mod order;
mod ownership;
mod renewal;
mod resend;
mod waiting;

/// Far longer than anything here takes on an idle machine, and shorter than the default ttl: what is gone by then was
/// taken away, and did not end by itself.
const SOON: Duration = Duration::from_secs(8);

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(300);

/// A client with the default settings.
async fn client(cluster: &Cluster) -> Quorum {
    connected(Quorum::builder().nodes(cluster.urls())).await
}

async fn connected(builder: QuorumBuilder) -> Quorum {
    builder.connect().await.unwrap()
}

/// No fallback polls: only notices and the end of ttls wake a waiter.
fn without_polls() -> RetryPolicy {
    RetryPolicy::default().polls(NEVER, NEVER)
}

/// The fields of a resource's hash on a server that answers: owners and their holds.
async fn holders(server: &Server, resource: &[u8]) -> Vec<(String, String)> {
    server.query(cmd("HGETALL").arg(resource)).await
}

/// Puts somebody else's lock on a server, with or without a ttl.
async fn hold_as(server: &Server, resource: &str, owner: &str, ttl: Option<Duration>) {
    server.command(&["DEL", resource]).await;
    server.command(&["HSET", resource, owner, "1"]).await;
    if let Some(ttl) = ttl {
        server.command(&["PEXPIRE", resource, &ttl.as_millis().to_string()]).await;
    }
}

/// How many of these servers, all of which answer, have a lock on the resource.
async fn locked(servers: &[Server], resource: &[u8]) -> usize {
    let mut locked = 0;
    for server in servers {
        locked += usize::from(server.query::<bool>(cmd("EXISTS").arg(resource)).await);
    }
    locked
}

/// The resource is locked on no server, long before its ttl could have seen to that.
async fn is_freed(servers: &[Server], resource: &[u8]) {
    let what = format!("{} is left on no server", resource.escape_ascii());
    eventually(SOON, &what, async || locked(servers, resource).await == 0).await;
}

/// Where the release of a resource is told.
fn channel(resource: &[u8]) -> Vec<u8> {
    if resource.contains(&b'{') {
        [b"redisson_lock__channel:", resource].concat()
    } else {
        [b"redisson_lock__channel:{", resource, b"}"].concat()
    }
}

/// How many connections of a server are subscribed to the release of a resource.
async fn subscribers(server: &Server, resource: &[u8]) -> u64 {
    let mut command = cmd("PUBSUB");
    let (_, subscribers): (Vec<u8>, u64) = server.query(command.arg("NUMSUB").arg(channel(resource))).await;
    subscribers
}

/// So many connections of every server wait for the release of a resource.
async fn have_subscribers(servers: &[Server], resource: &[u8], count: u64) {
    let what = format!("{} has {count} subscribers on every server", resource.escape_ascii());
    eventually(SOON, &what, async || {
        for server in servers {
            if subscribers(server, resource).await != count {
                return false;
            }
        }
        true
    })
    .await;
}

/// How many script calls a server has executed: all that we ever ask of it.
async fn calls(server: &Server) -> u64 {
    let stats: String = server.query(Cmd::new().arg("INFO").arg("commandstats")).await;
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.and_then(|line| line.split(',').next()).map_or(0, |calls| calls.parse().unwrap())
}

/// How many connections a server has, this look at it aside.
async fn connections(server: &Server) -> u64 {
    server.info_field("clients", "connected_clients").await.parse::<u64>().unwrap() - 1
}
