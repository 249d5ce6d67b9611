//! Each event of a client is counted once, under the right metric and labels.

use std::time::Duration;

use redquorum::{
    Error, LockOptions, MemoryCluster, Owner, Quorum, admin,
    error::{ClosedReason, LeaseLost, LossReason},
};
use tokio::{runtime::Builder, time::sleep};

use crate::figures::{
    ARRIVALS, ATTEMPTS, Figures, HOLD, LATCH_WAIT, LEASES_DROPPED, LEASES_HELD, LEASES_LOST,
    LOCK_CALLS_IN_FLIGHT, MARGIN, RENEWAL, RENEWALS, VOTES, WAIT, run_with_recorder,
};

const TTL: Duration = Duration::from_secs(30);

/// Runs a test in paused time.
fn measure(test: impl AsyncFnOnce(Figures)) {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    run_with_recorder(&runtime, test);
}

fn client(cluster: &MemoryCluster) -> Quorum {
    Quorum::builder().ttl(TTL).connect_in_memory(cluster).unwrap()
}

fn count(histogram: &str) -> String {
    format!("{histogram}_count")
}

#[test]
fn a_lock_and_its_unlock_are_one_attempt_one_call_and_one_lease() {
    measure(async |figures| {
        let quorum = client(&MemoryCluster::new(3));
        let guard = quorum.red_lock("r").lock().await.unwrap();
        assert_eq!((figures.sum(LEASES_HELD, &[]), figures.sum(LOCK_CALLS_IN_FLIGHT, &[])), (1.0, 0.0));
        sleep(Duration::from_secs(5)).await;
        guard.unlock().await.unwrap();
        assert_eq!(figures.sum(ATTEMPTS, &[]), 1.0);
        assert_eq!(figures.sum(ATTEMPTS, &[("outcome", "acquired"), ("quorum", "redquorum")]), 1.0);
        assert_eq!(figures.sum(VOTES, &[("operation", "lock"), ("answer", "granted")]), 3.0);
        assert_eq!(figures.sum(VOTES, &[]), 3.0, "the votes of all operations");
        assert_eq!(figures.sum(VOTES, &[("node", "memory:1")]), 1.0);
        assert_eq!(figures.sum(&count(WAIT), &[]), 1.0);
        assert_eq!(figures.sum(&count(WAIT), &[("outcome", "acquired")]), 1.0);
        assert_eq!(figures.sum(&format!("{HOLD}_sum"), &[("end", "unlocked")]), 5.0);
        assert_eq!((figures.sum(LEASES_HELD, &[]), figures.sum(LEASES_DROPPED, &[])), (0.0, 0.0));
    });
}

#[test]
fn shared_leases_have_their_own_mode_and_a_joined_lease_counts_once() {
    measure(async |figures| {
        let lock = client(&MemoryCluster::new(3)).rw_lock("r");
        let (first, second) = (lock.read().await.unwrap(), lock.read().await.unwrap());
        let leases = |mode| figures.sum(LEASES_HELD, &[("mode", mode)]);
        assert_eq!((leases("shared"), leases("exclusive")), (1.0, 0.0));
        first.unlock().await.unwrap();
        second.unlock().await.unwrap();
        lock.write().await.unwrap().unlock().await.unwrap();
        for (mode, outcome) in [("shared", "acquired"), ("shared", "joined"), ("exclusive", "acquired")] {
            let labels = [("mode", mode), ("outcome", outcome)];
            assert_eq!(figures.sum(&count(WAIT), &labels), 1.0, "{mode}, {outcome}");
        }
        for mode in ["shared", "exclusive"] {
            assert_eq!(figures.sum(&count(HOLD), &[("mode", mode), ("end", "unlocked")]), 1.0, "{mode}");
            assert_eq!(leases(mode), 0.0);
        }
    });
}

