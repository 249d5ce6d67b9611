//! S82 to S86: the time until a waiter acquires a vacant slot of a semaphore, or a vacant resource of `any_of`.

use std::{
    any::Any,
    ops::Range,
    sync::{Arc, Mutex},
};

use futures::{
    FutureExt,
    future::{BoxFuture, join_all, try_join_all},
};

use super::*;
use crate::{
    RedLock,
    clock::Clock,
    sim::{Direction, Memory, MessageFault, Verdict},
};

/// The longest time in which a waiter must acquire a vacant slot.
const BOUND: Duration = Duration::from_secs(8);

/// The time at which process 0 releases slots. The waiters have waited for some seconds.
const RELEASE: Duration = Duration::from_secs(20);

/// The time after the release at which a run ends, even if waiters have no lease.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The call of a waiter, which returns the lease or leases of the waiter.
type Call = Arc<dyn Fn(Quorum) -> BoxFuture<'static, Box<dyn Any + Send>> + Send + Sync>;

/// Returns a call that acquires one permit of a semaphore with this number of permits.
fn permit_of(permits: u32) -> Call {
    Arc::new(move |quorum| {
        let semaphore = quorum.semaphore("s", permits);
        async move { Box::new(semaphore.acquire().await.unwrap()) as _ }.boxed()
    })
}

/// Returns a call that acquires two permits of a semaphore with this number of permits, all or none.
fn two_permits_of(permits: u32) -> Call {
    Arc::new(move |quorum| {
        let semaphore = quorum.semaphore("s", permits);
        async move { Box::new(semaphore.acquire_many(2).await.unwrap()) as _ }.boxed()
    })
}

/// Returns a call in which this number of tasks acquires one permit each.
fn permits_of_tasks(permits: u32, tasks: usize) -> Call {
    Arc::new(move |quorum| {
        let semaphore = quorum.semaphore("s", permits);
        async move {
            let calls = (0..tasks).map(|_| semaphore.acquire());
            Box::new(try_join_all(calls).await.unwrap()) as _
        }
        .boxed()
    })
}

/// Returns a call that locks any of these resources.
fn any_of(names: &[String]) -> Call {
    let names = names.to_vec();
    Arc::new(move |quorum| {
        let any_of = quorum.any_of(&names);
        async move { Box::new(any_of.lock().await.unwrap()) as _ }.boxed()
    })
}

/// The resources that process 0 holds.
#[derive(Clone, Debug)]
enum Full {
    Semaphore(u32),
    Resources(Vec<String>),
}

/// A run in which process 0 holds all slots or resources and releases some of them, and the other processes wait.
struct Case {
    schedule: Schedule,
    full: Full,
    /// The indices of the slots or resources that process 0 releases.
    released: Vec<usize>,
    /// The calls of the waiters, in the order of their starts: one call each 100 ms.
    calls: Vec<Call>,
    /// The waiters that must acquire a lease.
    served: Range<usize>,
}

impl Case {
    /// Returns a case with five nodes and a round trip of one millisecond, in which the last waiter must acquire a
    /// lease.
    fn new(seed: u64, full: Full, released: Vec<usize>, calls: Vec<Call>) -> Self {
        let mut schedule = Schedule::without_faults(seed, 5, calls.len() + 1);
        schedule.latency = Latency::between(micros(500), micros(500));
        Self { schedule, full, released, served: calls.len() - 1..calls.len(), calls }
    }

    fn with(self, at: Duration, fault: Fault) -> Self {
        Self { schedule: self.schedule.with(at, fault), ..self }
    }

