//! The restart guard on real servers: a node that may have lost votes abstains until each lease that it may
//! have forgotten has ended.
//!
//! A scenario ([`assert_exclusion_broken_under`]) also runs with `RestartGuard::Off`, where two clients must be able to
//! hold the lock at once. Otherwise the scenario would show nothing. Other tests concern the admission of new nodes,
//! moves of a quorum, and the permissions and replies of nodes.

use std::time::Duration;

use futures::future::join_all;
use redquorum::{
    Error, LockGuard, LockOptions, Quorum, QuorumBuilder, RedLock, RestartGuard, admin, error::NodeReply,
};
use redquorum_tests::{Cluster, Direction, Kind, Proxy, Server, ServerOptions, Stopwatch, eventually};

use crate::real::{
    behaviours::{in_order, replies_of},
    servers::is_possible,
};

mod admission;
mod configurations;
mod forgetting;
mod healing;
mod permissions;
mod promotion;
mod redis_cluster;
mod replacing;
mod rolling;

/// The deadline of an effect that has to happen at once, on a machine under load.
const SOON: Duration = Duration::from_secs(10);

/// The ttl and `max_ttl`: long enough to restart servers under a lease, and short enough to wait for the end of a
/// lease.
const TTL: Duration = Duration::from_secs(3);

/// The attempt timeout and node timeout: long enough for healthy servers under load, and much shorter than [`TTL`].
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(600);

/// Returns settings with quarantines of a few seconds.
fn builder<S: Into<String>>(urls: impl IntoIterator<Item = S>) -> QuorumBuilder {
    let builder = Quorum::builder().nodes(urls).ttl(TTL).max_ttl(TTL);
    builder.attempt_timeout(ATTEMPT_TIMEOUT).node_timeout(ATTEMPT_TIMEOUT)
}

/// One variant of a scenario: the restart guard and the ttl.
#[derive(Clone, Copy, Debug)]
struct Variant {
    guard: RestartGuard,
    ttl: Duration,
}

impl From<RestartGuard> for Variant {
    fn from(guard: RestartGuard) -> Self {
        Self { guard, ttl: TTL }
    }
}

/// Three nodes on which a second client could get a quorum if node 1 forgot its vote. The holder's lock is on
/// nodes 0 and 1. A proxy discards the holder's requests to node 2.
#[derive(Debug)]
struct Scenario {
    /// The three nodes, and further servers of some scenarios.
    cluster: Cluster,
    /// The proxy through which both clients reach node 1.
    proxy_1: Proxy,
    _proxy_2: Proxy,
    holder: RedLock,
    other_client: Quorum,
    contender: RedLock,
    ttl: Duration,
}

impl Scenario {
    async fn start(variant: impl Into<Variant>) -> Self {
        Self::on(Cluster::start(3).await, variant).await
    }

    async fn on(cluster: Cluster, variant: impl Into<Variant>) -> Self {
        let Variant { guard, ttl } = variant.into();
        let proxy_1 = Proxy::before(cluster.server(1)).await;
        let proxy_2 = Proxy::before(cluster.server(2)).await;
        let (first, last) = (cluster.server(0).url(), cluster.server(2).url());
        let through =
            |last: &str| builder([&*first, proxy_1.url(), last]).ttl(ttl).max_ttl(ttl).restart_guard(guard);
        admin::init(&through(&last)).await.unwrap();
        let other_client = through(&last).connect().await.unwrap();
        let contender = other_client.red_lock("r");
        let fixed = LockOptions::new().without_renewal();
        let holder = through(proxy_2.url()).connect().await.unwrap().red_lock("r").options(fixed);
        proxy_2.cut(Direction::Requests);
        Self { cluster, proxy_1, _proxy_2: proxy_2, holder, other_client, contender, ttl }
    }

    /// Returns the server of node 1. The test makes this server forget the holder's vote.
    fn node_1(&self) -> &Server {
        self.cluster.server(1)
    }

    /// Locks without renewal, because a renewal would restore a lost key.
    async fn hold(&self) -> LockGuard {
        let guard = lock_eventually(&self.holder).await;
        assert_eq!(guard.node_replies().done(), 2, "not held on exactly a quorum: {}", guard.node_replies());
        guard
    }

