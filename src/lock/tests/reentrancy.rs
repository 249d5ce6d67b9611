//! Re-entrancy, groups and closures.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{NONE, all_behave, client, locked_nodes, pass, server, thaw_all};
use crate::{
    LockOptions, MemoryCluster, Owner, Quorum,
    error::{ConfigError, Error, LossReason},
    node::{Operation, memory::Behaviour},
};

const TTL: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn an_owner_re_enters_with_the_same_token_and_the_last_guard_unlocks() {
    let cluster = MemoryCluster::new(5);
    let owner = Owner::new();
    let lock = client(&cluster).red_lock("r").owned_by(&owner);
    let outer = lock.lock().await.unwrap();
    let inner = lock.lock().await.unwrap();
    assert_eq!((inner.holds(), inner.fencing_token()), (2, outer.fencing_token()));
    assert_eq!(server(&cluster, 4).holds("r"), Some(2));
    outer.unlock().await.unwrap();
    assert_eq!((inner.holds(), server(&cluster, 4).holds("r")), (1, Some(1)));
    assert!(inner.is_valid());
    inner.unlock().await.unwrap();
    assert_eq!(locked_nodes(&cluster), NONE);
    assert!(lock.lock().await.unwrap().fencing_token().as_u64() > 0, "a fresh lease");
}

#[tokio::test(start_paused = true)]
async fn guards_of_an_owner_may_be_dropped_in_any_order() {
    let cluster = MemoryCluster::new(3);
    let owner = Owner::new();
    let lock = client(&cluster).red_lock("r").owned_by(&owner);
    let guards = [lock.lock().await.unwrap(), lock.lock().await.unwrap(), lock.lock().await.unwrap()];
    let [first, second, third] = guards;
    drop(first);
    assert_eq!((third.holds(), server(&cluster, 0).holds("r")), (2, Some(2)));
    drop(third);
    assert_eq!((second.holds(), server(&cluster, 0).holds("r")), (1, Some(1)));
    drop(second);
    assert_eq!(locked_nodes(&cluster), NONE);
}

