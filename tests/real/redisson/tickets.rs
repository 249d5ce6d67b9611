//! Clients of Redisson beside tickets and minimum holds. For these clients, a ticket is the lock of another client: a
//! hash with one field and a ttl.

use std::time::{Duration, Instant};

use redquorum::{LockOptions, Quorum, Ticket};
use redquorum_tests::{Cluster, Stopwatch};

use super::{
    super::servers::{client, leases},
    MAX_HAND_OVER, assert_prompt,
    client::{RLock, Wake},
    redisson, wait_for_rlock,
};

/// The ttl of tickets that are redeemed or released before their end.
const TICKET_TTL: Duration = Duration::from_secs(60);

async fn issue(quorum: &Quorum, ttl: Duration) -> Ticket {
    quorum.red_lock("r").lock().await.unwrap().into_ticket(ttl).await.unwrap()
}

/// Asserts that a ticket or a lease holds the resource, and that the lock of Redisson is refused.
async fn assert_refused(cluster: &Cluster, rlock: &RLock, holder: &str) {
    assert_eq!(leases(cluster.server(0), "r").await, [(holder.to_owned(), 1)]);
    assert!(rlock.try_lock().await.is_err(), "the RLock has locked the resource of {holder}");
}

#[tokio::test]
async fn an_rlock_waits_for_a_ticket_and_for_its_redeemer() {
    let cluster = Cluster::start(1).await;
    let (giver, worker) = (client(&cluster).await, client(&cluster).await);
    let redisson = redisson(&cluster).await;
    let guard = giver.red_lock("r").lock().await.unwrap();
    let waiting = wait_for_rlock(redisson.lock("r", 1)).await;
    let other = redisson.lock("r", 2);
    let ticket = guard.into_ticket(TICKET_TTL).await.unwrap();
    assert_refused(&cluster, &other, &ticket.id().to_string()).await;
    // Redisson can neither unlock nor renew the ticket.
    assert_eq!((other.unlock().await, other.renew().await), (None, false));
    let guard = worker.redeem(&ticket, LockOptions::new()).await.unwrap().expect("the ticket is good");
    assert_refused(&cluster, &other, &guard.id().to_string()).await;
    assert!(!waiting.is_finished());
    let start = Stopwatch::start();
    guard.unlock().await.unwrap();
    assert_eq!(waiting.await.unwrap(), Wake::Message);
    assert_prompt(start);
}

#[tokio::test]
async fn the_release_of_a_ticket_wakes_an_rlock() {
    let cluster = Cluster::start(1).await;
    let quorum = client(&cluster).await;
    let ticket = issue(&quorum, TICKET_TTL).await;
    let waiting = wait_for_rlock(redisson(&cluster).await.lock("r", 1)).await;
    let start = Stopwatch::start();
    quorum.release(&ticket).await.unwrap();
    assert_eq!(waiting.await.unwrap(), Wake::Message);
    assert_prompt(start);
}

#[tokio::test]
async fn a_ticket_is_spent_after_an_rlock() {
    let ttl = Duration::from_millis(800);
    let cluster = Cluster::start(1).await;
    let quorum = client(&cluster).await;
    let ticket = issue(&quorum, ttl).await;
    let start = Stopwatch::start();
    let rlock = redisson(&cluster).await.lock("r", 1);
    let waiting = wait_for_rlock(rlock.clone()).await;
    assert_eq!(waiting.await.unwrap(), Wake::Ttl);
    assert!(start.undelayed() < ttl + MAX_HAND_OVER, "{start:?}");
    assert!(quorum.redeem(&ticket, LockOptions::new()).await.unwrap().is_none());
    assert_eq!(rlock.unlock().await, Some(true));
    assert!(quorum.redeem(&ticket, LockOptions::new()).await.unwrap().is_none());
    assert!(leases(cluster.server(0), "r").await.is_empty());
}

/// The release publishes no notice during the minimum hold, so the waiter sleeps until the ttl that its last refusal
/// returned.
#[tokio::test]
async fn an_rlock_waits_for_the_end_of_a_minimum_hold() {
    let (ttl, at_least) = (Duration::from_secs(2), Duration::from_secs(1));
    let cluster = Cluster::start(1).await;
    let quorum = client(&cluster).await;
    let rlock = redisson(&cluster).await.lock("r", 1);
    let options = LockOptions::new().ttl(ttl).hold_at_least(at_least);
    let begin = Instant::now();
    let guard = quorum.red_lock("r").options(options).lock().await.unwrap();
    let watch = Stopwatch::start();
    let waiting = wait_for_rlock(rlock.clone()).await;
    guard.unlock().await.unwrap();
    assert_eq!(waiting.await.unwrap(), Wake::Ttl);
    assert!(begin.elapsed() >= at_least, "{:?}", begin.elapsed());
    assert!(watch.undelayed() < ttl + MAX_HAND_OVER, "{watch:?}");
    assert_eq!(rlock.unlock().await, Some(true));
}
