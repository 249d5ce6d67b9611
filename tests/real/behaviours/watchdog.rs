//! The watchdog on real servers: renewals continue while some servers hang, and stop at the unlock.

use std::time::Duration;

use futures::{FutureExt, future::join_all};
use redquorum::LockGuard;
use redquorum_tests::{Cluster, Server};

use super::{SOON, WITH_TTL, builder, client, evalsha_calls, locked_on, wait_until_unlocked};

/// Returns the number of `EVALSHA` commands that each server has executed.
async fn all_calls(servers: &[Server]) -> Vec<u64> {
    join_all(servers.iter().map(evalsha_calls)).await
}

/// A hung server delays no renewal on the other servers, however many leases the client has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_and_a_dead_server_delay_no_renewal_on_other_servers() {
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

/// After an unlock has returned or a guard is dropped, no renewal is sent.
#[tokio::test]
async fn no_request_is_sent_for_an_unlocked_lease() {
    let cluster = Cluster::start(3).await;
    let ttl = Duration::from_millis(600);
    let builder = builder(&cluster).ttl(ttl).node_timeout(Duration::from_millis(300));
    let quorum = builder.connect().await.unwrap();
    for is_dropped in [false, true] {
        let guard = quorum.red_lock("r").lock().await.unwrap();
        let before = all_calls(cluster.servers()).await;
        tokio::time::sleep(ttl).await;
        let renewed = all_calls(cluster.servers()).await;
        assert!(
            before.iter().zip(&renewed).all(|(before, after)| before < after),
            "the lease was not renewed"
        );
        if is_dropped {
            drop(guard);
        } else {
            guard.unlock().await.unwrap();
        }
        wait_until_unlocked(&cluster, "r").await;
        let at_rest = all_calls(cluster.servers()).await;
        tokio::time::sleep(ttl).await;
        assert_eq!(all_calls(cluster.servers()).await, at_rest, "a request was sent after the unlock");
    }
}

/// A renewal in flight at the time of the unlock does not restore the key.
#[tokio::test]
async fn a_renewal_in_flight_does_not_restore_an_unlocked_key() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    for round in 0..150 {
        let lock = quorum.red_lock("r").options(WITH_TTL);
        let guard =
            lock.try_lock_for(SOON).await.unwrap().expect("the last round has not unlocked the resource");
        if round % 2 == 0 {
            // The renewal is sent, and its future dropped before the answer.
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
    wait_until_unlocked(&cluster, "r").await;
}

/// The watchdog restores no unlocked key, although many leases are unlocked at about the time at which their renewal is
/// due.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_watchdog_restores_no_unlocked_key() {
    let cluster = Cluster::start(3).await;
    // The short ttl makes renewals frequent.
    let ttl = Duration::from_millis(90);
    let builder = builder(&cluster).ttl(ttl).node_timeout(Duration::from_millis(60));
    let quorum = builder.connect().await.unwrap();
    let holders = (0..20_u64).map(|number| {
        let lock = quorum.red_lock(format!("r{number}"));
        tokio::spawn(async move {
            for round in 0..40 {
                // Shortly before or after the time of the first renewal, depending on the round. The client renews
                // leases for the first time after a random 7 to 30 ms.
                let hold = Duration::from_millis(5 + (number * 7 + round * 5) % 31);
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
    // If a renewal had restored a key, the first query would find the key.
    quorum.shutdown().await;
    for number in 0..20 {
        assert_eq!(locked_on(&cluster, format!("r{number}")).await.len(), 0, "r{number} is still locked");
    }
}
