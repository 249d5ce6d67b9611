//! Who may unlock what.

use std::{collections::BTreeSet, time::Duration};

use redquorum::{LossReason, OwnerId, UnlockError, Vote};

use super::{SOON, client, hold_as, holders, is_freed};
use crate::support::{Cluster, eventually};

const TTL: Duration = Duration::from_secs(20);

/// Row T: an owner is a random uuid of its client (version 4: 122 bits from the operating system) and a number; no two
/// clients share the first, no two leases of a client the second, and the guard shows what the servers store.
#[tokio::test]
async fn no_two_leases_share_an_owner_and_clients_are_random_uuids() {
    let cluster = Cluster::start(1).await;
    let mut owners = BTreeSet::new();
    let mut clients = BTreeSet::new();
    for _ in 0..4 {
        let quorum = client(&cluster).await;
        for _ in 0..4 {
            let guard = quorum.red_lock("r").lock().await.unwrap();
            let owner = guard.owner().to_string();
            assert_eq!(holders(cluster.server(0), b"r").await, [(owner.clone(), "1".to_owned())]);
            let (client, number) = owner.split_once(':').unwrap();
            assert!(number.parse::<u64>().is_ok(), "{owner}");
            let uuid: Vec<char> = client.chars().collect();
            assert!(
                uuid.len() == 36 && uuid[14] == '4' && "89ab".contains(uuid[19]),
                "{client} is no uuid v4"
            );
            clients.insert(client.to_owned());
            owners.insert(owner);
            guard.unlock().await.unwrap();
        }
    }
    assert_eq!((clients.len(), owners.len()), (4, 16));
}

/// Row U: a guard whose lease is somebody else's by now gets an error for its unlock, and the other keeps the lock.
#[tokio::test]
async fn unlocking_what_is_anothers_by_now_is_an_error_and_leaves_it_alone() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let guard = quorum.red_lock("r").without_renewal().lock().await.unwrap();
    for server in cluster.servers() {
        hold_as(server, "r", "other:7", Some(TTL)).await;
    }
    let outcome = guard.unlock().await;
    let Err(UnlockError::LeaseLost { lost, votes }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(lost.reason, LossReason::TakenAway);
    assert!(votes.granted() >= 2, "a quorum has said so: {votes}");
    quorum.shutdown().await;
    for server in cluster.servers() {
        assert_eq!(holders(server, b"r").await, [("other:7".to_owned(), "1".to_owned())]);
    }
}

/// Row U: nor does a guard that is dropped without a look at what became of its lease take anything from the next holder.
#[tokio::test]
async fn dropping_a_stale_guard_leaves_the_next_holder_alone() {
    let cluster = Cluster::start(3).await;
    let (stale, next) = (client(&cluster).await, client(&cluster).await);
    let old = stale.red_lock("r").without_renewal().lock().await.unwrap();
    for server in cluster.servers() {
        server.command(&["DEL", "r"]).await;
    }
    let new = next.red_lock("r").lock().await.unwrap();
    eventually(SOON, "the next holder has all servers", async || new.votes().granted() == 3).await;
    drop(old);
    stale.shutdown().await;
    for server in cluster.servers() {
        assert_eq!(holders(server, b"r").await, [(new.owner().to_string(), "1".to_owned())]);
    }
}

/// Row AB: a renewal extends a key only for its owner. What is another's keeps the ttl that the other gave it.
#[tokio::test]
async fn a_renewal_never_extends_a_key_that_is_anothers() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let guard = quorum.red_lock("r").ttl(Duration::from_secs(60)).lock().await.unwrap();
    hold_as(cluster.server(0), "r", "other:7", Some(TTL)).await;
    guard.renew().await.unwrap();
    eventually(SOON, "the vote of the server is known", async || {
        matches!(guard.votes().iter().next(), Some((_, Vote::Refused(_))))
    })
    .await;
    assert_eq!(holders(cluster.server(0), b"r").await, [("other:7".to_owned(), "1".to_owned())]);
    let remaining: u128 = cluster.server(0).query(redis::cmd("PTTL").arg("r")).await;
    assert!(remaining <= TTL.as_millis(), "extended to {remaining} ms");
}

/// A handle can be used again and again; every lease has an owner of its own, and its unlock is confirmed.
#[tokio::test]
async fn one_handle_locks_unlocks_and_locks_again() {
    let cluster = Cluster::start(3).await;
    let lock = client(&cluster).await.red_lock("r");
    let mut owners: Vec<OwnerId> = Vec::new();
    for _ in 0..3 {
        let guard = lock.lock().await.unwrap();
        assert_eq!(guard.holds(), 1);
        assert!(lock.try_lock().await.unwrap().is_none(), "a lock is not re-entrant by accident");
        assert!(!owners.contains(guard.owner()));
        owners.push(guard.owner().clone());
        let unlocked = guard.unlock().await.unwrap();
        assert!(unlocked.confirmed.len() >= 2, "{unlocked:?}");
        is_freed(cluster.servers(), b"r").await;
    }
}
