//! S51 to S56, S60: waiting in the queue.

use super::*;
use crate::sim::{Memory, Schedules, mutations::cases::is_out_of_turn};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};

/// Longer than a client needs to be queued again.
const HOLD: Duration = Duration::from_millis(500);

async fn rounds(client: Client, rounds: u32, hold: Duration) {
    let quorum = quorum(&client);
    let lock = quorum.red_lock("r");
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
    let guard = quorum.red_lock("r").lock().await.unwrap();
    if client.index() > 0 {
        hold(&client, guard).await;
        return None;
    }
    client.sleep(2 * SECOND).await;
    Some(guard)
}

#[test]
fn s51_waiters_get_their_turn_in_the_order_of_arrival() {
    for (seed, nodes) in (0..30).flat_map(|seed| [1, 2, 3, 5].map(|nodes| (seed, nodes))) {
        let report =
            run(Schedule::calm(seed, nodes, 8), |client| async move { drop(in_order(client).await) });
        assert_keeps(&report, &Promises::ALL);
        assert_eq!(turns(&report), [0, 1, 2, 3, 4, 5, 6, 7], "seed {seed}, {nodes} nodes");
    }
}

/// In any schedule without faults in which no unlock is slower than wake, answer and lock together.
#[test]
fn s51_nobody_has_two_turns_while_another_waits_for_its_own() {
    let schedules = Schedules::tolerated().clients(2..=8).faults(0, 0).strategy();
    let mut runner = TestRunner::deterministic();
    for _ in 0..400 {
        let mut schedule = schedules.new_tree(&mut runner).unwrap().current();
        let longest = schedule.latency.longest;
        schedule.latency = Latency::between(longest / 3 + micros(1), longest);
        let report = run(schedule.clone(), |client| rounds(client, 4, HOLD));
        assert_keeps(&report, &Promises::ALL);
        assert!(!is_out_of_turn(&report), "{schedule}: {:?}", turns(&report));
        assert_eq!(turns(&report).len(), 4 * schedule.clients);
    }
}

#[test]
fn s52_a_hand_off_takes_two_round_trips_however_many_wait() {
    for clients in [2, 10, 30] {
        let report = run(steady(5, clients), |client| rounds(client, 6, HOLD));
        assert_keeps(&report, &Promises::ALL);
        // When nobody else waits any more, the resource is locked as a free one is.
        let hand_offs: Vec<_> = hand_offs(&report).into_iter().take(6 * clients - clients).collect();
        assert!(hand_offs.iter().all(|took| *took <= millis(4)), "{clients}: {hand_offs:?}");
    }
}

#[test]
fn s52_what_a_lease_costs_does_not_grow_with_the_number_of_those_who_wait() {
    let cost = |clients: usize, rounds: u32| {
        let report = run(steady(5, clients), move |client| self::rounds(client, rounds, millis(10)));
        let leases = clients as u64 * u64::from(rounds);
        assert_eq!(turns(&report).len() as u64, leases);
        (report.messages, leases)
    };
    // What the first lease of a client costs, connecting and finding the queue, is left out.
    let per_lease = |clients| {
        let ((few, of_few), (many, of_many)) = (cost(clients, 3), cost(clients, 9));
        (many - few) as f64 / (of_many - of_few) as f64
    };
    let costs = [2, 10, 30].map(per_lease);
    eprintln!("messages per lease: {costs:?}");
    assert!(costs.iter().all(|cost| *cost < 44.0), "{costs:?}");
    assert!(costs[2] < 1.2 * costs[0], "{costs:?}");
}

/// Something happens to the first in the queue just before the lock is released.
fn without_its_head(fault: Fault) -> Report {
    let schedule = steady(5, 4).with(1_900 * millis(1), fault);
    run(schedule, |client| async move { drop(in_order(client).await) })
}

/// When client 2, which was second in the queue, had the lock, counted from the release.
fn second_after_release(report: &Report) -> Duration {
    assert_keeps(report, &Promises::ALL);
    granted(report, 2)[0] - ended(report, 0)[0]
}