#[test]
fn permits_have_their_own_mode_and_latches_their_own_metrics() {
    measure(async |figures| {
        let cluster = MemoryCluster::new(3);
        let quorum = client(&cluster);
        let leases = |mode| figures.sum(LEASES_HELD, &[("mode", mode)]);
        let lock = quorum.red_lock("gpu").lock().await.unwrap();
        let gpus = quorum.semaphore("gpu", 2);
        let permits = [gpus.acquire().await.unwrap(), gpus.acquire().await.unwrap()];
        assert_eq!((leases("permit"), leases("exclusive")), (2.0, 1.0));
        assert!(gpus.try_acquire().await.unwrap().is_none());
        drop((lock, permits));
        let permit = [("mode", "permit"), ("outcome", "acquired")];
        assert_eq!(figures.sum(&count(WAIT), &permit), 2.0);
        assert_eq!(figures.sum(&count(WAIT), &[("mode", "permit"), ("outcome", "held")]), 1.0);
        assert_eq!(figures.sum(&count(HOLD), &[("mode", "permit"), ("end", "dropped")]), 2.0);
        assert_eq!((leases("permit"), leases("exclusive")), (0.0, 0.0));

        let latch = quorum.latch("warm", 2);
        latch.arrive().await.unwrap();
        assert!(!latch.wait_for(Duration::from_secs(3)).await.unwrap());
        quorum.latch("warm", 2).arrive().await.unwrap();
        latch.wait().await.unwrap();
        assert_eq!(figures.sum(ARRIVALS, &[]), 2.0);
        for outcome in ["open", "timed_out"] {
            assert_eq!(figures.sum(&count(LATCH_WAIT), &[("outcome", outcome)]), 1.0, "{outcome}");
        }
        assert_eq!(figures.sum(&format!("{LATCH_WAIT}_sum"), &[("outcome", "timed_out")]), 3.0);
    });
}

/// If a counter did not begin at 0, its series would begin at 1 with the first loss. Prometheus does not count this as
/// an increase.
#[test]
fn counters_start_at_0_with_each_label_when_a_client_connects() {
    measure(async |figures| {
        let _quorum = client(&MemoryCluster::new(3));
        let page = figures.page();
        for (metric, label, values) in [
            (ATTEMPTS, "outcome", &["acquired", "held", "no_quorum", "expired", "cancelled"][..]),
            (RENEWALS, "outcome", &["renewed", "failed", "revoked", "too_late"]),
            (
                LEASES_LOST,
                "reason",
                &["expired", "hold_limit", "revoked", "shutdown", "runtime_ended", "forked"],
            ),
        ] {
            for value in values {
                let line = format!("{metric}{{quorum=\"redquorum\",{label}=\"{value}\"}} 0");
                assert!(page.lines().any(|recorded| recorded == line), "no {line} in\n{page}");
            }
        }
    });
}

#[test]
fn calls_on_a_held_resource_are_counted_by_their_outcome() {
    measure(async |figures| {
        let cluster = MemoryCluster::new(3);
        let held = client(&cluster).red_lock("r").lock().await.unwrap();
        let lock = client(&cluster).red_lock("r");
        assert!(lock.try_lock().await.unwrap().is_none());
        assert_eq!(figures.sum(ATTEMPTS, &[("outcome", "held")]), 1.0);
        assert!(figures.sum(VOTES, &[("answer", "held")]) >= 2.0);
        assert!(lock.try_lock_for(Duration::from_secs(2)).await.unwrap().is_none());
        assert!(
            tokio::time::timeout(Duration::from_secs(1), lock.lock()).await.is_err(),
            "the lock call got a held resource"
        );
        for (outcome, calls) in [("acquired", 1.0), ("held", 1.0), ("timed_out", 1.0), ("cancelled", 1.0)] {
            assert_eq!(figures.sum(&count(WAIT), &[("outcome", outcome)]), calls, "{outcome}");
        }
        assert_eq!(figures.sum(&format!("{WAIT}_sum"), &[("outcome", "timed_out")]), 2.0);
        assert_eq!((figures.sum(LOCK_CALLS_IN_FLIGHT, &[]), figures.sum(LEASES_HELD, &[])), (0.0, 1.0));
        held.unlock().await.unwrap();
    });
}

