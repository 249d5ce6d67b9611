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