    /// Returns the time from the release until the last of the `served` waiters has a lease, at most [`TIME_LIMIT`].
    fn longest_wait(self) -> Duration {
        let Self { schedule, full, released, calls, served } = self;
        let waits = Arc::new(Mutex::new(vec![None; calls.len()]));
        let end = RELEASE + TIME_LIMIT;
        let simulation = Simulation::new(schedule).horizon(end + 60 * SECOND).budget(u64::MAX);
        let report = simulation.run(|process| {
            let (waits, full, released) = (Arc::clone(&waits), full.clone(), released.clone());
            let (calls, served) = (calls.clone(), served.clone());
            async move {
                let clock = process.clock();
                let start = clock.now();
                let now = || clock.now().saturating_duration_since(start);
                let is_over = || {
                    let waits = waits.lock().unwrap();
                    now() >= end || waits[served.clone()].iter().all(Option::is_some)
                };
                let quorum = quorum(&process);
                let Some(waiter) = process.index().checked_sub(1) else {
                    let mut held = hold_all(&quorum, &full).await;
                    process.sleep(RELEASE - now()).await;
                    let free = released.iter().filter_map(|index| held[*index].take());
                    join_all(free.map(LockGuard::unlock)).await;
                    while !is_over() {
                        process.sleep(SECOND).await;
                    }
                    return;
                };
                process.sleep(5 * SECOND + millis(100 * waiter as u64 % 10_000)).await;
                let call = calls[waiter](quorum);
                let mut end_of_run = Box::pin(async {
                    while !is_over() {
                        process.sleep(SECOND).await;
                    }
                });
                tokio::select! {
                    biased;
                    _held = call => {
                        waits.lock().unwrap()[waiter] = Some(now().saturating_sub(RELEASE));
                        end_of_run.await;
                    }
                    () = &mut end_of_run => {}
                }
            }
        });
        assert_keeps(&report, &Promises::ALL.without(Promise::Liveness));
        let waits = waits.lock().unwrap();
        waits[served].iter().map(|wait| wait.unwrap_or(TIME_LIMIT)).max().unwrap()
    }
}

/// Locks every slot or resource, each by its own lock. Returns the guards by index.
async fn hold_all(quorum: &Quorum, full: &Full) -> Vec<Option<LockGuard>> {
    match full {
        Full::Semaphore(permits) => {
            let semaphore = quorum.semaphore("s", *permits);
            let slots = (0..*permits as usize).map(|slot| semaphore.slot_resource(slot).unwrap());
            let locks: Vec<_> =
                slots.map(|slot| RedLock::new(Arc::clone(quorum.client()), Ok(slot))).collect();
            try_join_all(locks.iter().map(RedLock::lock)).await.unwrap().into_iter().map(Some).collect()
        }
        Full::Resources(names) => {
            let locks: Vec<_> = names.iter().map(|name| quorum.red_lock(name)).collect();
            try_join_all(locks.iter().map(RedLock::lock)).await.unwrap().into_iter().map(Some).collect()
        }
    }
}

/// Prints the longest and the median wait, and asserts that no wait exceeds the bound.
fn assert_bound(situation: &str, bound: Duration, waits: impl IntoIterator<Item = Duration>) {
    let mut waits: Vec<Duration> = waits.into_iter().collect();
    waits.sort_unstable();
    let longest = waits.last().copied().unwrap();
    eprintln!("{situation}: longest {longest:.1?}, median {:.1?} of {}", waits[waits.len() / 2], waits.len());
    assert!(longest <= bound, "{situation}: {waits:.1?}");
}

/// Returns about `count` slots of a semaphore, spread evenly over the indices from `from` on. If there are fewer
/// slots, returns all of them.
fn spread(from: usize, permits: u32, count: usize) -> impl Iterator<Item = usize> {
    let step = ((permits as usize - from) / count).max(1);
    (from..permits as usize).step_by(step)
}

#[test]
fn s82_a_waiter_gets_a_slot_above_the_smaller_numbers_of_permits_of_other_waiters() {
    for (numbers, permits) in [(&[4][..], 12), (&[25], 100), (&[4, 6, 9], 12), (&[11, 12, 50], 100)] {
        let from = *numbers.iter().max().unwrap() as usize;
        let waits = spread(from, permits, 6).enumerate().map(|(seed, slot)| {
            let calls = numbers.iter().copied().chain([permits]).map(permit_of).collect();
            Case::new(seed as u64, Full::Semaphore(permits), vec![slot], calls).longest_wait()
        });
        assert_bound(&format!("{numbers:?} and {permits} permits"), BOUND, waits);
    }
}

/// The process that acquires several permits uses only half of the slots.
#[test]
fn s82_a_waiter_gets_a_slot_while_a_process_acquires_several_permits() {
    let waits = spread(50, 100, 6).enumerate().map(|(seed, slot)| {
        let calls = vec![two_permits_of(50), permit_of(100)];
        Case::new(seed as u64, Full::Semaphore(100), vec![slot], calls).longest_wait()
    });
    assert_bound("acquire_many ahead of a waiter", BOUND, waits);
    let waits = spread(50, 100, 6).enumerate().map(|(seed, slot)| {
        let calls = vec![permit_of(50), two_permits_of(100)];
        Case::new(seed as u64, Full::Semaphore(100), vec![slot, slot - 1], calls).longest_wait()
    });
    assert_bound("acquire_many behind a waiter", BOUND, waits);
}