#[test]
fn a_lease_counts_as_dropped_if_its_last_guard_is_dropped_while_held() {
    measure(async |figures| {
        let quorum = client(&MemoryCluster::new(3));
        drop(quorum.red_lock("r").lock().await.unwrap());
        assert_eq!(figures.sum(LEASES_DROPPED, &[]), 1.0);
        assert_eq!(figures.sum(&count(HOLD), &[("end", "dropped")]), 1.0);
        let lost = quorum.red_lock("r").options(LockOptions::new().without_renewal()).lock().await.unwrap();
        sleep(TTL).await;
        drop(lost);
        let owner = Owner::new();
        let outer = quorum.red_lock("r").owned_by(&owner).lock().await.unwrap();
        drop(quorum.red_lock("r").owned_by(&owner).lock().await.unwrap());
        assert_eq!(figures.sum(&count(WAIT), &[("outcome", "reentered")]), 1.0);
        outer.unlock().await.unwrap();
        assert_eq!(figures.sum(LEASES_DROPPED, &[]), 1.0, "a lost lease or an inner hold counts as dropped");
        assert_eq!(figures.sum(LEASES_HELD, &[]), 0.0);
    });
}

#[test]
fn a_loss_is_counted_once_by_its_reason() {
    measure(async |figures| {
        let cluster = MemoryCluster::new(3);
        let quorum = client(&cluster);
        let fixed =
            quorum.red_lock("expired").options(LockOptions::new().without_renewal()).lock().await.unwrap();
        assert_eq!(fixed.lost().await.reason, LossReason::Expired);
        let limited = LockOptions::new().hold_at_most(TTL);
        let longest = quorum.red_lock("hold_limit").options(limited).lock().await.unwrap();
        assert_eq!(longest.lost().await.reason, LossReason::HoldLimit);
        let revoked = quorum.red_lock("revoked").lock().await.unwrap();
        admin::force_unlock(&client(&cluster), "revoked").await.unwrap();
        assert_eq!(revoked.lost().await.reason, LossReason::Revoked);
        let shut_down = quorum.red_lock("shutdown").lock().await.unwrap();
        quorum.shutdown().await;
        let closed = shut_down.ensure().unwrap_err();
        let Error::LeaseLost(LeaseLost { reason, .. }) = closed else { panic!("{closed}") };
        assert_eq!(reason, LossReason::Closed(ClosedReason::ShutDown));
        drop((fixed, longest, revoked, shut_down));
        for reason in ["expired", "hold_limit", "revoked", "shutdown"] {
            assert_eq!(figures.sum(LEASES_LOST, &[("reason", reason)]), 1.0, "{reason}");
        }
        assert_eq!(figures.sum(&count(HOLD), &[("end", "lost")]), 4.0);
        assert_eq!((figures.sum(LEASES_HELD, &[]), figures.sum(LEASES_DROPPED, &[])), (0.0, 0.0));
    });
}

#[test]
fn a_renewal_records_the_validity_that_was_left() {
    measure(async |figures| {
        let guard = client(&MemoryCluster::new(3)).red_lock("r").lock().await.unwrap();
        sleep(TTL).await;
        assert!(guard.is_valid());
        let renewals = figures.sum(RENEWALS, &[("outcome", "renewed")]);
        assert!(
            (2.0..=3.0).contains(&renewals),
            "{renewals} renewals in a ttl, of which a third lies between two renewals"
        );
        assert_eq!(figures.sum(RENEWALS, &[]), renewals);
        assert_eq!(figures.sum(&count(RENEWAL), &[]), renewals);
        assert_eq!(figures.sum(VOTES, &[("operation", "renew"), ("answer", "granted")]), renewals * 3.0);
        let margin = figures.sum(&format!("{MARGIN}_sum"), &[]) / figures.sum(&count(MARGIN), &[]);
        assert!(
            (0.6..0.67).contains(&margin),
            "a mean margin of {margin}, expected two thirds less the drift"
        );
        guard.unlock().await.unwrap();
    });
}

#[test]
fn the_quorum_is_a_label_and_the_resource_is_not() {
    measure(async |figures| {
        for name in ["eu", "us"] {
            let quorum = Quorum::builder().name(name).connect_in_memory(&MemoryCluster::new(3)).unwrap();
            quorum.red_lock("a-resource-of-many").lock().await.unwrap().unlock().await.unwrap();
            assert_eq!(figures.sum(ATTEMPTS, &[("quorum", name)]), 1.0);
            drop(quorum.red_lock("a-resource-of-many").lock().await.unwrap());
            let _held = quorum.red_lock("a-resource-of-many").lock().await.unwrap();
            quorum.shutdown().await;
        }
        assert!(!figures.page().contains("a-resource-of-many"), "{}", figures.page());
    });
}