#[test]
fn s53_a_waiter_that_is_gone_is_passed_over_at_once() {
    let report = without_its_head(Fault::Kill { client: 1 });
    assert!(second_after_release(&report) <= millis(4), "{:?}", second_after_release(&report));
    assert_eq!(turns(&report), [0, 2, 3]);
}

#[test]
fn s53_a_waiter_that_stands_still_is_passed_over_by_the_second_soon_after_the_release() {
    let report = without_its_head(Fault::Pause { client: 1, lasts: 30 * SECOND });
    let after = second_after_release(&report);
    assert!(after > millis(100) && after < millis(150), "{after:?}");
    assert_eq!(turns(&report), [0, 2, 3, 1]);
}

/// Client 1 gives up within ten milliseconds of the release, often in the attempt for which it was
/// woken; so long after the release client 2 has the lock.
fn after_a_head_that_gives_up() -> Duration {
    let after = (0..40).map(|quarter| {
        let report = run(steady(5, 3), move |client| async move {
            if client.index() != 1 {
                drop(in_order(client).await);
                return;
            }
            client.sleep(millis(100)).await;
            let quorum = quorum(&client);
            let wait = client.sleep(1_900 * millis(1) + micros(250) * quarter);
            let lock = quorum.red_lock("r");
            drop(futures::future::select(Box::pin(lock.lock()), Box::pin(wait)).await);
        });
        second_after_release(&report)
    });
    after.max().unwrap()
}

/// Grants to four clients that come again at once, in ten seconds; a fifth stands still for 400 of
/// every 410 ms, or is not there.
fn beside_one_that_stalls(is_there: bool) -> usize {
    let stall = Fault::Pause { client: 4, lasts: millis(400) };
    let stalls = |schedule: Schedule, number| schedule.with(millis(410) * number, stall.clone());
    let schedule = (1..24).fold(steady(5, 5), stalls);
    let report = run(schedule, |client| async move {
        if is_there || client.index() < 4 {
            rounds(client, 1_000, millis(1)).await;
        }
    });
    let end = 10 * SECOND;
    (0..4).map(|client| granted(&report, client).iter().filter(|at| **at < end).count()).sum()
}

#[test]
fn s53_a_client_that_stalls_again_and_again_leaves_the_others_half_of_their_turns() {
    let (alone, beside) = (beside_one_that_stalls(false), beside_one_that_stalls(true));
    eprintln!("beside one that stalls {beside} grants, without it {alone}");
    assert!(beside >= alone / 2, "{beside} {alone}");
}

#[test]
fn s53_a_waiter_that_gives_up_when_it_is_woken_wakes_the_next() {
    let handed_on = after_a_head_that_gives_up();
    let kept = breaking(Mutation::KeepTheTurn, after_a_head_that_gives_up);
    eprintln!(
        "the second in the queue has the lock {handed_on:?} after the release, if the next is not woken {kept:?}"
    );
    assert!(handed_on <= millis(15), "{handed_on:?}");
    assert!(kept > millis(100), "{kept:?}");
}

#[test]
fn s54_when_the_queue_node_is_lost_the_next_one_serves() {
    let cut_off = |client, node| Fault::Partition { client, node, way: Way::Both, lasts: 20 * SECOND };
    let faults = |node| {
        [
            vec![Fault::Crash { node, lasts: 60 * SECOND, memory: Memory::Kept }],
            vec![Fault::Crash { node, lasts: SECOND, memory: Memory::Lost }],
            vec![Fault::Crash { node, lasts: SECOND, memory: Memory::AsOf(2 * SECOND) }],
            vec![Fault::Flush { node }],
            vec![Fault::Hang { node, lasts: 20 * SECOND }],
            // From half of the clients alone.
            (0..3).map(|client| cut_off(client, node)).collect(),
        ]
    };
    for (seed, faults) in (0..5).flat_map(|seed| (0..5).flat_map(faults).map(move |faults| (seed, faults))) {
        let at_once = |schedule: Schedule, fault: &Fault| schedule.with(millis(2_600), fault.clone());
        let schedule = faults.iter().fold(Schedule::calm(seed, 5, 6), at_once);
        let report = run(schedule, |client| rounds(client, 5, HOLD));
        assert_keeps(&report, &Promises::ALL);
        assert_eq!(turns(&report).len(), 30);
        let slowest = hand_offs(&report).into_iter().max().unwrap();
        assert!(slowest < 2 * SECOND, "seed {seed}, {faults:?}: {slowest:?}");
    }
}

