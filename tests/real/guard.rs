//! The restart guard: a node that may have forgotten votes gives none until every lease is over
//! that it may have forgotten.
//!
//! Each scene is played without the guard, too, and goes wrong there: otherwise it would show
//! nothing.

use std::time::Duration;

use futures::future::join_all;
use redquorum::{
    Error, LockGuard, LockOptions, Quorum, QuorumBuilder, RedLock, RestartGuard, admin, error::NodeReply,
};
use redquorum_tests::{Cluster, Direction, Proxy, Server, ServerOptions, Stopwatch, eventually};

use crate::real::behaviours::{in_order, replies_of};

mod admission;
mod configurations;
mod forgetting;
mod healing;
mod permissions;
mod promotion;
mod rolling;

/// Far longer than anything that happens at once takes on a machine under load.
const SOON: Duration = Duration::from_secs(10);

/// The ttl of locks and the longest there is: long enough to restart servers in, short enough to
/// wait for its end.
const TTL: Duration = Duration::from_secs(3);

/// Long enough for healthy servers under load, and well below [`TTL`].
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(600);

/// Settings under which quarantines last for seconds.
fn builder<S: Into<String>>(urls: impl IntoIterator<Item = S>) -> QuorumBuilder {
    let builder = Quorum::builder().nodes(urls).ttl(TTL).max_ttl(TTL);
    builder.attempt_timeout(ATTEMPT_TIMEOUT).node_timeout(ATTEMPT_TIMEOUT)
}

/// Under which guard a scene is played, and with what ttl.
#[derive(Clone, Copy, Debug)]
struct Play {
    guard: RestartGuard,
    ttl: Duration,
}

impl From<RestartGuard> for Play {
    fn from(guard: RestartGuard) -> Self {
        Self { guard, ttl: TTL }
    }
}

/// A quorum of which node 1 alone keeps others away: the holder's lock is on nodes 0 and 1, because
/// what the holder says to node 2 is lost.
#[derive(Debug)]
struct Scene {
    /// The nodes, and servers that are none yet.
    cluster: Cluster,
    /// The address of node 1, for both.
    front: Proxy,
    _lossy: Proxy,
    holder: RedLock,
    others: Quorum,
    contender: RedLock,
    ttl: Duration,
}

impl Scene {
    async fn start(play: impl Into<Play>) -> Self {
        Self::on(Cluster::start(3).await, play).await
    }

    async fn on(cluster: Cluster, play: impl Into<Play>) -> Self {
        let Play { guard, ttl } = play.into();
        let front = Proxy::before(cluster.server(1)).await;
        let lossy = Proxy::before(cluster.server(2)).await;
        let (first, last) = (cluster.server(0).url(), cluster.server(2).url());
        let through =
            |last: &str| builder([&*first, front.url(), last]).ttl(ttl).max_ttl(ttl).restart_guard(guard);
        admin::init(&through(&last)).await.unwrap();
        let others = through(&last).connect().await.unwrap();
        let contender = others.red_lock("r");
        let fixed = LockOptions::new().without_renewal();
        let holder = through(lossy.url()).connect().await.unwrap().red_lock("r").options(fixed);
        lossy.cut(Direction::Requests);
        Self { cluster, front, _lossy: lossy, holder, others, contender, ttl }
    }

    /// The node that something happens to.
    fn node_1(&self) -> &Server {
        self.cluster.server(1)
    }

    /// Locks for one ttl, without renewals: they would bring the lock back.
    async fn hold(&self) -> LockGuard {
        let guard = had(&self.holder).await;
        assert_eq!(guard.node_replies().done(), 2, "held on exactly a quorum: {}", guard.node_replies());
        guard
    }

    /// The reply of node 1 to another client's lock of a free resource.
    async fn reply_of_node_1(&self) -> NodeReply {
        let guard = match self.others.red_lock("free").try_lock().await {
            Ok(guard) => guard.expect("no other client asks for it"),
            // Another node was slow, on a machine that starts dozens of servers.
            Err(error) => return in_order(&replies_of(error))[1].clone(),
        };
        let reply = || in_order(&guard.node_replies())[1].clone();
        eventually(SOON, "node 1 has answered", async || reply() != NodeReply::Pending).await;
        reply()
    }

    /// Contends until the lock is had: whether the holder's lease was still valid then. `None` if most
    /// of it is over already: the machine was too slow for the scene, and clients have yet to connect
    /// again.
    async fn gets_in_beside(&self, held: &LockGuard) -> Option<bool> {
        if held.remaining() < self.ttl / 2 {
            return None;
        }
        let guard = had(&self.contender).await;
        let is_beside = held.is_valid();
        assert!(guard.is_valid());
        // Nothing holds any more once somebody got in: both tokens may have begun at the same
        // second.
        assert!(is_beside || guard.fencing_token() > held.fencing_token());
        Some(is_beside)
    }
}

/// Tries until the lock is had.
async fn had(lock: &RedLock) -> LockGuard {
    let trying = async {
        loop {
            match lock.try_lock().await {
                Ok(Some(guard)) => return guard,
                Ok(None) => {}
                // Of other nodes, too, on a machine that starts dozens of servers.
                Err(Error::NoQuorum(_)) => {}
                Err(error) => panic!("{error}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONGEST_TTL + SOON, trying).await.expect("the lock is had in the end")
}

/// How often a scene is played for which the machine was too slow, each time with twice the ttl.
const PLAYS: u32 = 5;
const LONGEST_TTL: Duration = Duration::from_secs(TTL.as_secs() << (PLAYS - 1));

/// Plays a scene under every guard, where it tells whether somebody got in beside the holder: these
/// let it come to that.
async fn broken_under(expected: &[RestartGuard], play: impl AsyncFn(Play) -> Option<bool>) {
    let guards = [RestartGuard::PerConnection, RestartGuard::PerVote, RestartGuard::Off];
    let in_time = async |guard| {
        for before in 0..PLAYS {
            if let Some(is_broken) = play(Play { guard, ttl: TTL * (1 << before) }).await {
                return is_broken;
            }
        }
        panic!("{PLAYS} times, most of the lease was over before the scene was");
    };
    let plays = join_all(guards.map(in_time)).await;
    let broken: Vec<_> =
        guards.into_iter().zip(plays).filter_map(|(guard, is_broken)| is_broken.then_some(guard)).collect();
    assert_eq!(broken, expected);
}

/// Whether a call failed because of nodes in quarantine.
fn is_quarantined<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::NoQuorum(error)) if error.is_quarantined())
}

/// A new quorum of all servers of a cluster, and two clients.
async fn two_clients(cluster: &Cluster, guard: RestartGuard) -> [Quorum; 2] {
    let builder = builder(cluster.urls()).restart_guard(guard);
    admin::init(&builder).await.unwrap();
    [builder.clone().connect().await.unwrap(), builder.connect().await.unwrap()]
}
