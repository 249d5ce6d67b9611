//! Three subjects: re-entrancy of owners, locks of several resources, and work that runs under a lease (`run`,
//! `while_valid`).
//!
//! The re-entrancy of readers is tested in `readers.rs`, and the downgrade of an owner in `downgrade.rs`.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::FutureExt;

use super::{NONE, all_behave, client, locked_nodes, pass, server, thaw_all};
use crate::{
    LockOptions, MemoryCluster, Owner, Quorum,
    error::{ConfigError, Error, LossReason},
    lease::active_lease::UnlockOutcome,
    node::{Operation, memory::Behaviour},
};

const TTL: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn an_owner_re_enters_with_the_same_token_until_its_last_guard_unlocks() {
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
    assert_eq!(lock.lock().await.unwrap().holds(), 1, "the next call acquires a new lease");
}

#[tokio::test(start_paused = true)]
async fn guards_of_an_owner_may_be_dropped_in_any_order() {
    let cluster = MemoryCluster::new(3);
    let owner = Owner::new();
    let lock = client(&cluster).red_lock("r").owned_by(&owner);
    let [first, second, third] =
        [lock.lock().await.unwrap(), lock.lock().await.unwrap(), lock.lock().await.unwrap()];
    drop(first);
    assert_eq!((third.holds(), server(&cluster, 0).holds("r")), (2, Some(2)));
    drop(third);
    assert_eq!((second.holds(), server(&cluster, 0).holds("r")), (1, Some(1)));
    drop(second);
    assert_eq!(locked_nodes(&cluster), NONE);
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_an_owner_excludes_other_owners_and_calls_without_an_owner() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let _held = quorum.red_lock("r").owned_by(&Owner::new()).lock().await.unwrap();
    assert!(quorum.red_lock("r").owned_by(&Owner::new()).try_lock().await.unwrap().is_none());
    assert!(quorum.red_lock("r").try_lock().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_lock_in_the_scope_of_an_owner_re_enters() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let owner = Owner::new();
    let outer = quorum.red_lock("r").owned_by(&owner).lock().await.unwrap();
    let holds = owner.scope(async { quorum.red_lock("r").lock().await.unwrap().holds() }).await;
    assert_eq!((holds, outer.holds()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_re_entry_without_a_quorum_fails_and_keeps_the_outer_hold() {
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
async fn a_re_entry_does_not_extend_a_lease_without_renewal() {
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
async fn two_holds_can_be_unlocked_at_the_same_time() {
    let cluster = MemoryCluster::new(3);
    let lock = client(&cluster).red_lock("r").owned_by(&Owner::new());
    let (first, second) = (lock.lock().await.unwrap(), lock.lock().await.unwrap());
    all_behave(&cluster, &Behaviour::Hanging);
    let (first, second, ()) = tokio::join!(first.unlock(), second.unlock(), async {
        pass(Duration::from_millis(5)).await;
        thaw_all(&cluster);
    });
    assert!(first.is_ok() && second.is_ok(), "{first:?} {second:?}");
    assert_eq!(locked_nodes(&cluster), NONE);
}

/// The unlock gives the hold back before the lease expires. The nodes hang, so the call returns only after the expiry.
#[tokio::test(start_paused = true)]
async fn the_unlock_of_a_hold_before_the_loss_returns_no_error() {
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
async fn the_unlock_of_a_hold_returns_the_loss_of_a_revoked_lease() {
    let cluster = MemoryCluster::new(3);
    let lock = client(&cluster).red_lock("r").owned_by(&Owner::new());
    let (outer, inner) = (lock.lock().await.unwrap(), lock.lock().await.unwrap());
    all_behave(&cluster, &Behaviour::Refusing);
    let Err(Error::LeaseLost(lost)) = inner.unlock().await else { panic!("the lease is not lost") };
    assert_eq!(lost.reason, LossReason::Revoked);
    assert!(!outer.is_valid());
}

/// Another thread may re-enter while the last guard is given back.
#[tokio::test(start_paused = true)]
async fn a_lease_without_holds_accepts_no_hold() {
    let guard = client(&MemoryCluster::new(3)).red_lock("r").lock().await.unwrap();
    let lease = Arc::clone(guard.active_lease());
    assert!(lease.enter());
    drop(guard);
    assert_eq!((lease.holds(), lease.enter(), lease.holds()), (1, true, 2));
    let now = lease.registered_at;
    assert_eq!(lease.leave(now), UnlockOutcome::Active);
    assert_eq!(lease.leave(now), UnlockOutcome::Unlocked);
    assert_eq!((lease.enter(), lease.holds()), (false, 0));
}

#[tokio::test(start_paused = true)]
async fn try_lock_returns_none_while_a_call_of_the_same_owner_waits() {
    let cluster = MemoryCluster::new(3);
    let _held = client(&cluster).red_lock("r").lock().await.unwrap();
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
async fn a_lock_across_quorums_that_loses_a_lease_stops_waiting() {
    let clusters = [MemoryCluster::new(3), MemoryCluster::new(3)];
    let named = |name: &str, cluster| Quorum::builder().name(name).connect_in_memory(cluster).unwrap();
    let quorums = [named("a", &clusters[0]), named("b", &clusters[1])];
    let _held = quorums[1].red_lock("r").lock().await.unwrap();
    let group = crate::MultiLock::across(quorums.iter().map(|quorum| quorum.red_lock("r")));
    let start = tokio::time::Instant::now();
    let (outcome, ()) = tokio::join!(group.lock(), async {
        pass(Duration::from_secs(1)).await;
        all_behave(&clusters[0], &Behaviour::Hanging);
    });
    assert!(matches!(outcome, Err(Error::LeaseLost(_))), "{outcome:?}");
    // After the first second, no renewal succeeds, so the lease at the first quorum expires within a ttl.
    assert!(start.elapsed() <= TTL + Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn locks_of_two_clients_of_one_quorum_cannot_be_combined() {
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
    assert!(quorum.red_lock("a").try_lock().await.unwrap().is_some(), "a key of the group is left");
    other.unlock().await.unwrap();
    let group = quorum.multi_lock(["c", "a", "b"]).lock().await.unwrap();
    assert_eq!(group.resources().len(), 3);
    assert_eq!(server(&cluster, 0).locks().len(), 3);
    let lock_operations = server(&cluster, 0)
        .take_log()
        .iter()
        .filter(|operation| matches!(operation, Operation::Lock(_)))
        .count();
    assert_eq!(lock_operations, 4, "each of the four calls has to send one operation, also for a group");
    group.unlock().await.unwrap();
    assert_eq!(locked_nodes(&cluster), NONE);
}

#[tokio::test(start_paused = true)]
async fn a_group_without_resources_or_with_duplicates_is_refused() {
    let quorum = client(&MemoryCluster::new(3));
    let empty = quorum.multi_lock::<&str>([]).lock().await;
    assert_eq!(empty.unwrap_err().to_string(), "group: no resources: name at least one");
    let twice = quorum.multi_lock(["b", "a", "b"]).try_lock().await;
    assert_eq!(twice.unwrap_err().to_string(), "group: b is named twice: name each resource once");
}

#[tokio::test(start_paused = true)]
async fn a_group_across_quorums_is_lost_and_unlocked_as_a_whole() {
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
    assert_eq!(locked_nodes(&clusters[0]), NONE, "the lease at the first quorum is left");
    assert!(matches!(crate::MultiLock::across(locks()).try_lock().await, Err(Error::NoQuorum(_))));
    assert_eq!(locked_nodes(&clusters[0]), NONE, "the lease at the first quorum is left");
}

#[tokio::test(start_paused = true)]
async fn transfers_under_overlapping_groups_keep_the_sum_and_all_end() {
    const ACCOUNTS: usize = 8;
    let cluster = MemoryCluster::new(5);
    let accounts = Arc::new(Mutex::new([100_i64; ACCOUNTS]));
    let tasks: Vec<_> = (0..16_usize)
        .map(|number| {
            let (quorum, accounts) = (client(&cluster), Arc::clone(&accounts));
            tokio::spawn(async move {
                for transfer in 0..20 {
                    let (from, to) =
                        ((number + transfer) % ACCOUNTS, (number * 3 + transfer * 5 + 1) % ACCOUNTS);
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

/// An unlock without a quorum is no error of `run`, because the lease was valid until the closure returned. The unlock
/// continues in the background.
#[tokio::test(start_paused = true)]
async fn run_returns_the_value_even_if_no_node_confirms_the_unlock() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let lock = quorum.red_lock("r");
    let nodes = cluster.clone();
    let task = tokio::spawn(async move {
        lock.run(async |guard| {
            pass(TTL * 3).await;
            assert!(guard.is_valid(), "the lease was not renewed");
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
async fn a_lease_is_not_valid_after_the_end_of_run() {
    let cluster = MemoryCluster::new(3);
    let lease = client(&cluster).red_lock("r").run(async |guard| guard.lease()).await.unwrap();
    let Err(Error::LeaseLost(lost)) = lease.ensure() else { panic!("the lease is still valid") };
    assert_eq!(lost.reason, LossReason::Unlocked);
    assert_eq!(lease.lost().await.reason, LossReason::Unlocked);
    assert_eq!(lease.remaining(), Duration::ZERO);
}

/// The closure has no `await`, so `run` cannot drop the closure at the end of the lease. Another client may have had
/// the lock before the closure returned, so `run` returns the loss instead of the value.
#[tokio::test(start_paused = true)]
async fn run_drops_the_value_of_a_closure_that_outlasts_the_lease() {
    let cluster = MemoryCluster::new(3);
    let fixed = LockOptions::new().ttl(TTL).without_renewal();
    let mut has_returned = false;
    let outcome = client(&cluster)
        .red_lock("r")
        .options(fixed)
        .run(async |_| {
            // One poll is enough to advance the clock. An `await` would be a point at which `run` can drop the closure.
            let _yielded = tokio::time::advance(2 * TTL).now_or_never();
            has_returned = true;
        })
        .await;
    assert!(has_returned, "the closure was dropped before its end");
    assert!(matches!(outcome, Err(Error::LeaseLost(_))), "{outcome:?}");
    assert_eq!(locked_nodes(&cluster), NONE);
}

/// The lease is lost during the only poll of the work, and the work is ready in the same poll.
#[tokio::test(start_paused = true)]
async fn while_valid_drops_the_value_of_work_that_ends_after_the_lease() {
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
async fn while_valid_runs_work_until_the_loss_of_the_lease() {
    let cluster = MemoryCluster::new(3);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    assert_eq!(guard.while_valid(async { 7 }).await, Ok(7));
    all_behave(&cluster, &Behaviour::Hanging);
    let captured = Arc::new(());
    let inside = Arc::clone(&captured);
    let work = async move {
        let _inside = inside;
        std::future::pending::<()>().await;
    };
    let outcome = guard.while_valid(work).await;
    assert!(matches!(outcome, Err(Error::LeaseLost(_))), "{outcome:?}");
    assert_eq!(Arc::strong_count(&captured), 1, "the work was not dropped");
}

/// The clock jumps past the end of the lease, as if the thread was blocked. The timers of the work and of
/// the loss are then due at the same time.
#[tokio::test(start_paused = true)]
async fn while_valid_does_not_poll_work_after_the_end_of_the_lease() {
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
async fn locks_of_one_client_with_different_options_cannot_be_combined() {
    let quorum = client(&MemoryCluster::new(3));
    let slow = quorum.red_lock("b").options(LockOptions::new().ttl(2 * TTL));
    let outcome = crate::MultiLock::across([quorum.red_lock("a"), slow]).lock().await;
    assert!(matches!(outcome, Err(Error::Config(ConfigError::Group { .. }))), "{outcome:?}");
    let guard = crate::MultiLock::across([quorum.red_lock("a"), quorum.red_lock("b")]).lock().await.unwrap();
    assert_eq!(guard.leases().map(|lease| lease.resources().len()).collect::<Vec<_>>(), [2]);
}

#[tokio::test(start_paused = true)]
async fn run_drops_the_closure_when_the_lease_is_lost() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let start = tokio::time::Instant::now();
    let captured = Arc::new(());
    let outcome = quorum
        .red_lock("r")
        .options(LockOptions::new().ttl(TTL))
        .run(async |_| {
            let _inside = Arc::clone(&captured);
            all_behave(&cluster, &Behaviour::Hanging);
            std::future::pending::<()>().await;
        })
        .await;
    assert!(matches!(outcome, Err(Error::LeaseLost(_))), "{outcome:?}");
    assert_eq!(Arc::strong_count(&captured), 1, "the closure was not dropped");
    assert!(start.elapsed() < TTL);
}

#[tokio::test(start_paused = true)]
async fn run_unlocks_if_the_closure_panics() {
    let cluster = MemoryCluster::new(3);
    let lock = client(&cluster).red_lock("r");
    let nodes = cluster.clone();
    let task = tokio::spawn(async move {
        lock.run(async |_| {
            pass(Duration::from_millis(1)).await;
            assert_eq!(locked_nodes(&nodes), [0, 1, 2]);
            std::panic::panic_any("in the closure");
        })
        .await
    });
    let panicked = task.await.unwrap_err().into_panic();
    assert_eq!(panicked.downcast_ref(), Some(&"in the closure"));
    assert_eq!(locked_nodes(&cluster), NONE);
}
