//! A quorum on three servers beside a Redis Cluster.
//!
//! Promise: if servers die with votes that no other server has, a lock in the cluster goes to a second client before its
//! ttl is over, and a lease on the servers beside the cluster does not. `docs/CLUSTER.md` describes the setup.

use redquorum_tests::RedisCluster;

use super::*;

/// The `cluster-node-timeout`, after which the servers of the cluster replace a dead master.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);

/// The deadline of the failover, on a machine under load.
const FAILOVER: Duration = Duration::from_secs(35);

/// The ttl of each lock: longer than all steps of the test.
const LOCK_TTL: Duration = Duration::from_secs(60);

/// Locks `r` for an owner in the cluster, by one key that is set unless it exists. Returns whether the owner has the lock
/// now, or `None` if no server serves the slot of the key.
async fn lock_plainly(cluster: &RedisCluster, owner: &str) -> Option<bool> {
    let mut set = redis::cmd("SET");
    set.arg("r").arg(owner).arg("NX").arg("PX").arg(LOCK_TTL.as_millis().to_string());
    let reply: Option<String> = cluster.try_query(&set).await.ok()?;
    Some(reply.is_some())
}

/// Whether an attempt gets no lock.
async fn is_refused(lock: &RedLock) -> bool {
    match lock.try_lock().await {
        Ok(guard) => guard.is_none(),
        // On a machine that starts dozens of servers, other nodes may be slow.
        Err(error) => matches!(error, Error::NoQuorum(_)),
    }
}

/// The machine dies that runs a master of the cluster and node 1. The replica of the master does not have the key of the
/// plain lock. Node 1 starts again without the vote that the holder's quorum needs. Without a restart guard, a second
/// client gets the lease, too, so the event is as hard for the three servers as for the cluster.
#[tokio::test]
async fn a_failover_gives_a_plain_lock_away_but_no_lease_beside_the_cluster() {
    let variant = |guard| Variant { guard, ttl: LOCK_TTL };
    let (cluster, beside, unguarded) = tokio::join!(
        RedisCluster::start(NODE_TIMEOUT),
        Scenario::start(variant(RestartGuard::PerConnection)),
        Scenario::start(variant(RestartGuard::Off)),
    );
    let shard = cluster.shard_of("r").await;
    let (held, held_without_guard) = (beside.hold().await, unguarded.hold().await);
    cluster.discard_replication(shard);
    let since_plain_lock = Stopwatch::start();
    assert_eq!(lock_plainly(&cluster, "first").await, Some(true));
    assert_eq!(lock_plainly(&cluster, "second").await, Some(false));

    cluster.master(shard).kill().await;
    tokio::join!(beside.node_1().restart_empty(), unguarded.node_1().restart_empty());

    assert_eq!(unguarded.second_holder_overlaps(&held_without_guard).await, Some(true));
    eventually(FAILOVER, "the second client has the plain lock", async || {
        assert!(is_refused(&beside.contender).await, "the lease was granted twice");
        lock_plainly(&cluster, "second").await == Some(true)
    })
    .await;
    let elapsed = since_plain_lock.elapsed();
    assert!(elapsed < LOCK_TTL, "the first plain lock has ended: {elapsed:?}");

    assert!(is_refused(&beside.contender).await, "the lease was granted twice");
    held.ensure().unwrap();
    let token = held.fencing_token();
    held.unlock().await.unwrap();
    assert!(lock_eventually(&beside.contender).await.fencing_token() > token);
}
