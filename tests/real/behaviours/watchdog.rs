//! What the watchdog does, and when it stops.

use std::time::Duration;

use futures::{FutureExt, future::join_all};
use redquorum::LockGuard;
use redquorum_tests::{Cluster, Server};

use super::{SOON, WITH_TTL, builder, calls, client, locked_on, unlocked_everywhere};

/// All that the servers have executed, once it has come to rest.
async fn all_calls(servers: &[Server]) -> Vec<u64> {
    join_all(servers.iter().map(calls)).await
}

/// A server that hangs delays no renewal on the others, however many leases there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_and_a_dead_server_starve_no_renewal_on_the_others() {
    let cluster = Cluster::start(5).await;
    let ttl = Duration::from_millis(1_500);
    let quorum = builder(&cluster).ttl(ttl).connect().await.unwrap();
    let locks: Vec<_> = (0..200).map(|number| quorum.red_lock(format!("r{number}"))).collect();
    let guards: Vec<LockGuard> =
        join_all(locks.iter().map(|lock| async { lock.lock().await.unwrap() })).await;
    cluster.server(0).freeze().await;
    cluster.server(1).kill().await;
    let all_lost = join_all(guards.iter().map(|guard| guard.lost()));
    let any_lost = futures::future::select_all(guards.iter().map(|guard| Box::pin(guard.lost())));
    let watched = ttl * 3;
    if let Ok((lost, ..)) = tokio::time::timeout(watched, any_lost).await {
        panic!("{lost}");
    }
    assert!(guards.iter().all(|guard| guard.is_valid()));
    assert!(all_lost.now_or_never().is_none());
}

/// No renewal is sent once an unlock has returned or a guard is dropped.
#[tokio::test]
async fn nothing_is_sent_for_a_lease_once_it_is_unlocked() {
    let cluster = Cluster::start(3).await;
    let ttl = Duration::from_millis(600);
    let builder = builder(&cluster).ttl(ttl).node_timeout(Duration::from_millis(300));
    let quorum = builder.connect().await.unwrap();
    for is_dropped in [false, true] {
        let guard = quorum.red_lock("r").lock().await.unwrap();
        let before = all_calls(cluster.servers()).await;
        tokio::time::sleep(ttl).await;
        let renewed = all_calls(cluster.servers()).await;
        assert!(before.iter().zip(&renewed).all(|(before, after)| before < after), "it was not renewed");
        if is_dropped {
            drop(guard);
        } else {
            guard.unlock().await.unwrap();
        }
        unlocked_everywhere(&cluster, "r").await;
        let at_rest = all_calls(cluster.servers()).await;
        tokio::time::sleep(ttl).await;
        assert_eq!(all_calls(cluster.servers()).await, at_rest, "something was sent after the unlock");
    }
}

/// A renewal that is under way when its lease is unlocked does not bring the key back.
#[tokio::test]
async fn a_renewal_that_races_with_the_unlock_does_not_revive_the_key() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    for round in 0..150 {
        let lock = quorum.red_lock("r").options(WITH_TTL);
        let guard = lock.try_lock_for(SOON).await.unwrap().expect("the last round has unlocked it");
        if round % 2 == 0 {
            // Sent, and nobody waits for it.
            assert!(guard.renew().now_or_never().is_none());
            guard.unlock().await.unwrap();
        } else {
            let mut renewing = Box::pin(guard.renew());
            assert!(renewing.as_mut().now_or_never().is_none());
            tokio::task::yield_now().await;
            drop(renewing);
            drop(guard);
        }
    }
    unlocked_everywhere(&cluster, "r").await;
}

/// Nor does the watchdog, where leases that are always due are unlocked all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_watchdog_revives_no_key_after_its_unlock() {
    let cluster = Cluster::start(3).await;
    // The ttl is short, and so the renewals are many; the nodes keep the key for much longer than
    // the test looks at it.
    let ttl = Duration::from_millis(90);
    let builder = builder(&cluster).ttl(ttl).node_timeout(Duration::from_millis(60));
    let quorum = builder.connect().await.unwrap();
    let holders = (0..20_u64).map(|number| {
        let lock = quorum.red_lock(format!("r{number}"));
        tokio::spawn(async move {
            for round in 0..20 {
                // Around the time of the renewal, now a little before and now a little after.
                let hold = Duration::from_millis(24 + (number * 7 + round * 5) % 13);
                if let Ok(guard) = lock.lock().await {
                    tokio::time::sleep(hold).await;
                    drop(guard.unlock().await);
                }
            }
        })
    });
    for outcome in join_all(holders).await {
        outcome.unwrap();
    }
    // A key that a renewal had brought back would be there at the first look, and be renewed for
    // ever.
    quorum.shutdown().await;
    for number in 0..20 {
        assert_eq!(locked_on(&cluster, format!("r{number}")).await.len(), 0, "r{number} is left");
    }
}
