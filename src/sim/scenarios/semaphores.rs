//! S72 to S75 and S87: the utilization of semaphores, the number of permits, the writes under permits,
//! latches, and calls during a quarantine of all nodes.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use proptest::{
    prelude::*,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};

use super::*;
use crate::{
    LockOptions,
    sim::{Campaign, FailingCase, Memory, Schedules, Summary},
};

/// The figures of a semaphore that many processes use repeatedly. `in_use`, `round_trips` and `most_before`
/// are from the calls that begin in the second half of the run.
#[derive(Debug)]
struct Usage {
    /// The average share of the permits in use.
    in_use: f64,
    /// The average time from a call to its grant, in round trips.
    round_trips: f64,
    /// The number of attempts per grant. Only attempts that requested votes count.
    rounds: f64,
    /// The number of attempts per grant, including attempts that only entered a wait queue.
    attempts: f64,
    /// The largest number of grants to other calls between a call and its own grant.
    most_before: usize,
}

/// Runs five nodes with a round trip of one millisecond, and with a fault from the start, if any.
/// Each process holds its permit for ten round trips, and then rests for `rest` round trips on
/// average.
fn usage(permits: u32, processes: usize, rest: f64, fault: Option<Fault>, lasts: Duration) -> Usage {
    let mut schedule = Schedule::without_faults(1, 5, processes);
    schedule.latency = Latency::between(micros(500), micros(500));
    let schedule = fault.into_iter().fold(schedule, |schedule, fault| schedule.with(Duration::ZERO, fault));
    let calls = Arc::new(Mutex::new(Vec::new()));
    let report = Simulation::new(schedule).horizon(10 * lasts).budget(u64::MAX).run(|process| {
        let calls = Arc::clone(&calls);
        async move {
            let semaphore = quorum(&process).semaphore("s", permits);
            #[expect(clippy::disallowed_methods, reason = "a millisecond of tokio's is a microsecond here")]
            let start = tokio::time::Instant::now();
            let now = || start.elapsed().div_f64(1_000.0);
            process.sleep(micros(process.random(0) % 10_000)).await;
            for number in (1..).take_while(|_| now() < lasts) {
                let drawn = (process.random(number) % 1_000_000) as f64 / 1e6;
                process.sleep(millis(1).mul_f64(-(1.0 - drawn).ln() * rest)).await;
                let begun = now();
                let permit = semaphore.acquire().await.unwrap();
                calls.lock().unwrap().push((begun, now()));
                process.sleep(millis(10)).await;
                drop(permit);
            }
        }
    });
    assert_keeps(&report, &Promises::ALL);
    let count = |matches: fn(&Event) -> bool| {
        report.history.entries().iter().filter(|entry| matches(&entry.event)).count() as f64
    };
    let grants = count(|event| matches!(event, Event::Granted { .. }));
    let (rounds, attempts) = (report.rounds as f64, count(|event| matches!(event, Event::Began { .. })));
    let calls = std::mem::take(&mut *calls.lock().unwrap());
    let calls: Vec<_> = calls.into_iter().filter(|(begun, _)| (lasts / 2..lasts).contains(begun)).collect();
    let waited: Duration = calls.iter().map(|(begun, granted)| *granted - *begun).sum();
    let between = |(begun, granted): &(Duration, Duration)| {
        calls.iter().filter(|(_, other)| (*begun..*granted).contains(other)).count()
    };
    // Each permit was in use for ten milliseconds.
    let most = f64::from(permits) * 0.5 * lasts.as_secs_f64();
    Usage {
        in_use: calls.len() as f64 * 0.01 / most,
        round_trips: waited.as_secs_f64() * 1_000.0 / calls.len() as f64,
        rounds: rounds / grants,
        attempts: attempts / grants,
        most_before: calls.iter().map(between).max().unwrap(),
    }
}

fn hanging_node() -> Option<Fault> {
    Some(Fault::Hang { node: 0, lasts: 600 * SECOND })
}

/// Returns a fault that lengthens the round trip to one node by ten milliseconds.
fn distant_node() -> Option<Fault> {
    Some(Fault::Far { node: 0, lasts: 600 * SECOND, by: millis(5) })
}

