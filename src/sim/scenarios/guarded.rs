//! Nodes that forget as in `forgetting`, but with a restart guard. S50: the error during a quarantine. S96: a replaced
//! server that continues to vote.

use proptest::prelude::*;

use super::*;
use crate::{
    clock::Clock,
    error::Error,
    sim::{Campaign, Memory},
};

fn crash(node: usize, lasts: Duration, memory: Memory) -> Fault {
    Fault::Crash { node, lasts, memory }
}

/// Applies a fault to node 2 while process 0 holds the lock. Without the fault, only node 2 keeps
/// process 1 from a quorum.
fn at_node_2(at: Duration, fault: Fault) -> Report {
    two_holders(meeting_at_node_2(1).with(at, fault))
}

#[test]
fn a_guarded_node_admits_no_lease_beside_a_forgotten_one() {
    let faults = [
        crash(2, SECOND / 2, Memory::Lost),
        crash(2, Duration::ZERO, Memory::AsOf(SECOND)),
        Fault::Flush { node: 2 },
    ];
    for fault in faults {
        let report = at_node_2(SECOND, fault.clone());
        assert_keeps(&report, &Promises::ALL);
        let unguarded = two_holders_of(meeting_at_node_2(1).with(SECOND, fault.clone()), unguarded);
        assert!(breaks(&unguarded, Promise::Exclusion), "{fault} breaks nothing without a guard");
    }
}

#[test]
fn the_guard_does_not_detect_evicted_keys() {
    assert!(breaks(&at_node_2(SECOND, Fault::Evict { node: 2 }), Promise::Exclusion));
}

#[test]
fn an_old_backup_on_enough_nodes_repeats_no_token() {
    let back = |schedule: Schedule, node| {
        schedule.with(2 * SECOND, crash(node, Duration::ZERO, Memory::AsOf(SECOND)))
    };
    let report = run((0..3).fold(steady(3, 1), back), |process| async move {
        let quorum = quorum(&process);
        for rest in [Duration::ZERO, millis(1_500), 30 * SECOND] {
            process.sleep(rest).await;
            drop(quorum.red_lock("r").lock().await);
        }
    });
    assert_eq!(tokens(&report).len(), 3, "not each of the three calls was granted");
    assert_keeps(&report, &Promises::ALL);
}

/// The time at which a fault begins that leads to the replacement of a server.
const FAULT: Duration = SECOND;

/// The replacement of the server of a node in a Redis Cluster by a promoted replica. Process 0 reaches only the former
/// server, and process 1 reaches only the promoted server. All times are since the start of the run.
#[derive(Debug)]
struct Replacement {
    promotion: Duration,
    /// The fault of the former server, with its time.
    former: (Duration, Fault),
    /// The time at which process 0 sends its call to the former server. The answer is the last vote of this server.
    last_call: Duration,
}

impl Replacement {
    /// The former server is cut off from the other masters. The other masters elect the replica after a node timeout, and
    /// the former server stops after 2.3 node timeouts at the latest (docs/CLUSTER.md).
    fn by_partition(node_timeout: Duration) -> Self {
        Self::of_cut_off_server(node_timeout, node_timeout.mul_f64(2.3))
    }

    /// As by a partition, but the cut moves during the election: the former server reaches a majority of the masters that
    /// does not have the result. The former server stops at the end of the cut.
    fn by_moving_partition(node_timeout: Duration, end_of_cut: Duration) -> Self {
        Self::of_cut_off_server(node_timeout, end_of_cut)
    }

    /// `CLUSTER FAILOVER FORCE`: the other masters elect the replica without waiting for a node timeout.
    fn by_force(node_timeout: Duration) -> Self {
        Self::of_cut_off_server(millis(300), node_timeout.mul_f64(2.3))
    }

    /// `CLUSTER FAILOVER TAKEOVER`: the replica needs no votes, so the former server may be with the majority of the
    /// masters, and stops only at the end of the cut.
    fn by_takeover(end_of_cut: Duration) -> Self {
        Self::of_cut_off_server(millis(300), end_of_cut)
    }

    /// Both times are since the cut.
    fn of_cut_off_server(promotion: Duration, stop: Duration) -> Self {
        let down = crash(0, 600 * SECOND, Memory::Kept);
        Self {
            promotion: FAULT + promotion,
            former: (FAULT + stop, down),
            last_call: FAULT + stop - millis(100),
        }
    }

    /// The former server is frozen, and its replica is promoted. When the former server continues, a call is under way,
    /// which the server executes before the server learns of its successor.
    fn by_thaw(node_timeout: Duration, thaw: Duration) -> Self {
        Self {
            promotion: FAULT + node_timeout,
            former: (FAULT, Fault::Hang { node: 0, lasts: thaw }),
            last_call: FAULT + thaw - millis(100),
        }
    }

    /// Whether a lease of the former server and a lease of the promoted server are valid at the same time.
    fn breaks_exclusion(self) -> bool {
        let Self { promotion, former: (time, fault), last_call } = self;
        let promoted = crash(1, Duration::ZERO, Memory::AsOf(Duration::ZERO));
        let report =
            run(steady(2, 2).with(promotion, promoted).with(time, fault), move |process| async move {
                let server = process.index();
                let process = process.with_nodes(server..server + 1);
                let lock = quorum(&process).red_lock("r").options(LockOptions::new().without_renewal());
                if server == 0 {
                    process.sleep(last_call).await;
                    process.lost(&lock.lock().await.unwrap()).await;
                    return;
                }
                // The metadata of the node is older than the promotion.
                drop(lock.lock().await.unwrap());
                process.sleep(promotion + SECOND).await;
                hold(&process, lock.lock().await.unwrap()).await;
            });
        assert_eq!(granted(&report, 0).len(), 1, "the former server gave no vote");
        breaks(&report, Promise::Exclusion)
    }
}

