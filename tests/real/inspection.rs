//! `inspect`, `admin::force_unlock` and `verify` on real servers.
//!
//! Promises: an inspection reports the lease that has a quorum. Without answers of a quorum, the inspection is an
//! error, and never "free". `verify` proves a lease only while a quorum has its counter.

use std::time::{Duration, Instant};

use redis::cmd;
use redquorum::{
    LeaseId, Owner, Quorum, RestartGuard, admin,
    error::{LossReason, NodeError},
    inspection::{Inspection, LockState, NodeInspection},
};
use redquorum_tests::{Cluster, eventually};

use super::{
    behaviours::replies_of,
    servers::{
        RARE_POLLS, SOON, builder, client, evalsha_calls, holds, put_lease, repeat_until_woken,
        wait_for_holds, wait_for_queue_entries,
    },
};

/// The default ttl, which the locks of these tests have.
const TTL: Duration = Duration::from_secs(30);

/// The inspection is the view of a quorum, with the answer of each node.
#[tokio::test]
async fn an_inspection_has_holder_holds_remaining_time_and_every_nodes_answer() {
    let cluster = Cluster::start(3).await;
    let (quorum, observer) = (client(&cluster).await, client(&cluster).await);
    let free = inspect(&observer).await;
    assert_eq!((free.state(), free.holder(), free.holds()), (LockState::Free, None, 0));
    assert_eq!(free.remaining(), None);

    let lock = quorum.red_lock("r").owned_by(&Owner::new());
    let (outer, _inner) = (lock.lock().await.unwrap(), lock.lock().await.unwrap());
    wait_for_holds(cluster.servers(), "r", 2).await;
    let keys = cluster.server(0).keys().await;
    let held = inspect(&observer).await;
    assert_eq!(held.state(), LockState::Held);
    assert_eq!((held.holder(), held.holds()), (Some(outer.id()), 2));
    let remaining = held.remaining().unwrap();
    assert!(remaining <= TTL && remaining > TTL / 2, "{remaining:?}");
    let addresses: Vec<&str> = held.nodes().map(NodeInspection::address).collect();
    let ports = cluster.servers().iter().map(|server| server.port().to_string());
    assert!(addresses.iter().zip(ports).all(|(address, port)| address.contains(&port)), "{addresses:?}");
    for node in held.nodes() {
        assert_eq!((node.holder(), node.holds(), node.is_held()), (Ok(Some(outer.id())), 2, true));
        assert!(node.remaining().unwrap() <= TTL, "{node:?}");
        // A node whose clock is in the next second may have given a larger vote.
        let token = outer.fencing_token().as_u64();
        assert!(node.counter().is_some_and(|counter| counter >= token), "{node:?}");
        assert!(node.latency().is_some_and(|latency| latency > Duration::ZERO), "{node:?}");
    }
    assert!(free.nodes().all(|node| node.counter().is_none()), "a counter exists before the first lock");
    assert_eq!(cluster.server(0).keys().await, keys, "the inspection changed keys");
}

/// A dead or frozen node is reported with an error in place of a holder. The result of the inspection stays the same.
#[tokio::test]
async fn an_inspection_has_the_same_result_if_a_minority_does_not_answer() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let guard = quorum.red_lock("r").lock().await.unwrap();
    wait_for_holds(cluster.servers(), "r", 1).await;
    cluster.server(1).freeze().await;
    let frozen = inspect(&quorum).await;
    assert_eq!((frozen.holder(), frozen.holds()), (Some(guard.id()), 1));
    assert_eq!(unanswered(&frozen), [1]);
    let timed: Vec<bool> = frozen.nodes().map(|node| node.latency().is_some()).collect();
    assert_eq!(timed, [true, false, true], "the nodes with a latency are not the nodes that answered");
    cluster.server(1).kill().await;
    let dead = inspect(&quorum).await;
    assert!(dead.state() == LockState::Held && dead.remaining().is_some());
    assert_eq!(unanswered(&dead), [1]);
    guard.unlock().await.unwrap();
    wait_for_holds(cluster.some(0..1), "r", 0).await;
    wait_for_holds(cluster.some(2..3), "r", 0).await;
    assert_eq!(inspect(&quorum).await.state(), LockState::Free);
}

/// Without a quorum, an inspection is an error with the answer of each node, and never a free resource.
#[tokio::test]
async fn an_inspection_without_a_quorum_is_an_error_and_never_free() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let guard = quorum.red_lock("r").lock().await.unwrap();
    wait_for_holds(cluster.servers(), "r", 1).await;
    for server in cluster.some(0..2) {
        server.kill().await;
    }
    for resource in ["r", "never locked"] {
        let replies = replies_of(quorum.inspect(resource).await.unwrap_err());
        assert_eq!((replies.needed(), replies.iter().count(), replies.done()), (2, 3, 1));
    }
    let replies = replies_of(admin::force_unlock(&quorum, "r").await.unwrap_err());
    assert_eq!((replies.needed(), replies.done()), (2, 1));
    drop(guard);
}