#[test]
fn s72_a_permit_of_a_half_used_semaphore_takes_at_most_two_round_trips() {
    for fault in [None, hanging_node()] {
        let usage = usage(10, 12, 10.0, fault.clone(), 4 * SECOND);
        eprintln!("{fault:?}: {usage:?}");
        assert!((0.5..0.65).contains(&usage.in_use), "{usage:?}");
        assert!(usage.round_trips < if fault.is_some() { 2.0 } else { 1.5 }, "{usage:?}");
    }
}

/// Runs processes that do not rest, and returns their figures. Prints the figures as one line. The table of
/// docs/BENCHMARKS.md has six of the eight columns, without the attempts and the round trips, and has the
/// values of several lines in one row.
fn saturated(permits: u32, processes: usize, fault: Option<Fault>, lasts: Duration) -> Usage {
    let condition = fault.as_ref().map_or_else(|| "all well".to_owned(), Fault::to_string);
    let usage = usage(permits, processes, 0.0, fault, lasts);
    let Usage { in_use, rounds, attempts, most_before, round_trips } = usage;
    eprintln!(
        "| {permits} | {processes} | {condition} | {in_use:.2} | {rounds:.2} | {attempts:.1} | {round_trips:.0} | {most_before} |"
    );
    usage
}

/// A distant node keeps the queues of some slots. Processes wait in such a queue only if the
/// semaphore has no other slots, because a hand-off there takes two of the longer round trips.
#[test]
fn s72_a_saturated_semaphore_uses_most_permits_and_starves_no_process() {
    for (permits, processes) in [(4, 6), (4, 40), (10, 15), (10, 100), (100, 150)] {
        for (fault, least) in [(None, 0.795), (hanging_node(), 0.785), (distant_node(), 0.795)] {
            let is_without_fault = fault.is_none();
            let usage = saturated(permits, processes, fault, SECOND);
            assert!(usage.in_use >= least && usage.rounds <= 2.5, "{usage:?}");
            assert!(!is_without_fault || usage.most_before <= 2 * processes, "{usage:?}");
        }
    }
}

/// `tests/run.sh --all` runs this test by its name. docs/BENCHMARKS.md has the figures.
#[test]
#[ignore = "it takes minutes, so it is a stage of its own of tests/run.sh --all"]
fn s72_large_saturated_semaphores_use_most_permits() {
    for (permits, processes) in [(100, 150), (100, 1_000), (1_024, 1_536), (1_024, 3_000)] {
        for fault in [None, hanging_node(), distant_node()] {
            let usage = saturated(permits, processes, fault, SECOND / 2);
            assert!(usage.in_use >= 0.785 && usage.rounds <= 2.5, "{usage:?}");
        }
    }
}

/// Runs schedules of tolerated faults, with this broken rule, if any. Returns a failing case if a promise is
/// broken, for example if a slot has two holders at a time, or if a key is left.
fn under_tolerated_faults(
    schedules: u64,
    broken: Option<Mutation>,
) -> Result<Summary, Box<FailingCase<(Schedule, u32)>>> {
    let cases = (Schedules::tolerated().strategy(), 1_u32..4);
    Campaign::new(schedules).seed(22).run(&cases, |(schedule, permits)| {
        let permits = *permits;
        let _broken = break_rule(broken);
        let report = Simulation::new(schedule.clone()).horizon(600 * SECOND).run(move |process| async move {
            let semaphore = quorum(&process).semaphore("s", permits);
            for number in 0..3 {
                process.sleep(micros(process.random(number) % 2_000_000)).await;
                let held = millis(process.random(number + 9) % 3_000);
                if process.random(number + 20) % 4 > 0 {
                    if let Ok(Some(permit)) = semaphore.try_acquire_for(20 * SECOND).await {
                        process.sleep(held).await;
                        drop(permit);
                    }
                    continue;
                }
                // The process gives up after ten seconds.
                let mut all = Box::pin(semaphore.acquire_many(permits));
                let mut patience = Box::pin(process.sleep(10 * SECOND));
                tokio::select! {
                    biased;
                    acquired = &mut all => if let Ok(permits) = acquired {
                        process.sleep(held).await;
                        drop(permits);
                    },
                    () = &mut patience => {}
                }
            }
        });
        report.check(&schedule.promises(DRIFT, RestartGuard::PerConnection)).map(|()| report)
    })
}