#[tokio::test(start_paused = true)]
async fn another_owner_and_no_owner_wait_for_it() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let _held = quorum.red_lock("r").owned_by(&Owner::new()).lock().await.unwrap();
    assert!(quorum.red_lock("r").owned_by(&Owner::new()).try_lock().await.unwrap().is_none());
    assert!(quorum.red_lock("r").try_lock().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn locks_in_the_scope_of_an_owner_are_its_own() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let owner = Owner::new();
    let outer = quorum.red_lock("r").owned_by(&owner).lock().await.unwrap();
    let holds = owner.scope(async { quorum.red_lock("r").lock().await.unwrap().holds() }).await;
    assert_eq!((holds, outer.holds()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_re_entry_without_a_quorum_fails_and_leaves_the_outer_hold_as_it_was() {
    let cluster = MemoryCluster::new(3);
    let owner = Owner::new();
    let lock = client(&cluster).red_lock("r").owned_by(&owner);
    let outer = lock.lock().await.unwrap();
    all_behave(&cluster, &Behaviour::Hanging);
    assert!(matches!(lock.lock().await, Err(Error::NoQuorum(_))));
    thaw_all(&cluster);
    assert!(outer.is_valid());
    assert_eq!((outer.holds(), server(&cluster, 0).holds("r")), (1, Some(1)));
    outer.unlock().await.unwrap();
    assert_eq!(locked_nodes(&cluster), NONE);
}

#[tokio::test(start_paused = true)]
async fn after_a_loss_calls_of_an_owner_fail_until_all_guards_are_dropped() {
    let cluster = MemoryCluster::new(3);
    let owner = Owner::new();
    let lock = client(&cluster)
        .red_lock("r")
        .owned_by(&owner)
        .options(LockOptions::new().ttl(TTL).without_renewal());
    let outer = lock.lock().await.unwrap();
    pass(TTL).await;
    assert!(matches!(lock.lock().await, Err(Error::LeaseLost(_))));
    drop(outer);
    assert!(lock.lock().await.unwrap().is_valid());
}

#[tokio::test(start_paused = true)]
async fn re_entering_a_fixed_lease_does_not_extend_it() {
    let cluster = MemoryCluster::new(3);
    let owner = Owner::new();
    let lock = client(&cluster)
        .red_lock("r")
        .owned_by(&owner)
        .options(LockOptions::new().ttl(TTL).without_renewal());
    let outer = lock.lock().await.unwrap();
    let until = outer.active_lease().valid_until();
    pass(TTL / 2).await;
    let inner = lock.lock().await.unwrap();
    assert_eq!((outer.active_lease().valid_until(), inner.active_lease().valid_until()), (until, until));
    pass(TTL / 2).await;
    assert_eq!(locked_nodes(&cluster), NONE);
}

#[tokio::test(start_paused = true)]
async fn two_holds_that_are_given_back_at_once_are_both_unlocked_without_a_complaint() {
    let cluster = MemoryCluster::new(3);
    let lock = client(&cluster).red_lock("r").owned_by(&Owner::new());
    let (one, other) = (lock.lock().await.unwrap(), lock.lock().await.unwrap());
    all_behave(&cluster, &Behaviour::Hanging);
    let (one, other, ()) = tokio::join!(one.unlock(), other.unlock(), async {
        pass(Duration::from_millis(5)).await;
        thaw_all(&cluster);
    });
    assert!(one.is_ok() && other.is_ok(), "{one:?} {other:?}");
    assert_eq!(locked_nodes(&cluster), NONE);
}

/// The hold was given back in time, so the guard does not report the later loss.
#[tokio::test(start_paused = true)]
async fn a_hold_that_is_given_back_while_the_lease_is_valid_is_no_loss() {
    let cluster = MemoryCluster::new(3);
    let fixed = LockOptions::new().ttl(Duration::from_secs(2)).without_renewal();
    let lock = client(&cluster).red_lock("r").owned_by(&Owner::new()).options(fixed);
    let (_outer, inner) = (lock.lock().await.unwrap(), lock.lock().await.unwrap());
    pass(inner.remaining() - Duration::from_millis(100)).await;
    all_behave(&cluster, &Behaviour::Hanging);
    let replies = inner.unlock().await.unwrap();
    assert!(!replies.has_quorum(), "{replies}");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_of_an_owner_whose_other_task_waits_finds_the_resource_held() {
    let cluster = MemoryCluster::new(3);
    let _stranger = client(&cluster).red_lock("r").lock().await.unwrap();
    let lock = client(&cluster).red_lock("r").owned_by(&Owner::new());
    let mut waiting = Box::pin(lock.lock());
    assert!(futures::poll!(&mut waiting).is_pending());
    assert!(lock.try_lock().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_re_entry_ends_at_its_deadline() {
    let cluster = MemoryCluster::new(3);
    let lock = client(&cluster).red_lock("r").owned_by(&Owner::new());
    let outer = lock.lock().await.unwrap();
    all_behave(&cluster, &Behaviour::Hanging);
    let wait = Duration::from_millis(10);
    assert!(matches!(lock.try_lock_for(wait).await, Err(Error::NoQuorum(_))));
    assert_eq!(outer.holds(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_loses_a_lease_stops_waiting_for_the_rest() {
    let clusters = [MemoryCluster::new(3), MemoryCluster::new(3)];
    let named = |name: &str, cluster| Quorum::builder().name(name).connect_in_memory(cluster).unwrap();
    let quorums = [named("a", &clusters[0]), named("b", &clusters[1])];
    let _stranger = quorums[1].red_lock("r").lock().await.unwrap();
    let group = crate::MultiLock::across(quorums.iter().map(|quorum| quorum.red_lock("r")));
    let start = tokio::time::Instant::now();
    let (outcome, ()) = tokio::join!(group.lock(), async {
        pass(Duration::from_secs(1)).await;
        all_behave(&clusters[0], &Behaviour::Hanging);
    });
    assert!(matches!(outcome, Err(Error::LeaseLost(_))), "{outcome:?}");
    assert!(start.elapsed() <= TTL + Duration::from_secs(11), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn two_clients_of_one_quorum_make_no_group() {
    let cluster = MemoryCluster::new(3);
    let locks = [client(&cluster).red_lock("a"), client(&cluster).red_lock("b")];
    let outcome = crate::MultiLock::across(locks).try_lock().await;
    assert!(matches!(outcome, Err(Error::Config(ConfigError::Group { .. }))), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn a_group_is_locked_as_a_whole_or_not_at_all() {
    let cluster = MemoryCluster::new(5);
    let quorum = client(&cluster);
    let other = client(&cluster).red_lock("b").lock().await.unwrap();
    assert!(quorum.multi_lock(["a", "b", "c"]).try_lock().await.unwrap().is_none());
    assert!(quorum.red_lock("a").try_lock().await.unwrap().is_some(), "nothing of the group is left");
    other.unlock().await.unwrap();
    // Until then, a newcomer lets the clients go first that were refused.
    pass(Duration::from_millis(200)).await;
    let group = quorum.multi_lock(["c", "a", "b"]).lock().await.unwrap();
    assert_eq!(group.resources().len(), 3);
    assert_eq!(server(&cluster, 0).locks().len(), 3);
    let lock_entries = server(&cluster, 0)
        .take_log()
        .iter()
        .filter(|operation| matches!(operation, Operation::Lock(_)))
        .count();
    assert_eq!(lock_entries, 4, "one for a group");
    group.unlock().await.unwrap();
    assert_eq!(locked_nodes(&cluster), NONE);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_cannot_be_one_is_refused() {
    let quorum = client(&MemoryCluster::new(3));
    let empty = quorum.multi_lock::<&str>([]).lock().await;
    assert_eq!(empty.unwrap_err().to_string(), "group: no resources: name at least one");
    let twice = quorum.multi_lock(["b", "a", "b"]).try_lock().await;
    assert_eq!(twice.unwrap_err().to_string(), "group: b stands twice: name each resource once");
}

#[tokio::test(start_paused = true)]
async fn a_group_over_quorums_is_lost_and_unlocked_as_a_whole() {
    let clusters = [MemoryCluster::new(3), MemoryCluster::new(3)];
    let named = |name: &str, cluster| Quorum::builder().name(name).connect_in_memory(cluster).unwrap();
    let quorums = [named("eu", &clusters[0]), named("us", &clusters[1])];
    let locks = || quorums.iter().map(|quorum| quorum.red_lock("r"));
    let group = crate::MultiLock::across(locks()).lock().await.unwrap();
    assert_eq!(group.leases().count(), 2);
    all_behave(&clusters[1], &Behaviour::Hanging);
    let start = tokio::time::Instant::now();
    group.lost().await;
    assert!(start.elapsed() < TTL && !group.is_valid());
    drop(group);
    assert_eq!(locked_nodes(&clusters[0]), NONE);
    assert!(matches!(crate::MultiLock::across(locks()).try_lock().await, Err(Error::NoQuorum(_))));
    assert_eq!(locked_nodes(&clusters[0]), NONE, "what was had of the other quorum is given back");
}

#[tokio::test(start_paused = true)]
async fn transfers_between_overlapping_pairs_keep_the_sum_and_none_starves() {
    const ACCOUNTS: usize = 8;
    let cluster = MemoryCluster::new(5);
    let accounts = Arc::new(Mutex::new([100_i64; ACCOUNTS]));
    let tasks: Vec<_> = (0..16_usize)
        .map(|number| {
            let (quorum, accounts) = (client(&cluster), Arc::clone(&accounts));
            tokio::spawn(async move {
                for round in 0..20 {
                    let (from, to) = ((number + round) % ACCOUNTS, (number * 3 + round * 5 + 1) % ACCOUNTS);
                    if from == to {
                        continue;
                    }
                    let names = [from, to].map(|account| format!("account:{account}"));
                    let group = quorum.multi_lock(names).lock().await.unwrap();
                    let before = *accounts.lock().unwrap();
                    pass(Duration::from_millis(1)).await;
                    {
                        let mut now = accounts.lock().unwrap();
                        (now[from], now[to]) = (before[from] - 1, before[to] + 1);
                    }
                    group.unlock().await.unwrap();
                }
            })
        })
        .collect();
    let start = tokio::time::Instant::now();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(accounts.lock().unwrap().iter().sum::<i64>(), 100 * i64::try_from(ACCOUNTS).unwrap());
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    assert_eq!(locked_nodes(&cluster), NONE);
}

/// An unlock without a quorum is no error: the work was protected, and the unlock goes on in the background.
#[tokio::test(start_paused = true)]
async fn a_closure_runs_under_the_lock_and_returns_its_value_though_no_node_confirms_the_unlock() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let lock = quorum.red_lock("r");
    let nodes = cluster.clone();
    let task = tokio::spawn(async move {
        lock.run(async |guard| {
            pass(TTL * 3).await;
            assert!(guard.is_valid(), "renewed meanwhile");
            all_behave(&nodes, &Behaviour::Hanging);
            guard.fencing_token()
        })
        .await
    });
    assert!(task.await.unwrap().unwrap().as_u64() > 0);
    thaw_all(&cluster);
    assert_eq!(locked_nodes(&cluster), NONE);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_kept_for_longer_than_its_closure_is_not_valid() {
    let cluster = MemoryCluster::new(3);
    let lease = client(&cluster).red_lock("r").run(async |guard| guard.lease()).await.unwrap();
    let Err(Error::LeaseLost(lost)) = lease.ensure() else { panic!("still valid") };
    assert_eq!(lost.reason, LossReason::Unlocked);
    assert_eq!(lease.lost().await.reason, LossReason::Unlocked);
    assert_eq!(lease.remaining(), Duration::ZERO);
}

/// Without an `await`, nothing can stop the closure: its value may have met another holder, and is dropped.
#[tokio::test(start_paused = true)]
async fn the_value_of_a_closure_that_outlasts_its_lease_is_dropped() {
    let cluster = MemoryCluster::new(3);
    let fixed = LockOptions::new().ttl(TTL).without_renewal();
    let outcome = client(&cluster)
        .red_lock("r")
        .options(fixed)
        .run(async |_| tokio::time::advance(2 * TTL).await)
        .await;
    assert!(matches!(outcome, Err(Error::LeaseLost(_))), "{outcome:?}");
    assert_eq!(locked_nodes(&cluster), NONE);
}

/// The lease is over when the work is done, and no timer has run since: the clock decides.
#[tokio::test(start_paused = true)]
async fn work_that_blocks_its_thread_past_the_end_of_the_lease_returns_no_value() {
    let cluster = MemoryCluster::new(3);
    let guard = client(&cluster).red_lock("r").lock().await.unwrap();
    let lease = guard.lease();
    let work = std::future::poll_fn(|_| {
        lease.active.lose(LossReason::Revoked);
        std::task::Poll::Ready(7)
    });
    assert!(matches!(guard.while_valid(work).await, Err(Error::LeaseLost(_))));
}

#[tokio::test(start_paused = true)]
async fn work_runs_while_the_lease_is_valid_and_is_dropped_at_the_loss() {
    let cluster = MemoryCluster::new(3);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    assert_eq!(guard.while_valid(async { 7 }).await, Ok(7));
    all_behave(&cluster, &Behaviour::Hanging);
    let dropped = Arc::new(());
    let held = Arc::clone(&dropped);
    let work = async move {
        let _held = held;
        std::future::pending::<()>().await;
    };
    let outcome = guard.while_valid(work).await;
    assert!(matches!(outcome, Err(Error::LeaseLost(_))), "{outcome:?}");
    assert_eq!(Arc::strong_count(&dropped), 1);
}

/// Also where the thread was blocked at the end of the lease, so that the work could go on at the moment of the loss.
#[tokio::test(start_paused = true)]
async fn work_takes_no_step_after_the_end_of_the_lease() {
    let cluster = MemoryCluster::new(3);
    let fixed = LockOptions::new().ttl(Duration::from_secs(2)).without_renewal();
    let guard = client(&cluster).red_lock("r").options(fixed).lock().await.unwrap();
    let mut steps = 0;
    let work = guard.while_valid(async {
        steps += 1;
        tokio::time::sleep(Duration::from_secs(1)).await;
        steps += 1;
    });
    let (lost, ()) = tokio::join!(work, tokio::time::advance(Duration::from_secs(5)));
    assert!(matches!(lost, Err(Error::LeaseLost(_))), "{lost:?}");
    let again = guard.while_valid(async { steps += 1 }).await;
    assert!(matches!(again, Err(Error::LeaseLost(_))), "{again:?}");
    assert_eq!(steps, 1);
}

#[tokio::test(start_paused = true)]
async fn locks_of_one_client_with_different_options_make_no_group() {
    let quorum = client(&MemoryCluster::new(3));
    let slow = quorum.red_lock("b").options(LockOptions::new().ttl(2 * TTL));
    let outcome = crate::MultiLock::across([quorum.red_lock("a"), slow]).lock().await;
    assert!(matches!(outcome, Err(Error::Config(ConfigError::Group { .. }))), "{outcome:?}");
    let guard = crate::MultiLock::across([quorum.red_lock("a"), quorum.red_lock("b")]).lock().await.unwrap();
    assert_eq!(guard.leases().map(|lease| lease.resources().len()).collect::<Vec<_>>(), [2]);
}

#[tokio::test(start_paused = true)]
async fn a_closure_is_stopped_when_the_lease_is_lost() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let start = tokio::time::Instant::now();
    let outcome = quorum
        .red_lock("r")
        .options(LockOptions::new().ttl(TTL))
        .run(async |_| {
            all_behave(&cluster, &Behaviour::Hanging);
            std::future::pending::<()>().await;
        })
        .await;
    assert!(matches!(outcome, Err(Error::LeaseLost(_))), "{outcome:?}");
    assert!(start.elapsed() < TTL);
}

#[tokio::test(start_paused = true)]
async fn a_closure_that_panics_unlocks() {
    let cluster = MemoryCluster::new(3);
    let lock = client(&cluster).red_lock("r");
    let task = tokio::spawn(async move {
        lock.run(async |_| {
            pass(Duration::from_millis(1)).await;
            panic!("in the closure");
        })
        .await
    });
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!(locked_nodes(&cluster), NONE);
}