#[test]
fn s82_a_waiter_for_any_of_a_set_gets_a_resource_outside_of_overlapping_sets() {
    let names: Vec<String> = (0..64).map(|name| format!("printer:{name:08}")).collect();
    let commas: Vec<String> = ["a", "b", "c", "d", "b,c", "c,d", "a,b"].map(str::to_owned).to_vec();
    let of =
        |names: &[&str]| -> Call { any_of(&names.iter().copied().map(str::to_owned).collect::<Vec<_>>()) };
    type Situation<'a> = (&'a str, &'a [String], Vec<Call>, Range<usize>);
    let cases: [Situation<'_>; 4] = [
        ("the same first 512 bytes", &names, vec![any_of(&names[..60]), any_of(&names)], 60..64),
        (
            "sets that overlap",
            &names,
            vec![any_of(&names[..40]), any_of(&names[20..50]), any_of(&names[8..])],
            50..64,
        ),
        (
            "a smaller set of the same number",
            &names,
            vec![any_of(&names[..32]), any_of(&names[..1]), any_of(&names[32..])],
            40..64,
        ),
        (
            "names with commas",
            &commas,
            vec![of(&["a", "b,c", "d", "a,b"]), of(&["a", "b", "c,d", "a,b"])],
            1..2,
        ),
    ];
    for (situation, names, calls, released) in cases {
        let waits = spread(released.start, u32::try_from(released.end).unwrap(), 4).enumerate().map(
            |(seed, index)| {
                let full = Full::Resources(names.to_vec());
                (0..3)
                    .map(|more| {
                        Case::new(3 * seed as u64 + more, full.clone(), vec![index], calls.clone())
                            .longest_wait()
                    })
                    .max()
                    .unwrap()
            },
        );
        assert_bound(situation, BOUND, waits);
    }
}

/// Process 1 has waited longest, and is therefore the release watcher.
#[test]
fn s83_a_waiter_gets_a_free_slot_although_the_release_watcher_was_killed_or_paused() {
    for fault in [
        Fault::Kill { process: 1 },
        Fault::Pause { process: 1, lasts: 600 * SECOND },
        Fault::Freeze { process: 1, lasts: 600 * SECOND },
    ] {
        for permits in [5, 12, 100] {
            let waits = (0..permits.min(12)).map(|seed| {
                let slot = (seed * permits / permits.min(12)) as usize;
                let calls = vec![permit_of(permits), permit_of(permits)];
                Case::new(seed.into(), Full::Semaphore(permits), vec![slot], calls)
                    .with(RELEASE - SECOND / 2, fault.clone())
                    .longest_wait()
            });
            assert_bound(&format!("{permits} permits, {fault}"), BOUND, waits);
        }
    }
}

/// The five waiters ahead are paused. Each of these waiters may be the first in the queue of the free slot.
#[test]
fn s83_a_waiter_gets_a_free_slot_although_five_waiters_ahead_are_paused() {
    let waits = (0..8).map(|seed| {
        let calls = (0..6).map(|_| permit_of(12)).collect();
        let case = Case::new(seed, Full::Semaphore(12), vec![seed as usize], calls);
        (1..=5)
            .fold(case, |case, process| {
                case.with(RELEASE - SECOND / 2, Fault::Pause { process, lasts: 600 * SECOND })
            })
            .longest_wait()
    });
    assert_bound("five paused waiters", BOUND, waits);
}

#[test]
fn s84_slots_that_are_released_at_once_are_acquired_within_five_seconds() {
    for (permits, processes, tasks, released) in
        [(1_000, 500, 1, 500), (1_000, 200, 1, 200), (400, 200, 1, 200), (1_024, 5, 120, 600)]
    {
        let waits = (0..2).map(|seed| {
            let call = if tasks == 1 { permit_of(permits) } else { permits_of_tasks(permits, tasks) };
            let slots = (0..released).map(|number| number * permits as usize / released).collect();
            let mut case = Case::new(seed, Full::Semaphore(permits), slots, vec![call; processes]);
            case.schedule.latency = Latency::between(millis(5), millis(5));
            case.served = 0..processes;
            case.longest_wait()
        });
        let situation = format!("{permits} permits, {processes} processes of {tasks}, {released} released");
        assert_bound(&situation, 5 * SECOND, waits);
    }
}

