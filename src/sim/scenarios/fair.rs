//! S51, S52 and S61: the order of waiters, and the time and messages of a hand-off.

use super::*;
use crate::sim::{Schedules, mutations::cases::is_out_of_turn};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};

/// The time for which each process holds the lock. The time is long enough that a process that locks again
/// enters the queue before the next holder unlocks.
pub(super) const HOLD: Duration = Duration::from_millis(500);

/// Locks `rounds` times, each time for `hold`.
pub(super) async fn rounds(process: Process, rounds: u32, hold: Duration) {
    let quorum = quorum(&process);
    let lock = quorum.red_lock("r");
    for _ in 0..rounds {
        let guard = lock.lock().await.unwrap();
        process.sleep(hold).await;
        assert!(process.check_valid(&guard));
        drop(guard);
    }
}

/// Returns the times from each unlock to the next grant.
pub(super) fn hand_offs(report: &Report) -> Vec<Duration> {
    let mut unlocked = None;
    let mut hand_offs = Vec::new();
    for entry in report.history.entries() {
        match entry.event {
            Event::Granted { .. } => hand_offs.extend(unlocked.take().map(|at| entry.at - at)),
            Event::Ended { .. } => unlocked = Some(entry.at),
            _ => {}
        }
    }
    hand_offs
}

/// Locks in the order of the processes: each process arrives a tenth of a second after the process before.
/// Process 0 holds the lock for two seconds, and returns its guard for the caller to drop. The other processes
/// hold the lock for a moment, and return `None`.
pub(super) async fn in_order(process: Process) -> Option<LockGuard> {
    let quorum = quorum(&process);
    process.sleep(process.index() as u32 * millis(100)).await;
    let guard = quorum.red_lock("r").lock().await.unwrap();
    if process.index() > 0 {
        hold(&process, guard).await;
        return None;
    }
    process.sleep(2 * SECOND).await;
    Some(guard)
}

#[test]
fn s51_waiters_lock_in_order_of_arrival() {
    for (seed, nodes) in (0..30).flat_map(|seed| [1, 2, 3, 5].map(|nodes| (seed, nodes))) {
        let report =
            run(
                Schedule::without_faults(seed, nodes, 8),
                |process| async move { drop(in_order(process).await) },
            );
        assert_keeps(&report, &Promises::ALL);
        assert_eq!(turns(&report), [0, 1, 2, 3, 4, 5, 6, 7], "seed {seed}, {nodes} nodes");
    }
}

/// The schedules have no faults, and no unlock takes longer than the wake, its answer and the lock
/// request together.
#[test]
fn s51_no_process_has_two_turns_while_another_waits() {
    let schedules = Schedules::tolerated().processes(2..=8).faults(0, 0).strategy();
    let mut runner = TestRunner::deterministic();
    for _ in 0..400 {
        let mut schedule = schedules.new_tree(&mut runner).unwrap().current();
        let longest = schedule.latency.longest;
        schedule.latency = Latency::between(longest / 3 + micros(1), longest);
        let report = run(schedule.clone(), |process| rounds(process, 4, HOLD));
        assert_keeps(&report, &Promises::ALL);
        assert!(!is_out_of_turn(&report), "{schedule}: {:?}", turns(&report));
        assert_eq!(turns(&report).len(), 4 * schedule.processes);
    }
}

#[test]
fn s52_a_hand_off_takes_two_round_trips_for_any_number_of_waiters() {
    for processes in [2, 10, 30] {
        let report = run(steady(5, processes), |process| rounds(process, 6, HOLD));
        assert_keeps(&report, &Promises::ALL);
        // The last hand-offs are left out, because the last process locks a free resource.
        let hand_offs: Vec<_> = hand_offs(&report).into_iter().take(6 * processes - processes).collect();
        assert!(hand_offs.iter().all(|took| *took <= millis(4)), "{processes}: {hand_offs:?}");
    }
}

#[test]
fn s52_messages_per_lease_do_not_grow_with_the_number_of_waiters() {
    let cost = |processes: usize, rounds: u32| {
        let report = run(steady(5, processes), move |process| self::rounds(process, rounds, millis(10)));
        let leases = processes as u64 * u64::from(rounds);
        assert_eq!(turns(&report).len() as u64, leases);
        (report.messages, leases)
    };
    // The first lease of each process is excluded, because it includes messages for connections and
    // for finding the queue node.
    let per_lease = |processes| {
        let ((few, of_few), (many, of_many)) = (cost(processes, 3), cost(processes, 9));
        (many - few) as f64 / (of_many - of_few) as f64
    };
    let costs = [2, 10, 30].map(per_lease);
    eprintln!("messages per lease: {costs:?}");
    assert!(costs.iter().all(|cost| *cost < 44.0), "{costs:?}");
    assert!(costs[2] < 1.2 * costs[0], "{costs:?}");
}

/// Returns the percentage of clients that get the lock although another client has waited for at
/// least four milliseconds longer. Each client locks once, at a random time. The resource is held
/// for the fraction `load` of the time.
fn percentage_overtaken(load: f64) -> f64 {
    const CLIENTS: usize = 200;
    let hold = millis(1);
    let overtaken = (0..4).map(|seed| {
        let mut schedule = Schedule::without_faults(seed, 5, CLIENTS);
        schedule.latency = Latency::between(micros(400), micros(600));
        // A lease occupies the resource for its hold and for the round trip of the hand-off.
        let mean = (hold + 2 * millis(1)).div_f64(load).as_secs_f64();
        let mut random = StdRng::seed_from_u64(seed);
        let mut time = 0.1;
        let arrivals: Vec<Duration> = (0..CLIENTS)
            .map(|_| {
                time -= mean * (1.0 - random.random_range(0.0..1.0_f64)).ln();
                Duration::from_secs_f64(time)
            })
            .collect();
        let arrives_at = arrivals.clone();
        let report = run(schedule, move |process| {
            let arrives_at = arrives_at[process.index()];
            async move {
                let quorum = quorum(&process);
                let lock = quorum.red_lock("r");
                process.sleep(arrives_at).await;
                let guard = lock.lock().await.unwrap();
                process.sleep(hold).await;
                guard.unlock().await.unwrap();
            }
        });
        assert_keeps(&report, &Promises::ALL);
        let served = turns(&report);
        assert_eq!(served.len(), CLIENTS);
        let overtakes = |at: &usize| {
            let own = arrivals[served[*at]];
            served[at + 1..].iter().any(|later| arrivals[*later] + millis(4) < own)
        };
        (0..CLIENTS).filter(overtakes).count()
    });
    overtaken.sum::<usize>() as f64 * 100.0 / (4 * CLIENTS) as f64
}

#[test]
fn s61_less_than_one_percent_of_waiters_are_overtaken() {
    let orderly = [0.8, 0.95].map(percentage_overtaken);
    let unmarked = breaking(Mutation::IgnoreYieldMark, || percentage_overtaken(0.8));
    eprintln!("overtaking: {orderly:?} %, without marks: {unmarked} %");
    assert!(orderly.iter().all(|share| *share < 1.0), "{orderly:?}");
    assert!(unmarked > 4.0, "{unmarked}");
}