#[test]
fn s73_permits_never_exceed_slots_under_tolerated_faults() {
    let summary = under_tolerated_faults(400, None).unwrap_or_else(|failure| panic!("{failure:?}"));
    eprintln!("{summary:?}");
    assert!(summary.grants > 1_000, "{summary:?}");
}

/// If half of the nodes are a quorum, or if nodes count permits instead of slots, clients get too many
/// permits. An incomplete or missing rollback leaves a key of a slot.
#[test]
fn s73_broken_rules_show_in_semaphores() {
    for rule in
        [Mutation::HalfIsQuorum, Mutation::CountPermits, Mutation::RollbackSkipsSilent, Mutation::NoRollback]
    {
        let found = under_tolerated_faults(20_000, Some(rule)).unwrap_err();
        eprintln!("{rule:?}: {found:?}");
    }
}

/// The rows of a store, and whether the store checks the tokens of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    /// One row for each slot, with checks.
    OnePerSlot,
    /// One row for all slots, with checks.
    OneForAll,
    /// One row for each slot, without checks of writes.
    Unfenced,
}

/// The numbers of writes that were accepted, that were refused after the end of the permit, and that were
/// refused under a valid permit. If a read was refused, its write counts as refused.
#[derive(Debug, Default)]
struct Writes {
    accepted: AtomicU64,
    late: AtomicU64,
    refused_valid: AtomicU64,
}