/// One or two nodes fail just before the release, so that the release notices of these nodes are lost.
#[test]
fn s85_a_waiter_gets_a_slot_after_the_release_notice_was_lost() {
    let faults: [fn(usize) -> Fault; 4] = [
        |node| Fault::Flush { node },
        |node| Fault::Hang { node, lasts: 600 * SECOND },
        |node| Fault::Crash { node, lasts: 600 * SECOND, memory: Memory::Kept },
        |node| Fault::Crash { node, lasts: SECOND, memory: Memory::Lost },
    ];
    for fault in faults {
        for nodes in [1, 2] {
            let waits = (0..10).map(|seed| {
                let calls = vec![permit_of(100), permit_of(100)];
                let mut case = Case::new(
                    seed,
                    Full::Semaphore(100),
                    vec![10 * seed as usize, 10 * seed as usize + 5],
                    calls,
                );
                case.served = 0..2;
                for more in 0..nodes {
                    case = case.with(RELEASE - millis(20), fault((seed as usize + more) % 5));
                }
                case.longest_wait()
            });
            assert_bound(&format!("{nodes} nodes: {}", fault(0)), BOUND, waits);
        }
    }
}

/// Delays the first 5,000 messages of each path and direction between these processes and the nodes.
fn delay_messages(schedule: &mut Schedule, processes: Range<usize>, by: Duration) {
    const MESSAGES: u32 = 5_000;
    for process in processes {
        for node in 0..schedule.nodes {
            for direction in [Direction::Request, Direction::Reply] {
                schedule.messages.extend((0..MESSAGES).map(|index| MessageFault {
                    process,
                    node,
                    direction,
                    index,
                    verdict: Verdict::Delay(by),
                }));
            }
        }
    }
}

/// Process 1 locks the only free slot repeatedly, and is nearer to the nodes than the waiters.
#[test]
fn s86_a_far_waiter_gets_a_slot_that_a_near_process_locks_repeatedly() {
    for permits in [5, 20, 100] {
        let waits = (0..4).flat_map(|seed| {
            let mut schedule = Schedule::without_faults(seed, 5, 6);
            schedule.latency = Latency::between(micros(200), micros(200));
            delay_messages(&mut schedule, 2..6, millis(20));
            let waits = Arc::new(Mutex::new(Vec::new()));
            let simulation = Simulation::new(schedule).horizon(TIME_LIMIT + 60 * SECOND).budget(u64::MAX);
            let report = simulation.run(|process| {
                let waits = Arc::clone(&waits);
                async move {
                    let clock = process.clock();
                    let start = clock.now();
                    let now = || clock.now().saturating_duration_since(start);
                    let is_over = || now() >= TIME_LIMIT || waits.lock().unwrap().len() >= 4;
                    let quorum = quorum(&process);
                    let semaphore = quorum.semaphore("s", permits);
                    match process.index() {
                        0 => {
                            let mut held = hold_all(&quorum, &Full::Semaphore(permits)).await;
                            held.remove(permits as usize / 2);
                            while !is_over() {
                                process.sleep(SECOND).await;
                            }
                        }
                        1 => {
                            process.sleep(SECOND).await;
                            while !is_over() {
                                let permit = semaphore.acquire().await.unwrap();
                                process.sleep(millis(20)).await;
                                permit.release().await.unwrap();
                            }
                        }
                        _ => {
                            process.sleep(2 * SECOND).await;
                            let begun = now();
                            let permit = semaphore.try_acquire_for(TIME_LIMIT).await.unwrap();
                            waits.lock().unwrap().push(now() - begun);
                            process.sleep(millis(20)).await;
                            drop(permit);
                        }
                    }
                }
            });
            assert_keeps(&report, &Promises::ALL.without(Promise::Liveness));
            let mut waits = waits.lock().unwrap().clone();
            waits.resize(4, TIME_LIMIT);
            waits
        });
        assert_bound(&format!("far waiters, {permits} permits"), BOUND, waits);
    }
}
