//! S51 to S56: waiting in line.

use super::*;
use crate::{
    RetryPolicy,
    sim::{Memory, Schedules, mutations::cases::is_out_of_turn},
};
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};

/// How long a place is kept that nobody asks for: twice the longest fallback poll.
const LIFE: Duration = Duration::from_secs(10);

/// Longer than a client needs to be in line again.
const HOLD: Duration = Duration::from_millis(500);

async fn rounds(client: Client, rounds: u32, hold: Duration, is_fair: impl Fn(&Client) -> bool) {
    let quorum = quorum(&client);
    let lock = quorum.red_lock("r");
    let lock = if is_fair(&client) { lock.fair() } else { lock };
    for _ in 0..rounds {
        let guard = lock.lock().await.unwrap();
        client.sleep(hold).await;
        assert!(client.look(&guard));
        drop(guard);
    }
}

/// From each unlock to the next grant.
fn hand_offs(report: &Report) -> Vec<Duration> {
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

/// Client 0 holds the lock; the others come one after the other, each a tenth of a second later.
async fn in_order(client: Client) -> Option<LockGuard> {
    let quorum = quorum(&client);
    client.sleep(client.index() as u32 * millis(100)).await;
    let guard = quorum.red_lock("r").fair().lock().await.unwrap();
    if client.index() > 0 {
        hold(&client, guard).await;
        return None;
    }
    client.sleep(2 * SECOND).await;
    Some(guard)
}

#[test]
fn s51_whoever_waits_gets_its_turn_in_the_order_of_arrival() {
    for (seed, nodes) in (0..30).flat_map(|seed| [1, 2, 3, 5].map(|nodes| (seed, nodes))) {
        let report =
            run(Schedule::calm(seed, nodes, 8), |client| async move { drop(in_order(client).await) });
        assert_keeps(&report, &Promises::ALL);
        assert_eq!(turns(&report), [0, 1, 2, 3, 4, 5, 6, 7], "seed {seed}, {nodes} nodes");
    }
}

/// In any schedule without faults in which no unlock is slower than call, answer and lock together.
#[test]
fn s51_nobody_has_two_turns_while_another_waits_for_its_own() {
    let schedules = Schedules::tolerated().clients(2..=8).faults(0, 0).strategy();
    let mut runner = TestRunner::deterministic();
    for _ in 0..400 {
        let mut schedule = schedules.new_tree(&mut runner).unwrap().current();
        let longest = schedule.latency.longest;
        schedule.latency = Latency::between(longest / 3 + micros(1), longest);
        let report = run(schedule.clone(), |client| rounds(client, 4, HOLD, |_| true));
        assert_keeps(&report, &Promises::ALL);
        assert!(!is_out_of_turn(&report), "{schedule}: {:?}", turns(&report));
        assert_eq!(turns(&report).len(), 4 * schedule.clients);
    }
}

#[test]
fn s52_a_hand_off_takes_two_round_trips_however_many_wait() {
    for clients in [2, 10, 30] {
        let report = run(steady(5, clients), |client| rounds(client, 6, HOLD, |_| true));
        assert_keeps(&report, &Promises::ALL);
        // When nobody else waits any more, the resource is locked as a free one is.
        let hand_offs: Vec<_> = hand_offs(&report).into_iter().take(6 * clients - clients).collect();
        assert!(hand_offs.iter().all(|took| *took <= millis(4)), "{clients}: {hand_offs:?}");
    }
}

#[test]
fn s52_what_a_lease_costs_does_not_grow_with_the_number_of_those_who_wait() {
    let cost = |clients: usize, rounds: u32| {
        let report =
            run(steady(5, clients), move |client| self::rounds(client, rounds, millis(10), |_| true));
        let leases = clients as u64 * u64::from(rounds);
        assert_eq!(turns(&report).len() as u64, leases);
        (report.messages, leases)
    };
    // What the first lease of a client costs, connecting and finding the line, is left out.
    let per_lease = |clients| {
        let ((few, of_few), (many, of_many)) = (cost(clients, 3), cost(clients, 9));
        (many - few) as f64 / (of_many - of_few) as f64
    };
    let costs = [2, 10, 30].map(per_lease);
    eprintln!("messages per lease: {costs:?}");
    assert!(costs.iter().all(|cost| *cost < 36.0), "{costs:?}");
    assert!(costs[2] < 1.2 * costs[0], "{costs:?}");
}

/// Something happens to the first of the line just before the lock is released.
fn without_its_head(fault: Fault) -> Report {
    let schedule = steady(5, 4).with(1_900 * millis(1), fault);
    run(schedule, |client| async move { drop(in_order(client).await) })
}

/// When client 2, which was second in line, had the lock, counted from the release.
fn second_after_release(report: &Report) -> Duration {
    assert_keeps(report, &Promises::ALL);
    granted(report, 2)[0] - ended(report, 0)[0]
}

#[test]
fn s53_whoever_is_gone_is_passed_over_at_once() {
    let report = without_its_head(Fault::Kill { client: 1 });
    assert!(second_after_release(&report) <= millis(4), "{:?}", second_after_release(&report));
    assert_eq!(turns(&report), [0, 2, 3]);
}

#[test]
fn s53_whoever_stands_still_delays_the_others_by_no_more_than_the_life_of_its_place() {
    let report = without_its_head(Fault::Pause { client: 1, lasts: 30 * SECOND });
    let after = second_after_release(&report);
    assert!(after > SECOND && after <= LIFE, "{after:?}");
    assert_eq!(turns(&report), [0, 2, 3, 1]);
}

#[test]
fn s54_when_the_node_that_keeps_the_line_is_lost_the_next_one_does() {
    let faults = |node| {
        [
            Fault::Crash { node, lasts: 60 * SECOND, memory: Memory::Kept },
            Fault::Crash { node, lasts: SECOND, memory: Memory::Lost },
            Fault::Flush { node },
            Fault::Hang { node, lasts: 20 * SECOND },
        ]
    };
    for (seed, fault) in (0..5).flat_map(|seed| (0..5).flat_map(faults).map(move |fault| (seed, fault))) {
        let schedule = Schedule::calm(seed, 5, 6).with(millis(2_600), fault.clone());
        let report = run(schedule, |client| rounds(client, 5, HOLD, |_| true));
        assert_keeps(&report, &Promises::ALL);
        assert_eq!(turns(&report).len(), 30);
        let slowest = hand_offs(&report).into_iter().max().unwrap();
        assert!(slowest < 2 * SECOND, "seed {seed}, {fault:?}: {slowest:?}");
    }
}

/// The vote of a killed client stays at the node that keeps the line, for a ttl.
#[test]
fn s55_a_key_that_nobody_takes_back_at_the_node_that_keeps_the_line_does_not_block_it() {
    let mut stuck = 0;
    for quarter in 0..24 {
        let schedule = steady(5, 4).with(micros(250) * quarter, Fault::Kill { client: 0 });
        let report = run(schedule, |client| async move {
            client.sleep(client.index() as u32 * millis(50)).await;
            rounds(client, 3, HOLD, |_| true).await;
        });
        assert_keeps(&report, &Promises::ALL);
        let is_granted = !granted(&report, 0).is_empty();
        let first = granted(&report, 1)[0];
        assert!(is_granted || first < 2 * SECOND, "{quarter}: {first:?}");
        stuck += usize::from(!is_granted && first > millis(100));
    }
    assert!(stuck > 0, "no key was left behind");
}

#[test]
fn s56_those_who_do_not_stand_in_line_get_the_lock_beside_those_who_do() {
    for seed in 0..20 {
        let report = run(Schedule::calm(seed, 5, 6), |client| {
            rounds(client, 5, HOLD, |client| client.index() % 2 == 0)
        });
        assert_keeps(&report, &Promises::ALL);
        assert_eq!(turns(&report).len(), 30, "seed {seed}");
    }
}

/// A holder of another kind tells nobody whose turn it is; then those in line come back by themselves.
#[test]
fn s56_whoever_is_not_called_comes_back_when_the_ttl_of_the_holder_ends() {
    let schedule = steady(3, 2).with(SECOND, Fault::Kill { client: 0 });
    let report = run(schedule, |client| async move {
        let quorum = quorum(&client);
        let lock = quorum.red_lock("r").fair().retry(RetryPolicy::default().polls(60 * SECOND, 60 * SECOND));
        client.sleep(client.index() as u32 * millis(100)).await;
        let guard = lock.ttl(2 * SECOND).without_renewal().lock().await.unwrap();
        if client.index() == 0 {
            client.sleep(60 * SECOND).await;
        }
        hold(&client, guard).await;
    });
    let second = granted(&report, 1)[0];
    assert!(second > 2 * SECOND && second < 2 * SECOND + millis(50), "{second:?}");
}