/// If no lease has the keys of a quorum, the state is `Free`. If a lease could have a quorum with the keys of the nodes
/// that did not answer, the state is `Unclear`. A key of another type counts as no vote.
#[tokio::test]
async fn an_inspection_distinguishes_free_held_and_unclear() {
    let cluster = Cluster::start(5).await;
    let quorum = client(&cluster).await;
    for (server, lease_id) in cluster.servers().iter().zip(["a:1", "a:1", "b:1", "b:1"]) {
        put_lease(server, "r", lease_id, TTL).await;
    }
    let split = inspect(&quorum).await;
    assert_eq!((split.state(), split.holder(), split.remaining()), (LockState::Free, None, None));

    put_lease(cluster.server(2), "r", "a:1", TTL / 2).await;
    cluster.server(4).command(&["SET", "r", "a string"]).await;
    let held = inspect(&quorum).await;
    assert_eq!(held.holder().map(ToString::to_string), Some("a:1".to_owned()));
    assert!(held.remaining().unwrap() <= TTL / 2, "the remaining time is not the shortest of the quorum");
    let last = held.nodes().last().map(NodeInspection::holder);
    assert_eq!(last, Some(Err(&NodeError::WrongType)));

    cluster.server(0).kill().await;
    let unclear = inspect(&quorum).await;
    assert_eq!((unclear.state(), unclear.holder()), (LockState::Unclear, None));
}

/// The label of a client is in the list of connections of the servers, in inspections and in errors. A lock call sends
/// no command for the label.
#[tokio::test]
async fn servers_inspections_and_errors_show_the_label() {
    let cluster = Cluster::start(3).await;
    let labelled = builder(&cluster).label("web 7").connect().await.unwrap();
    let guard = labelled.red_lock("r").lock().await.unwrap();
    wait_for_holds(cluster.servers(), "r", 1).await;
    for server in cluster.servers() {
        let clients: String = server.query(cmd("CLIENT").arg("LIST")).await;
        assert!(clients.contains(" name=redquorum/web_7 "), "{clients}");
    }
    let other = client(&cluster).await;
    let seen = inspect(&other).await;
    assert_eq!(seen.holder().and_then(LeaseId::label), Some("web 7"));
    let holder = format!("held by web 7/{}", guard.id().to_string().trim_start_matches("web 7/"));
    assert!(seen.to_string().contains(&holder), "{seen}");

    let next = labelled.red_lock("next");
    next.lock().await.unwrap().unlock().await.unwrap();
    // A node answers the calls of a client in order, so every node has executed the unlock.
    assert_eq!(labelled.health().await.voting(), 3);
    for server in cluster.servers() {
        server.command(&["CONFIG", "RESETSTAT"]).await;
    }
    next.lock().await.unwrap().unlock().await.unwrap();
    for server in cluster.servers() {
        eventually(SOON, "the server has executed a lock and an unlock", async || {
            evalsha_calls(server).await == 2
        })
        .await;
        let stats = server.info("commandstats").await;
        assert!(!stats.contains("cmdstat_client") && !stats.contains("cmdstat_hello"), "{stats}");
    }

    for server in cluster.some(1..3) {
        server.freeze().await;
    }
    let refused = other.red_lock("r").try_lock().await.unwrap_err();
    assert!(refused.to_string().contains(&holder), "{refused}");
}

/// Any client of a server can write control characters into a key. A terminal would execute control characters that an
/// error or inspection does not escape.
#[tokio::test]
async fn a_planted_lease_id_has_no_label_and_is_shown_escaped() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let planted = "\u{1b}[2Jroot\n\u{202e}/00000000-0000-0000-0000-00000000000a:1";
    for server in cluster.servers() {
        server.command(&["HSET", "r", planted, "1"]).await;
        server.command(&["PEXPIRE", "r", "30000"]).await;
        server.command(&["SET", "redisson_lock_token:{other}", "\u{1b}[2J"]).await;
    }
    let seen = inspect(&quorum).await;
    assert_eq!((seen.state(), seen.holder().unwrap().label()), (LockState::Held, None));
    let failed = quorum.red_lock("other").try_lock_for(TTL / 100).await.unwrap_err();
    for server in cluster.some(1..3) {
        server.freeze().await;
    }
    let refused = quorum.red_lock("r").try_lock().await.unwrap_err();
    for shown in
        [seen.holder().unwrap().to_string(), seen.to_string(), refused.to_string(), failed.to_string()]
    {
        assert!(shown.contains("\\u{1b}[2J"), "{shown}");
        assert!(!shown.contains(|char: char| char == '\u{202e}' || char.is_control()), "{shown:?}");
    }
}