/// A client that reaches one node alone is killed, and its vote stays there for a ttl: whichever
/// node that is, the queue node too. Others take turns meanwhile: how often a hand-over took long,
/// because the queue node was that one.
fn beside_a_key_that_nobody_takes_back<Turns>(
    turns: impl Fn(Client) -> Turns + Copy + Send + Sync + 'static,
) -> usize
where
    Turns: Future<Output = ()> + Send + 'static,
{
    let mut stuck = 0;
    for (node, quarter) in (0..5).flat_map(|node| (12..24).map(move |quarter| (node, quarter))) {
        let others: Vec<usize> = (0..5).filter(|other| *other != node).collect();
        let schedule = cut(steady(5, 4), 0, &others, Way::Both, millis(3), 60 * SECOND);
        let report =
            run(schedule.with(micros(250) * quarter, Fault::Kill { client: 0 }), move |client| async move {
                client.sleep(client.index() as u32 * millis(50)).await;
                if client.index() == 0 {
                    rounds(client, 3, HOLD).await;
                } else {
                    turns(client).await;
                }
            });
        assert_keeps(&report, &Promises::ALL);
        let first = granted(&report, 1)[0];
        assert!(first < millis(60), "{node} {quarter}: {first:?}");
        assert!(self::turns(&report).len() >= 9, "{node} {quarter}: {:?}", self::turns(&report));
        let slowest = hand_offs(&report).into_iter().max().unwrap();
        assert!(slowest < 2 * SECOND, "{node} {quarter}: {slowest:?}");
        stuck += usize::from(slowest > millis(100));
    }
    stuck
}

#[test]
fn s55_a_key_that_nobody_takes_back_at_the_queue_node_does_not_block_it() {
    let stuck = beside_a_key_that_nobody_takes_back(|client| rounds(client, 3, HOLD));
    assert!(stuck > 0, "no key was left behind");
}

#[test]
fn s55_nor_does_it_block_a_group() {
    let stuck = beside_a_key_that_nobody_takes_back(|client| async move {
        let quorum = quorum(&client);
        for _ in 0..3 {
            // The first of the group, whose queue another node keeps.
            let guard = quorum.multi_lock(["c", "r"]).lock().await.unwrap();
            client.sleep(HOLD).await;
            drop(guard);
        }
    });
    assert!(stuck > 0, "no key was left behind");
}

/// A holder of another kind tells nobody whose turn it is; then the queued waiters come back by
/// themselves.
fn after_a_holder_that_is_killed() -> Duration {
    let schedule = steady(3, 2).with(SECOND, Fault::Kill { client: 0 });
    let report = run(schedule, |client| async move {
        let quorum = quorum(&client);
        let lock = quorum.red_lock("r").options(LockOptions::new().polls(60 * SECOND, 60 * SECOND));
        client.sleep(client.index() as u32 * millis(100)).await;
        let guard = lock.ttl(2 * SECOND).without_renewal().lock().await.unwrap();
        if client.index() == 0 {
            client.sleep(60 * SECOND).await;
        }
        hold(&client, guard).await;
    });
    granted(&report, 1)[0]
}

#[test]
fn s56_a_waiter_that_is_not_woken_comes_back_when_the_ttl_of_the_holder_ends() {
    let second = after_a_holder_that_is_killed();
    assert!(second > 2 * SECOND && second < 2 * SECOND + millis(50), "{second:?}");
    let late = breaking(Mutation::SleepPastTheEnd, after_a_holder_that_is_killed);
    assert!(late > 2 * SECOND + millis(100), "{late:?}");
}

