//! The list of all locks of a quorum.

use std::time::Duration;

use crate::lock::tests::{client, pass, server};
use crate::{
    MemoryCluster, admin,
    error::Error,
    inspection::{Listing, LockState, NodeInspection},
    node::{Operation, memory::Behaviour},
    values::{NodeError, Resource},
};

const FIRST: &str = "web/5f0c1f1e-4f0f-4b6f-8d55-0e2b7a3f8d10:1";
const SECOND: &str = "job/5f0c1f1e-4f0f-4b6f-8d55-0e2b7a3f8d11:1";
const TTL: Duration = Duration::from_secs(20);

/// Returns the name and the state of each listed lock, and the numbers of nodes that agree with that state and that
/// differ.
fn summary(listing: &Listing) -> Vec<(String, LockState, usize, usize)> {
    let locks = listing.locks().map(|(name, inspection)| {
        (name.to_string(), inspection.state(), inspection.agreeing(), inspection.differing().count())
    });
    locks.collect()
}

#[tokio::test(start_paused = true)]
async fn a_list_has_each_lock_once_even_if_only_one_node_has_it() {
    let cluster = MemoryCluster::new(5);
    let quorum = client(&cluster);
    for node in 0..4 {
        server(&cluster, node).hold("a", FIRST, TTL);
    }
    // The last node has another lease on `a`, and is the only node with a lease on `b`.
    server(&cluster, 4).hold("a", SECOND, TTL);
    server(&cluster, 4).hold("b", FIRST, TTL);
    server(&cluster, 2).hold("c", "an application's", TTL);
    let listing = admin::list(&quorum, |_| true).await.unwrap();
    let expected = [("a".to_owned(), LockState::Held, 4, 1), ("b".to_owned(), LockState::Free, 4, 1)];
    assert_eq!(summary(&listing), expected);
    let inspection = listing.locks().next().unwrap().1;
    assert_eq!(inspection.holder().and_then(|owner| owner.label()), Some("web"));
    let differing: Vec<&str> = inspection.differing().map(NodeInspection::address).collect();
    assert_eq!(differing, [inspection.nodes().last().unwrap().address()]);
    assert_eq!(listing.silent().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_list_names_nodes_without_a_list_and_waits_for_them_once() {
    let cluster = MemoryCluster::new(5);
    let quorum = client(&cluster);
    for name in 0..200 {
        for node in 0..5 {
            server(&cluster, node).hold(&format!("{name:03}"), FIRST, TTL);
        }
    }
    server(&cluster, 0).behave(Behaviour::Hanging);
    server(&cluster, 1).behave(Behaviour::Failing(NodeError::ScanForbidden));
    let start = tokio::time::Instant::now();
    let listing = admin::list(&quorum, |_| true).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(1), "the list waits for one node timeout");
    let locks = summary(&listing);
    assert_eq!(locks.len(), 200);
    assert!(
        locks.iter().all(|(_, state, agree, differ)| (*state, *agree, *differ) == (LockState::Held, 3, 0))
    );
    let silent: Vec<_> = listing.silent().map(|(_, error)| error.clone()).collect();
    assert_eq!(silent, [NodeError::TimedOut, NodeError::ScanForbidden]);
    server(&cluster, 2).behave(Behaviour::Failing(NodeError::ScanForbidden));
    let Err(Error::NoQuorum(no_quorum)) = admin::list(&quorum, |_| true).await else { panic!() };
    assert_eq!(no_quorum.node_replies().needed(), 3);
    assert!(no_quorum.to_string().contains("(`ACL SETUSER USER +scan`)"), "{no_quorum}");
}

#[tokio::test(start_paused = true)]
async fn a_list_keeps_locks_of_nodes_that_fall_silent_before_the_inspection() {
    for silent in 1..=3 {
        let cluster = MemoryCluster::new(3);
        let quorum = client(&cluster);
        server(&cluster, 0).hold("a", FIRST, TTL);
        server(&cluster, 0).behave(Behaviour::Hanging);
        let fall_silent = async {
            while !server(&cluster, 0).answer_next() {
                tokio::task::yield_now().await;
            }
            for node in 1..silent {
                server(&cluster, node).behave(Behaviour::Hanging);
            }
        };
        let (listing, ()) = tokio::join!(admin::list(&quorum, |_| true), fall_silent);
        let listing = listing.unwrap();
        let state = if silent == 1 { LockState::Free } else { LockState::Unclear };
        assert_eq!(summary(&listing), [("a".to_owned(), state, 3 - silent, 0)]);
        assert_eq!(listing.silent().count(), silent);
        assert!(listing.silent().all(|(_, error)| *error == NodeError::TimedOut));
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_has_no_lock_that_was_unlocked_before_the_inspection() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let guard = quorum.red_lock("a").lock().await.unwrap();
    for server in cluster.servers() {
        server.behave(Behaviour::Hanging);
    }
    let unlock = async {
        for server in cluster.servers() {
            while !server.answer_next() {
                tokio::task::yield_now().await;
            }
        }
        // The unlock reaches each node before the inspection.
        drop(guard);
        for server in cluster.servers() {
            server.thaw();
        }
    };
    let (listing, ()) = tokio::join!(admin::list(&quorum, |_| true), unlock);
    let listing = listing.unwrap();
    assert_eq!((listing.locks().count(), listing.silent().count()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_list_distinguishes_readers_waiters_and_permits() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let readers = [quorum.rw_lock("shared").read().await.unwrap(), {
        let other = client(&cluster);
        other.rw_lock("shared").read().await.unwrap()
    }];
    let permit = quorum.semaphore("gpu", 1).acquire().await.unwrap();
    let held = quorum.red_lock("held").lock().await.unwrap();
    let waiting = client(&cluster).red_lock("held");
    let waiter = tokio::spawn(async move { waiting.lock().await });
    pass(Duration::from_millis(100)).await;
    let listing = admin::list(&quorum, |_| true).await.unwrap();
    let names: Vec<String> = listing.locks().map(|(name, _)| name.to_string()).collect();
    assert_eq!(names, ["held", "shared", "slot 0 of gpu"]);
    let [held_lock, shared, _] = &*listing.locks().map(|(_, inspection)| inspection).collect::<Vec<_>>()
    else {
        panic!()
    };
    assert_eq!((held_lock.waiters(), held_lock.first_waiter().is_some()), (1, true));
    assert_eq!(held_lock.counter(), Some(u64::from(held.fencing_token())));
    assert_eq!((shared.state(), shared.holds(), shared.readers().count()), (LockState::Shared, 2, 2));
    let gpu = Resource::new("gpu").unwrap();
    assert_eq!(summary(&admin::list(&quorum, |lock| *lock.name() == gpu).await.unwrap()).len(), 1);
    drop((readers, permit));
    held.unlock().await.unwrap();
    waiter.await.unwrap().unwrap().unlock().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_list_has_all_waiters_the_candidates_of_an_election_and_latches() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let held = quorum.red_lock("held").lock().await.unwrap();
    let leadership = quorum.election("leader").campaign("a").await.unwrap();
    quorum.latch("migrated", 3).arrive_as("one").await.unwrap();
    let others = [client(&cluster), client(&cluster)];
    let mut waiters = Vec::new();
    for other in &others {
        let (lock, election) = (other.red_lock("held"), other.election("leader"));
        waiters.push(tokio::spawn(async move { drop(lock.lock().await) }));
        waiters.push(tokio::spawn(async move { drop(election.campaign("b").await) }));
        pass(Duration::from_millis(100)).await;
    }
    let listing = admin::list(&quorum, |_| true).await.unwrap();
    let locks: Vec<_> = listing.locks().collect();
    let shown: Vec<_> = locks
        .iter()
        .map(|(name, found)| (name.to_string(), found.is_led(), found.waiters(), found.queue().count()))
        .collect();
    assert_eq!(shown, [("held".to_owned(), false, 2, 2), ("leader".to_owned(), true, 2, 2)]);
    let clients: Vec<_> =
        others.iter().map(|other| other.client().context.lease_ids.name().to_vec()).collect();
    for (_, found) in &locks {
        let queue: Vec<_> = found.queue().filter_map(|waiter| waiter.client().map(<[u8]>::to_vec)).collect();
        assert_eq!(queue, clients, "the queue is in order of arrival");
    }
    let [(name, found)] = &*listing.latches().collect::<Vec<_>>() else { panic!("{listing:?}") };
    let latch = found.latch().unwrap();
    assert_eq!((name.as_bytes(), latch.count(), latch.arrived()), (&b"migrated"[..], 3, 1));
    // A node that has a record of the latch falls silent.
    server(&cluster, 0).behave(Behaviour::Hanging);
    let listing = admin::list(&quorum, |lock| lock.name().as_bytes() == b"migrated").await.unwrap();
    assert_eq!((listing.latches().count(), listing.locks().count(), listing.silent().count()), (1, 0, 1));
    waiters.iter().for_each(tokio::task::JoinHandle::abort);
    drop((held, leadership));
}

#[tokio::test(start_paused = true)]
async fn a_list_inspects_only_the_locks_that_the_filter_accepts() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    for name in ["a", "b", "c"] {
        server(&cluster, 0).hold(name, FIRST, TTL);
        server(&cluster, 1).hold(name, FIRST, TTL);
    }
    server(&cluster, 0).take_log();
    assert_eq!(admin::list(&quorum, |lock| lock.name().as_bytes() == b"b").await.unwrap().locks().count(), 1);
    let operations = server(&cluster, 0).take_log();
    assert!(matches!(&*operations, [Operation::List(_), Operation::Inspect(_)]), "{operations:?}");
}