#[tokio::test]
async fn a_force_unlock_wakes_a_waiter_and_ends_the_lease() {
    let cluster = Cluster::start(3).await;
    let (quorum, operator) = (client(&cluster).await, client(&cluster).await);
    let waiter = client(&cluster).await;
    repeat_until_woken("the force-unlock wakes the waiter", async || {
        let guard = quorum.red_lock("r").lock().await.unwrap();
        wait_for_holds(cluster.servers(), "r", 1).await;
        let lock = waiter.red_lock("r").options(RARE_POLLS);
        let begin = Instant::now();
        let waiting = tokio::spawn(async move { (lock.lock().await.unwrap(), begin.elapsed()) });
        wait_for_queue_entries(&cluster, "r", 1).await;
        assert_eq!(admin::force_unlock(&operator, "r").await.unwrap().done(), 3);
        // Much earlier than the end of the ttl.
        let woken = tokio::time::timeout(TTL / 10, waiting).await.expect("the waiter was not woken");
        let (next, waited) = woken.unwrap();
        assert!(next.fencing_token() > guard.fencing_token());
        assert!(guard.renew().await.is_err(), "a force-unlocked lease was renewed");
        assert!(!guard.is_valid());
        drop(guard);
        let seen = inspect(&operator).await;
        assert_eq!(seen.holder(), Some(next.id()), "the old guard changed the next lease");
        next.unlock().await.unwrap();
        wait_for_holds(cluster.servers(), "r", 0).await;
        waited
    })
    .await;
}

#[tokio::test]
async fn a_renewal_does_not_restore_a_force_unlocked_lease() {
    let cluster = Cluster::start(3).await;
    let (quorum, operator) = (client(&cluster).await, client(&cluster).await);
    let guard = quorum.red_lock("r").lock().await.unwrap();
    wait_for_holds(cluster.servers(), "r", 1).await;
    eventually(SOON, "the client is subscribed on all servers", async || {
        let mut listening = 0;
        for server in cluster.servers() {
            let channels = server.channels().await;
            listening +=
                usize::from(channels.iter().any(|channel| channel.contains("redquorum:force_unlocked:{")));
        }
        listening == 3
    })
    .await;
    admin::force_unlock(&operator, "r").await.unwrap();
    // Earlier than the next renewal.
    let lost = tokio::time::timeout(TTL / 10, guard.lost()).await.expect("the loss was not reported");
    assert_eq!(lost.reason, LossReason::Revoked);
    assert!(guard.renew().await.is_err());
    assert!(!guard.is_valid());
    assert_eq!(holds(cluster.servers(), "r").await, [0, 0, 0]);
    let free = admin::force_unlock(&operator, "never locked").await.unwrap();
    assert_eq!(free.done(), 3, "a node has not confirmed the free resource as unlocked");
}

#[tokio::test]
async fn verify_proves_a_lease_while_a_quorum_has_its_counter() {
    let cluster = Cluster::start(3).await;
    // With a restart guard, a node that lost its data would abstain until the end of a quarantine.
    let quorum = builder(&cluster).restart_guard(RestartGuard::Off).connect().await.unwrap();
    let guard = quorum.red_lock("r").lock().await.unwrap();
    wait_for_holds(cluster.servers(), "r", 1).await;
    assert_eq!(guard.verify().await, Ok(true));
    cluster.server(0).command(&["FLUSHALL"]).await;
    assert_eq!(guard.verify().await, Ok(true));
    cluster.server(1).command(&["FLUSHALL"]).await;
    // Repeated, because a `verify` must not store the lost counter on the nodes again.
    for _ in 0..3 {
        assert_eq!(guard.verify().await, Ok(false));
    }
    assert!(guard.is_valid(), "a lease without proof lost its validity");
    guard.unlock().await.unwrap();
    eventually(TTL / 3, "the next lease is proven", async || {
        let next = quorum.red_lock("r").lock().await.unwrap();
        next.verify().await == Ok(true)
    })
    .await;
}

async fn inspect(quorum: &Quorum) -> Inspection {
    quorum.inspect("r").await.unwrap()
}

/// Returns the indices of the nodes that did not answer.
fn unanswered(inspection: &Inspection) -> Vec<usize> {
    let nodes = inspection.nodes().enumerate();
    nodes.filter(|(_, node)| node.holder().is_err()).map(|(number, _)| number).collect()
}
