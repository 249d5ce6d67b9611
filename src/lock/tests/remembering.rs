//! Nodes that need not look for how long they remember a fencing counter.

use std::time::Duration;

use super::{pass, server};
use crate::{
    MemoryCluster, Quorum,
    node::{Entry, Lock},
};

const COUNTER_TTL: Duration = Duration::from_secs(600);

fn client(cluster: &MemoryCluster) -> Quorum {
    Quorum::builder().counter_ttl(COUNTER_TTL).in_memory(cluster).unwrap()
}

/// Of the locks that came since the last call, those that spare the node the look, and those that do not.
fn relocks_and_locks(cluster: &MemoryCluster) -> (usize, usize) {
    let log = cluster.servers().iter().flat_map(|server| server.take_log());
    let is_relock = |entry| match entry {
        Entry::Lock(lock) => Some(Lock::is_relock(&lock)),
        _ => None,
    };
    let (relocks, locks): (Vec<bool>, Vec<bool>) =
        log.filter_map(is_relock).partition(|is_relock| *is_relock);
    (relocks.len(), locks.len())
}

async fn lock_and_unlock(quorum: &Quorum) {
    quorum.red_lock("r").lock().await.unwrap().unlock().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_voted_need_not_look_for_a_fifth_of_the_counters_life() {
    let cluster = MemoryCluster::new(1);
    let quorum = client(&cluster);
    lock_and_unlock(&quorum).await;
    assert_eq!(relocks_and_locks(&cluster), (0, 1));
    pass(COUNTER_TTL / 5 - Duration::from_millis(1)).await;
    lock_and_unlock(&quorum).await;
    assert_eq!(relocks_and_locks(&cluster), (1, 0));
    pass(Duration::from_millis(1)).await;
    lock_and_unlock(&quorum).await;
    assert_eq!(relocks_and_locks(&cluster), (0, 1));
    // What one client knows is nothing to another.
    lock_and_unlock(&client(&cluster)).await;
    assert_eq!(relocks_and_locks(&cluster), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_vote_that_was_not_given_spares_nothing() {
    let cluster = MemoryCluster::new(1);
    let quorum = client(&cluster);
    server(&cluster, 0).hold("r", "somebody", Duration::from_millis(100));
    assert!(quorum.red_lock("r").try_lock().await.unwrap().is_none());
    pass(Duration::from_secs(1)).await;
    lock_and_unlock(&quorum).await;
    assert_eq!(relocks_and_locks(&cluster), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn after_every_vote_a_counter_is_remembered_for_its_ttl_whoever_looked() {
    let cluster = MemoryCluster::new(3);
    let quorums = [client(&cluster), client(&cluster)];
    let mut relocks = 0;
    for number in 0..400_u32 {
        lock_and_unlock(&quorums[usize::from(number % 3 == 0)]).await;
        for server in cluster.servers() {
            let left = server.counter_left("r").unwrap();
            assert!(left >= COUNTER_TTL, "{left:?} after {number}");
        }
        relocks += relocks_and_locks(&cluster).0;
        pass(COUNTER_TTL * (1 + number % 7) / 97).await;
    }
    assert!(relocks > 400, "{relocks}");
}

#[tokio::test(start_paused = true)]
async fn a_counter_that_was_lost_meanwhile_is_begun_anew() {
    let cluster = MemoryCluster::new(1);
    let quorum = client(&cluster);
    let first = quorum.red_lock("r").lock().await.unwrap();
    let token = first.fencing_token();
    first.unlock().await.unwrap();
    server(&cluster, 0).forget_counter("r");
    pass(Duration::from_secs(2)).await;
    let second = quorum.red_lock("r").lock().await.unwrap();
    assert!(second.fencing_token() > token);
    assert_eq!(relocks_and_locks(&cluster).0, 1);
    assert_eq!(server(&cluster, 0).counter_left("r"), Some(COUNTER_TTL * 3 / 2));
}