    /// Returns the reply of node 1 to a lock of another, free resource.
    async fn reply_of_node_1(&self) -> NodeReply {
        let guard = match self.other_client.red_lock("free").try_lock().await {
            Ok(guard) => guard.expect("the resource is held, although no other client contends for it"),
            // On a machine that starts dozens of servers, another node may be slow.
            Err(error) => return in_order(&replies_of(error))[1].clone(),
        };
        let reply = || in_order(&guard.node_replies())[1].clone();
        eventually(SOON, "node 1 has answered", async || reply() != NodeReply::Pending).await;
        reply()
    }

    /// Lets the second client contend until it has the lock. Returns whether the holder's lease was still
    /// valid at that time.
    ///
    /// `None` if less than half of the ttl is left at the call. In the remaining time, the second client might not
    /// reach the changed server, so the scenario would show nothing.
    async fn second_holder_overlaps(&self, held: &LockGuard) -> Option<bool> {
        if held.remaining() < self.ttl / 2 {
            return None;
        }
        let guard = lock_eventually(&self.contender).await;
        let overlaps = held.is_valid();
        assert!(guard.is_valid());
        // If node 1 forgot its counter, the counter may have begun again in the same second. Therefore the token of a
        // second holder may be smaller.
        assert!(overlaps || guard.fencing_token() > held.fencing_token());
        Some(overlaps)
    }
}

/// Makes attempts until the lock is acquired, also while no quorum is available.
async fn lock_eventually(lock: &RedLock) -> LockGuard {
    let trying = async {
        loop {
            match lock.try_lock().await {
                Ok(Some(guard)) => return guard,
                Ok(None) => {}
                // On a machine that starts dozens of servers, other nodes may be slow, too.
                Err(Error::NoQuorum(_)) => {}
                Err(error) => panic!("{error}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONGEST_TTL + SOON, trying)
        .await
        .expect("the lock was not acquired before the deadline")
}

/// The maximum number of runs of a scenario. A scenario runs again, with twice the ttl, if the machine was too slow.
const MAX_RUNS: u32 = 5;
/// The ttl of the last run.
const LONGEST_TTL: Duration = Duration::from_secs(TTL.as_secs() << (MAX_RUNS - 1));

/// Runs a scenario under each restart guard, and asserts that the guards under which two clients held the lock at once
/// are those in `expected`. The scenario returns whether two clients did so, or `None` if the machine was too slow.
async fn assert_exclusion_broken_under(
    expected: &[RestartGuard],
    scenario: impl AsyncFn(Variant) -> Option<bool>,
) {
    let guards = [RestartGuard::PerConnection, RestartGuard::PerVote, RestartGuard::Off];
    let [guards, expected] = [&guards, expected]
        .map(|guards| -> Vec<_> { guards.iter().copied().filter(|guard| is_possible(*guard)).collect() });
    let is_broken_under = async |guard| {
        for run in 0..MAX_RUNS {
            if let Some(is_broken) = scenario(Variant { guard, ttl: TTL * (1 << run) }).await {
                return is_broken;
            }
        }
        panic!("the machine was too slow for the scenario in each of {MAX_RUNS} runs");
    };
    let outcomes = join_all(guards.iter().copied().map(is_broken_under)).await;
    let broken: Vec<_> = guards
        .into_iter()
        .zip(outcomes)
        .filter_map(|(guard, is_broken)| is_broken.then_some(guard))
        .collect();
    assert_eq!(broken, expected);
}

/// Whether a call failed because the nodes outside of quarantine are too few for a quorum.
fn is_quarantined<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::NoQuorum(error)) if error.is_quarantined())
}

/// Makes a quorum of all servers of a cluster, and connects two clients.
async fn two_clients(cluster: &Cluster, guard: RestartGuard) -> [Quorum; 2] {
    let builder = builder(cluster.urls()).restart_guard(guard);
    admin::init(&builder).await.unwrap();
    [builder.clone().connect().await.unwrap(), builder.connect().await.unwrap()]
}