/// Runs processes that read a row for their permit's slot and write the row some time later,
/// whether or not the permit is still valid.
fn writes(schedules: &Schedules, rows: Rows) -> Result<Arc<Writes>, Box<FailingCase<Schedule>>> {
    let writes = Arc::new(Writes::default());
    let noted = Arc::clone(&writes);
    let found = Campaign::new(300).seed(75).run(&schedules.strategy(), move |schedule| {
        let noted = Arc::clone(&noted);
        let report = Simulation::new(schedule.clone()).horizon(600 * SECOND).run(move |process| {
            let noted = Arc::clone(&noted);
            async move {
                let semaphore = quorum(&process).semaphore("s", 2);
                let semaphore = semaphore.options(LockOptions::new().without_renewal());
                for number in 0..3 {
                    process.sleep(micros(process.random(number) % 2_000_000)).await;
                    let Ok(Some(permit)) = semaphore.try_acquire_for(20 * SECOND).await else { continue };
                    let (slot, token) = (permit.slot(), permit.fencing_token());
                    let row = if rows == Rows::OneForAll { 0 } else { slot };
                    let store = process.store(format!("row {row}"));
                    let read = store.read(token).await;
                    process.sleep(millis(process.random(number + 9) % 30_000)).await;
                    let is_accepted = match read {
                        Ok(value) if rows == Rows::Unfenced => {
                            store.write_unfenced(value + 1).await;
                            true
                        }
                        Ok(value) => store.write(token, value + 1).await.is_ok(),
                        Err(_) => false,
                    };
                    let of_kind = match (is_accepted, permit.is_valid()) {
                        (true, _) => &noted.accepted,
                        (false, true) => &noted.refused_valid,
                        (false, false) => &noted.late,
                    };
                    of_kind.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        report.check(&schedule.promises(DRIFT, RestartGuard::PerConnection)).map(|()| report)
    });
    found.map(|_| writes)
}

#[test]
fn s75_tokens_of_a_slot_order_the_writes_of_its_row() {
    for (schedules, is_beyond) in [(Schedules::tolerated(), false), (Schedules::beyond(), true)] {
        let writes = writes(&schedules, Rows::OnePerSlot).unwrap_or_else(|failure| panic!("{failure:?}"));
        eprintln!("{writes:?}");
        let count = |of_kind: &AtomicU64| of_kind.load(Ordering::Relaxed);
        assert!(count(&writes.accepted) > 200 && count(&writes.late) > 20, "{writes:?}");
        assert!(is_beyond || count(&writes.refused_valid) == 0, "a valid permit was refused: {writes:?}");
    }
}

#[test]
fn s75_one_row_for_all_slots_refuses_valid_permits() {
    let writes = writes(&Schedules::tolerated(), Rows::OneForAll).unwrap();
    assert!(writes.refused_valid.load(Ordering::Relaxed) > 0, "{writes:?}");
}

#[test]
fn s75_unfenced_rows_lose_writes() {
    let failure = writes(&Schedules::beyond(), Rows::Unfenced).unwrap_err();
    eprintln!("{failure:?}");
}

/// The arrivals at a latch and the passes.
#[derive(Debug, Default)]
struct Passed {
    /// The processes that have begun to arrive.
    arrivals: BTreeSet<usize>,
    /// The number of arrivals at the first pass that came too early.
    early: Option<usize>,
    passes: u64,
}

/// Runs three to six processes that arrive repeatedly at a latch and wait until the latch opens.
/// The count of the latch is half of the number of processes, rounded up. Returns the number of
/// passes in all runs. If a pass came too early, returns an error with the number of arrivals at that
/// pass; if a run failed for another reason, the number is zero.
fn passes(cases: u32) -> Result<u64, usize> {
    let mut runner = TestRunner::new_with_rng(
        ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() },
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    );
    let total = Arc::new(Mutex::new(0));
    let early = Arc::new(Mutex::new(None));
    let tried = runner.run(&Schedules::tolerated().processes(3..=6).strategy(), |schedule| {
        let passed = Arc::new(Mutex::new(Passed::default()));
        let count = schedule.processes.div_ceil(2);
        Simulation::new(schedule).horizon(300 * SECOND).run(|process| {
            let passed = Arc::clone(&passed);
            async move {
                let latch = quorum(&process).latch("l", count as u32);
                for number in 0..3 {
                    process.sleep(millis(process.random(number) % 4_000)).await;
                    passed.lock().unwrap().arrivals.insert(process.index());
                    drop(latch.arrive().await);
                }
                if latch.wait_for(60 * SECOND).await == Ok(true) {
                    let mut passed = passed.lock().unwrap();
                    passed.passes += 1;
                    let arrived = passed.arrivals.len();
                    passed.early = passed.early.or_else(|| (arrived < count).then_some(arrived));
                }
            }
        });
        let passed = passed.lock().unwrap();
        *total.lock().unwrap() += passed.passes;
        if passed.early.is_some() {
            *early.lock().unwrap() = passed.early;
        }
        prop_assert!(passed.early.is_none());
        Ok(())
    });
    let total = *total.lock().unwrap();
    tried.map(|()| total).map_err(|_| early.lock().unwrap().unwrap_or_default())
}

#[test]
fn s74_a_latch_never_opens_early_under_tolerated_faults() {
    let passes = passes(300).unwrap();
    assert!(passes > 500, "{passes}");
}

#[test]
fn s74_a_latch_that_counts_calls_opens_early() {
    let arrived = breaking(Mutation::CountArrivals, || passes(300)).unwrap_err();
    assert!(arrived > 0, "the run failed for another reason than an early pass");
}

/// The quarantine of all nodes lasts for 20.2 s, longer than the quorum timeout of 10 s.
#[test]
fn s87_calls_of_latches_and_locks_wait_until_a_quarantine_of_all_nodes_ends() {
    let mut schedule = Schedule::without_faults(1, 5, 3);
    for node in 0..5 {
        let crash = Fault::Crash { node, lasts: SECOND, memory: Memory::Lost };
        schedule = schedule.with(SECOND, crash);
    }
    let ends = Arc::new(Mutex::new(Vec::new()));
    run(schedule, |process| {
        let ends = Arc::clone(&ends);
        async move {
            let quorum = quorum(&process);
            process.sleep(1_500 * millis(1)).await;
            let end = match process.index() {
                0 => quorum.red_lock("r").lock().await.map(drop),
                1 => quorum.latch("l", 1).arrive().await,
                _ => quorum.latch("l", 1).wait().await,
            };
            ends.lock().unwrap().push((process.index(), end));
        }
    });
    let mut ends = ends.lock().unwrap().clone();
    ends.sort_by_key(|(process, _)| *process);
    assert_eq!(ends, [(0, Ok(())), (1, Ok(())), (2, Ok(()))]);
}