/// A holder is killed, two wait, and another client comes when the ttl is just over, at forty
/// different moments: how often it was served before the first of those who waited.
fn newcomers_after_a_killed_holder() -> usize {
    let served = (0..40).map(|half| {
        let schedule = steady(3, 4).with(SECOND, Fault::Kill { client: 0 });
        let report = run(schedule, move |client| async move {
            let quorum = quorum(&client);
            let begin = if client.index() == 3 { 1_995 + half / 2 } else { 100 * client.index() as u64 };
            client.sleep(millis(begin) + micros(500) * (half as u32 % 2)).await;
            let guard = quorum.red_lock("r").ttl(2 * SECOND).without_renewal().lock().await.unwrap();
            if client.index() == 0 {
                client.sleep(60 * SECOND).await;
            }
            hold(&client, guard).await;
        });
        turns(&report)
    });
    served.filter(|turns| turns[1] == 3).count()
}

#[test]
fn s56_a_newcomer_at_the_end_of_the_ttl_goes_behind_the_waiters() {
    assert_eq!(newcomers_after_a_killed_holder(), 0);
    let overtaking = breaking(Mutation::IgnoreTheQueue, newcomers_after_a_killed_holder);
    eprintln!("where the queue is ignored, {overtaking} of 40 overtake");
    assert!(overtaking > 0);
}

/// Clients that come once, at random, and find the resource held for so much of the time: how many
/// were served although somebody had come more than four milliseconds earlier, in percent.
fn overtaking(load: f64) -> f64 {
    const CLIENTS: usize = 200;
    let hold = millis(1);
    let overtaken = (0..4).map(|seed| {
        let mut schedule = Schedule::calm(seed, 5, CLIENTS);
        schedule.latency = Latency::between(micros(400), micros(600));
        // Each lease takes a hold and a round trip to hand it on.
        let mean = (hold + 2 * millis(1)).div_f64(load).as_secs_f64();
        let mut random = StdRng::seed_from_u64(seed);
        let mut time = 0.1;
        let arrivals: Vec<Duration> = (0..CLIENTS)
            .map(|_| {
                time -= mean * (1.0 - random.random_range(0.0..1.0_f64)).ln();
                Duration::from_secs_f64(time)
            })
            .collect();
        let comes = arrivals.clone();
        let report = run(schedule, move |client| {
            let comes = comes[client.index()];
            async move {
                let quorum = quorum(&client);
                let lock = quorum.red_lock("r");
                client.sleep(comes).await;
                let guard = lock.lock().await.unwrap();
                client.sleep(hold).await;
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
fn s61_hardly_any_waiter_is_overtaken_by_a_later_one() {
    let orderly = [0.8, 0.95].map(overtaking);
    let unmarked = breaking(Mutation::LetNobodyFirst, || overtaking(0.8));
    eprintln!("overtaking: {orderly:?} %, without marks: {unmarked} %");
    assert!(orderly.iter().all(|share| *share < 1.0), "{orderly:?}");
    assert!(unmarked > 4.0, "{unmarked}");
}

/// The queue node hangs while clients come one after the other to a free resource: the longest that
/// one of them needs to have it, apart from the first.
fn with_a_silent_queue_node() -> Duration {
    let waits = (0..5).map(|node| {
        let schedule = steady(5, 4).with(SECOND, Fault::Hang { node, lasts: 60 * SECOND });
        let report = run(schedule, |client| async move {
            let quorum = quorum(&client);
            drop(quorum.red_lock("other").lock().await.unwrap());
            client.sleep(2 * SECOND + client.index() as u32 * millis(20)).await;
            let guard = quorum.red_lock("r").lock().await.unwrap();
            client.sleep(millis(5)).await;
            drop(guard);
        });
        assert_keeps(&report, &Promises::ALL);
        let asked = |client| when(&report, client, |event| matches!(event, Event::Began { .. }));
        let begun = |client| asked(client).into_iter().find(|at| *at > 2 * SECOND).unwrap();
        let wait = |client| granted(&report, client)[1] - begun(client);
        (1..4).map(wait).max().unwrap()
    });
    waits.max().unwrap()
}

#[test]
fn s63_a_queue_node_that_hangs_costs_a_free_resource_nothing() {
    let wait = with_a_silent_queue_node();
    let marked = breaking(Mutation::MarkUnheard, with_a_silent_queue_node);
    eprintln!(
        "a free resource takes {wait:?}, if a client that did not hear the node leaves marks {marked:?}"
    );
    assert!(wait <= millis(5), "{wait:?}");
    assert!(marked > millis(100), "{marked:?}");
}