/// The quarantine of the promoted server lasts for `max_ttl`. Therefore votes of the former server are harmless if the
/// time since the promotion is shorter than the difference of `max_ttl` and the ttl, which is one [`TTL`] here.
#[test]
fn s96_the_guard_does_not_detect_that_a_cut_off_server_votes_for_long() {
    assert!(!Replacement::by_partition(TTL / 2).breaks_exclusion());
    assert!(Replacement::by_partition(TTL).breaks_exclusion());
}

#[test]
fn s96_the_guard_does_not_detect_that_a_partition_moves_during_the_election() {
    assert!(!Replacement::by_moving_partition(TTL / 5, TTL).breaks_exclusion());
    assert!(Replacement::by_moving_partition(TTL / 5, 2 * TTL).breaks_exclusion());
}

#[test]
fn s96_the_guard_does_not_detect_calls_under_way_at_a_thaw() {
    assert!(!Replacement::by_thaw(TTL / 5, TTL).breaks_exclusion());
    assert!(Replacement::by_thaw(TTL / 5, 2 * TTL).breaks_exclusion());
}

/// With the same node timeout, the gap after `FORCE` is longer than the gap after a partition.
#[test]
fn s96_the_guard_does_not_detect_a_forced_failover_of_a_cut_off_server() {
    assert!(!Replacement::by_force(TTL / 5).breaks_exclusion());
    assert!(Replacement::by_force(TTL / 2).breaks_exclusion());
}

/// The node timeout does not limit the gap after `TAKEOVER`.
#[test]
fn s96_the_guard_does_not_detect_a_takeover_from_a_cut_off_server() {
    assert!(!Replacement::by_takeover(TTL).breaks_exclusion());
    assert!(Replacement::by_takeover(2 * TTL).breaks_exclusion());
}

#[test]
fn s50_an_error_names_the_quarantine_and_its_remaining_time() {
    let restarted = (0..2).fold(steady(3, 1), |schedule, node| {
        schedule.with(SECOND, crash(node, Duration::ZERO, Memory::Lost))
    });
    let report = run(restarted, |process| async move {
        let lock = quorum(&process).red_lock("r");
        process.sleep(2 * SECOND).await;
        match lock.try_lock().await {
            Err(Error::NoQuorum(no_quorum)) if no_quorum.is_quarantined() => {
                assert_eq!(no_quorum.node_replies().needed(), 2);
                let remaining = no_quorum.retry_after().unwrap();
                assert!(remaining > 2 * TTL - 2 * SECOND && remaining < 2 * TTL + SECOND, "{remaining:?}");
            }
            other => panic!("{other:?}"),
        }
        // An explicit quorum timeout ends the call. By default, the call waits for the end of the
        // quarantine.
        assert!(matches!(
            lock.clone().options(LockOptions::new().quorum_timeout(TTL)).lock().await,
            Err(Error::NoQuorum(_))
        ));
        drop(lock.lock().await.unwrap());
    });
    assert_keeps(&report, &Promises::ALL);
}

/// Returns a schedule that restarts five nodes without their data one after the other, each node twice.
fn rolling_restarts(seed: u64, spacing: Duration, down: Duration) -> Schedule {
    let restart = |schedule: Schedule, number: u32| {
        let node = usize::try_from(number % 5).unwrap();
        schedule.with(5 * SECOND + number * spacing, crash(node, down, Memory::Lost))
    };
    (0..10).fold(Schedule::without_faults(seed, 5, 3), restart)
}

/// Process 0 holds the lock until a second after `until`. The other processes call `try_lock` repeatedly until
/// `until`, without success.
async fn hold_through(process: Process, until: Duration) {
    let lock = quorum(&process).red_lock("r");
    if process.index() > 0 {
        process.sleep(SECOND).await;
        while process.clock().now().since_origin() < until {
            assert!(
                !matches!(lock.try_lock().await, Ok(Some(_))),
                "a second process got the lock during the lease"
            );
            process.sleep(millis(100)).await;
        }
        return;
    }
    let guard = lock.lock().await.unwrap();
    process.sleep(until + SECOND).await;
    assert!(process.check_valid(&guard), "the lease was lost");
    drop(guard);
}

#[test]
fn a_lease_survives_the_restart_of_every_node_one_after_the_other() {
    const RUNS: u64 = 3_000;
    // The sum of the attempt timeout, of the drift that lengthens the quarantine, and of the time
    // that a request takes.
    let spacing = 2 * SECOND + millis(100);
    let schedules = (any::<u64>(), 0_u64..=400, 1_u64..=50)
        .prop_map(move |(seed, later, down)| rolling_restarts(seed, spacing + millis(later), millis(down)));
    let found = Campaign::new(RUNS).run(&schedules, |schedule| {
        let until = schedule.faults_end() + SECOND;
        let report = run(schedule.clone(), |process| hold_through(process, until));
        report.check(&Promises::ALL).map(|()| report)
    });
    let summary = found.unwrap_or_else(|found| panic!("{found}"));
    assert_eq!((summary.runs, summary.grants), (RUNS, RUNS), "not exactly one lease in each run");
}
