//! S93 and S94: resources that stay taken for a minimum hold.

use super::*;
use crate::sim::{Direction, Verdict};

/// The longest difference between the minimum hold and the time for which the resource is taken: an interval of
/// [`probe`], the drift, and round trips.
const SLACK: Duration = millis(200);

/// The times of one lease with a minimum hold.
#[derive(Clone, Copy, Debug)]
struct Hold {
    ttl: Duration,
    at_least: Duration,
    /// The time from the grant to the unlock.
    job: Duration,
}

const fn hold_of([ttl, at_least, job]: [u64; 3]) -> Hold {
    Hold { ttl: millis(1_000 * ttl), at_least: millis(1_000 * at_least), job: millis(1_000 * job) }
}

/// Process 0 locks, holds the lease for the time of its job, and unlocks. Process 1 attempts every 10 ms. Returns the
/// time from the first grant to the second grant.
fn taken(schedule: Schedule, hold: Hold) -> Duration {
    let report = run(schedule, move |process| async move {
        if process.index() == 1 {
            return probe(&process, millis(100), millis(10)).await;
        }
        let quorum = quorum(&process);
        let options = LockOptions::new().ttl(hold.ttl).hold_at_least(hold.at_least);
        let guard = quorum.red_lock("r").options(options).lock().await.unwrap();
        process.sleep(hold.job).await;
        drop(guard.unlock().await);
        // The connections stay, so that late requests of this process still arrive.
        process.sleep(2 * TTL).await;
    });
    assert_keeps(&report, &Promises::ALL);
    granted(&report, 1)[0] - granted(&report, 0)[0]
}

#[test]
fn s93_a_resource_stays_taken_for_its_minimum_hold_and_hardly_longer() {
    for times in
        [[10, 3, 1], [10, 3, 4], [10, 12, 1], [4, 12, 1], [4, 12, 6], [4, 12, 11], [4, 12, 14], [20, 5, 1]]
    {
        let hold = hold_of(times);
        let taken = taken(steady(3, 2), hold);
        let expected = hold.at_least.max(hold.job);
        assert!(taken >= expected - millis(5) && taken < expected + SLACK, "{hold:?}: {taken:?}");
    }
    let deleting = || taken(steady(3, 2), hold_of([10, 3, 1]));
    assert!(breaking(Mutation::DeleteDuringMinimumHold, deleting) < 2 * SECOND);
}

#[test]
fn s93_a_holder_that_dies_keeps_the_resource_for_its_minimum_hold() {
    let killed = || {
        let schedule = steady(3, 2).with(millis(500), Fault::Kill { process: 0 });
        taken(schedule, hold_of([4, 12, 1]))
    };
    let kept = killed();
    assert!(kept >= 12 * SECOND - millis(5) && kept < 12 * SECOND + SLACK, "{kept:?}");
    assert!(breaking(Mutation::TtlBelowMinimumHold, killed) < 5 * SECOND);
}

/// Returns the longest time for which the resource is taken if one request of process 0 to each node arrives twice, or
/// late. The requests are the lock, renewals and the unlock, among others.
fn taken_at_most(hold: Hold, verdict: Verdict) -> Duration {
    let at =
        |schedule: Schedule, node, index| schedule.with_message(0, node, Direction::Request, index, verdict);
    let all = |index| (0..3).fold(steady(3, 2), |schedule, node| at(schedule, node, index));
    (2..7).map(|index| taken(all(index), hold)).max().unwrap()
}

#[test]
fn s94_requests_that_arrive_late_or_twice_do_not_extend_a_minimum_hold() {
    // The second copy of the unlock arrives after the end of the minimum hold.
    let twice = || taken_at_most(hold_of([10, 3, 1]), Verdict::Duplicate(millis(1_500)));
    let taken = twice();
    assert!(taken < 3 * SECOND + SLACK, "{taken:?}");
    assert!(breaking(Mutation::RestExtends, twice) > 4 * SECOND);
    assert!(breaking(Mutation::RestWithoutTombstone, twice) > 4 * SECOND);
}

/// Ten hosts start a job of 10 ms at the same time of their clocks, which are up to 2 s apart. The clocks of the nodes are
/// seconds apart, too. Returns the number of hosts that run the job.
fn runs_of_a_job() -> usize {
    const HOSTS: usize = 10;
    let mut schedule = steady(3, HOSTS);
    schedule.process_rates = (0..HOSTS).map(|host| if host % 2 == 0 { 5_000 } else { -5_000 }).collect();
    let step = |schedule: Schedule, (node, by)| schedule.with(Duration::ZERO, Fault::Step { node, by });
    let report = run([(0, -3_000), (2, 5_000)].into_iter().fold(schedule, step), |process| async move {
        let quorum = quorum(&process);
        process.sleep(SECOND + 2 * SECOND * process.index() as u32 / (HOSTS as u32 - 1)).await;
        let options = LockOptions::new().hold_at_least(10 * SECOND);
        if let Some(guard) = quorum.red_lock("r").options(options).try_lock().await.unwrap() {
            process.sleep(millis(10)).await;
            guard.unlock().await.unwrap();
        }
    });
    assert_keeps(&report, &Promises::ALL);
    turns(&report).len()
}

#[test]
fn s93_of_ten_hosts_that_start_a_short_job_within_seconds_one_runs_it() {
    assert_eq!(runs_of_a_job(), 1);
    assert!(breaking(Mutation::DeleteDuringMinimumHold, runs_of_a_job) > 1);
}
