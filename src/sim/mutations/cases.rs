//! Strategies of cases for rules that matter only in special situations, because random schedules rarely
//! have these situations. Functions that recognize symptoms are here, too.

use std::{ops::RangeInclusive, time::Duration};

use proptest::{prelude::*, sample::select};

use crate::sim::{
    Direction, Fault, Memory, MessageFault, PartitionDirection, Report, Schedule, TimedFault, Verdict,
    history::Event,
    workload::{Case, LockCall, Step, StepEnd, Targets},
};

pub(super) const SECOND: Duration = Duration::from_secs(1);

pub(super) fn millis(range: RangeInclusive<u64>) -> impl Strategy<Value = Duration> + Clone {
    range.prop_map(Duration::from_millis)
}

/// Returns a step that sleeps for `rest`, waits for the resource, holds the lease for `hold` with
/// renewals, and unlocks.
pub(super) fn lock(rest: Duration, hold: Duration) -> Step {
    Step {
        rest,
        targets: Targets::One,
        reads: None,
        has_company: false,
        downgrades: false,
        issues_ticket: false,
        redeems: false,
        call: LockCall::Lock,
        is_renewed: true,
        hold,
        reenters: false,
        verifies: false,
        end: StepEnd::Unlock,
    }
}

/// Draws a program of one to `most` steps, each of which locks the resource for up to 20 ms.
pub(super) fn contender(most: usize) -> impl Strategy<Value = Vec<Step>> + Clone {
    let step = (millis(0..=5_000), millis(0..=20)).prop_map(|(rest, hold)| lock(rest, hold));
    prop::collection::vec(step, 1..=most)
}

pub(super) fn timed(at: Duration, fault: Fault) -> TimedFault {
    TimedFault { at, fault }
}

/// Draws cases in which process 0 re-enters its lease with late or repeated requests and is then
/// paused. Meanwhile another process waits.
pub(super) fn of_reentries() -> impl Strategy<Value = Case> + Clone {
    let holder = (millis(0..=50), millis(1_000..=45_000));
    let message = (0..3_usize, 0..16_u32, millis(1..=12_000), any::<bool>());
    let messages = prop::collection::vec(message, 1..=6);
    let pause = (millis(0..=40_000), millis(1_000..=25_000));
    let pauses = prop::collection::vec(pause, 0..=2);
    let size = select(vec![1_usize, 1, 3]);
    (any::<u64>().no_shrink(), size, holder, messages, pauses, contender(4)).prop_map(
        |(seed, nodes, (rest, hold), messages, pauses, contender)| {
            let mut schedule = Schedule::without_faults(seed, nodes, 2);
            schedule.messages = messages
                .into_iter()
                .map(|(node, index, by, is_twice)| MessageFault {
                    process: 0,
                    node: node % nodes,
                    direction: Direction::Request,
                    index,
                    verdict: if is_twice { Verdict::Duplicate(by) } else { Verdict::Overtaken(by) },
                })
                .collect();
            schedule.faults =
                pauses.into_iter().map(|(at, lasts)| timed(at, Fault::Pause { process: 0, lasts })).collect();
            let holder = Step { reenters: true, ..lock(rest, hold) };
            Case { schedule, programs: vec![vec![holder], contender], is_unguarded: true }
        },
    )
}

/// Draws cases in which process 0 holds the lock for a long time. The nodes lose the keys of the
/// lease one after the other, while other processes contend.
pub(super) fn of_a_long_lease() -> impl Strategy<Value = Case> + Clone {
    let losses = prop::collection::vec((0..5_usize, millis(0..=3_000)), 2..=8);
    let nodes = select(vec![3_usize, 5]);
    (any::<u64>().no_shrink(), nodes, losses, prop::collection::vec(contender(3), 1..=3)).prop_map(
        |(seed, nodes, losses, contenders)| {
            let mut schedule = Schedule::without_faults(seed, nodes, 1 + contenders.len());
            // The times are far enough apart that a renewal writes the key again on one node before
            // the next node loses its key.
            let at = (1_u32..).map(|number| 12 * SECOND * number);
            schedule.faults = losses
                .into_iter()
                .zip(at)
                .map(|((node, later), at)| timed(at + later, Fault::Evict { node: node % nodes }))
                .collect();
            let holder = vec![lock(Duration::ZERO, 120 * SECOND)];
            Case {
                schedule,
                programs: std::iter::once(holder).chain(contenders).collect(),
                is_unguarded: true,
            }
        },
    )
}

/// Whether a lease ended without an unlock.
pub(super) fn has_lost_lease(report: &Report) -> bool {
    let mut events = report.history.entries().iter().map(|entry| &entry.event);
    events.any(|event| matches!(event, Event::Ended { is_unlocked: false, .. }))
}

/// Draws cases in which all nodes forget their data at the same time, and repeatedly, during a
/// lease of process 0. Process 0 verifies the lease at the end.
pub(super) fn of_forgetful_nodes() -> impl Strategy<Value = Case> + Clone {
    let times = prop::collection::vec(millis(0..=18_000), 1..=3);
    let nodes = select(vec![1_usize, 3]);
    (any::<u64>().no_shrink(), nodes, times, millis(0..=18_000), contender(3)).prop_map(
        |(seed, nodes, times, hold, contender)| {
            let mut schedule = Schedule::without_faults(seed, nodes, 2);
            let all = |at| (0..nodes).map(move |node| timed(at, Fault::Flush { node }));
            schedule.faults = times.into_iter().flat_map(all).collect();
            let holder = Step { verifies: true, is_renewed: false, ..lock(Duration::ZERO, hold) };
            Case { schedule, programs: vec![vec![holder], contender], is_unguarded: true }
        },
    )
}

/// Draws cases in which processes are paused in the first 10 ms, mostly during attempts, for up to 25 s. The
/// validity of a lease lasts for about 20 s.
pub(super) fn of_pauses() -> impl Strategy<Value = Case> + Clone {
    let pause = (0_usize..=1, 0_u64..=10_000, millis(1_000..=25_000));
    let pauses = prop::collection::vec(pause, 1..=2);
    (any::<u64>().no_shrink(), select(vec![1_usize, 2, 3]), pauses, contender(2)).prop_map(
        |(seed, nodes, pauses, contender)| {
            let mut schedule = Schedule::without_faults(seed, nodes, 2);
            schedule.faults = pauses
                .into_iter()
                .map(|(process, at, lasts)| timed(Duration::from_micros(at), Fault::Pause { process, lasts }))
                .collect();
            Case {
                schedule,
                programs: vec![vec![lock(Duration::ZERO, SECOND / 100)], contender],
                is_unguarded: true,
            }
        },
    )
}

/// Draws cases in which nodes lose the keys of a lease within `within` milliseconds, other
/// processes contend, and a renewal writes the keys again.
///
/// Some write-backs of the lease are late or repeated, and one of its lock requests may be lost.
/// Other processes contend again at the end.
pub(super) fn of_late_write_backs(within: u64) -> impl Strategy<Value = Case> + Clone {
    let nodes = || prop_oneof![Just(0b111_usize), 1..=0b111_usize];
    let hold = Duration::from_millis(4 * within);
    let late = || millis(1..=4 * within);
    let late = prop_oneof![late().prop_map(Verdict::Overtaken), late().prop_map(Verdict::Duplicate)];
    // The first messages of a process to a node are `HELLO`, a call without operations, the lock, and the write-back.
    let write_backs = (nodes(), late).prop_map(|(nodes, late)| (nodes, 3, late));
    let lock_lost = select(vec![1_usize, 2, 4]).prop_map(|nodes| (nodes, 2, Verdict::Drop));
    let losses = prop::collection::vec((nodes(), millis(0..=within)), 1..=2);
    let attempts = || prop::collection::vec(millis(0..=within / 2), 1..=8);
    let others = (attempts(), attempts());
    (any::<u64>().no_shrink(), write_backs, prop::option::of(lock_lost), losses, others).prop_map(
        move |(seed, write_backs, lock_lost, losses, (during, after))| {
            let of = |nodes: usize| (0..3_usize).filter(move |node| nodes >> node & 1 == 1);
            let mut schedule = Schedule::without_faults(seed, 3, 3);
            for (nodes, index, verdict) in lock_lost.into_iter().chain([write_backs]) {
                for node in of(nodes) {
                    schedule = schedule.with_message(0, node, Direction::Request, index, verdict);
                }
            }
            for (nodes, at) in losses {
                for node in of(nodes) {
                    schedule = schedule.with(at, Fault::Evict { node });
                }
            }
            let attempt = |rest| Step { call: LockCall::TryLock, ..lock(rest, Duration::ZERO) };
            let during = during.into_iter().map(attempt).collect();
            let mut after: Vec<Step> = after.into_iter().map(attempt).collect();
            if let Some(first) = after.first_mut() {
                first.rest += hold;
            }
            // The inner hold ends after a quarter of the outer hold. The renewal at that time
            // writes the lost keys again.
            let holder = vec![Step { reenters: true, ..lock(Duration::ZERO, hold) }];
            Case { schedule, programs: vec![holder, during, after], is_unguarded: true }
        },
    )
}

/// Draws cases without faults in which processes lock repeatedly. Each process locks again right
/// after it has dropped its guard.
pub(super) fn of_a_queue() -> impl Strategy<Value = Case> + Clone {
    (any::<u64>().no_shrink(), 2..=6_usize, millis(50..=100)).prop_map(|(seed, processes, hold)| {
        let step = Step { end: StepEnd::Drop, ..lock(Duration::ZERO, hold) };
        Case {
            is_unguarded: true,
            schedule: Schedule::without_faults(seed, 5, processes),
            programs: vec![vec![step; 4]; processes],
        }
    })
}

/// Whether a process had two turns between two successive turns of another process. The other
/// process waited between its turns.
pub(in crate::sim) fn is_out_of_turn(report: &Report) -> bool {
    let entries = report.history.entries().iter();
    let granted = entries.filter(|entry| matches!(entry.event, Event::Granted { .. }));
    let turns: Vec<usize> = granted.map(|entry| entry.process).collect();
    (0..report.schedule.processes).any(|process| {
        let mut between = turns.split(|turn| *turn == process);
        // A process may not be in the queue before its first turn and after its last turn.
        between.next();
        between.next_back();
        between.any(|others| others.iter().any(|one| others.iter().filter(|other| *other == one).count() > 1))
    })
}

/// Whether the resource was free for longer than a tenth of a second between two leases. A hand-off with a
/// wake takes less time.
pub(super) fn is_hand_off_slow(report: &Report) -> bool {
    let mut unlocked = None;
    report.history.entries().iter().any(|entry| match entry.event {
        Event::Ended { .. } => {
            unlocked = Some(entry.at);
            false
        }
        Event::Granted { .. } => unlocked.take().is_some_and(|at| entry.at - at > SECOND / 10),
        _ => false,
    })
}

/// Draws cases in which the votes of a lease arrive late. The holder keeps the lease until its
/// validity ends, while another process waits.
pub(super) fn of_slow_answers() -> impl Strategy<Value = Case> + Clone {
    (any::<u64>().no_shrink(), select(vec![1_usize, 2, 3]), millis(300..=900), contender(2)).prop_map(
        |(seed, nodes, by, contender)| {
            // The first messages of a node to a process are the answers to `HELLO` and to a call without operations, and
            // the vote.
            let late = |schedule: Schedule, node| {
                schedule.with_message(0, node, Direction::Reply, 2, Verdict::Delay(by))
            };
            let schedule = (0..nodes).fold(Schedule::without_faults(seed, nodes, 2), late);
            let holder = Step { is_renewed: false, end: StepEnd::Overstay, ..lock(Duration::ZERO, SECOND) };
            Case { schedule, programs: vec![vec![holder], contender], is_unguarded: true }
        },
    )
}

/// Draws cases in which all nodes are restored from a backup that is some seconds old. The
/// processes lock again when the nodes vote again.
pub(super) fn of_old_backups() -> impl Strategy<Value = Case> + Clone {
    let nodes = select(vec![1_usize, 3]);
    let (at, ago) = (millis(3_000..=15_000), millis(500..=10_000));
    (any::<u64>().no_shrink(), nodes, at, ago, prop::collection::vec(contender(4), 2)).prop_map(
        |(seed, nodes, at, ago, mut programs)| {
            let restore =
                |node| timed(at, Fault::Crash { node, lasts: Duration::ZERO, memory: Memory::AsOf(ago) });
            let mut schedule = Schedule::without_faults(seed, nodes, 2);
            schedule.faults = (0..nodes).map(restore).collect();
            for program in &mut programs {
                program.push(lock(60 * SECOND, Duration::ZERO));
            }
            Case { schedule, programs, is_unguarded: false }
        },
    )
}

/// Draws cases in which a node forgets the vote of an undecided attempt, and then receives a
/// renewal of the lease that competes with the attempt.
///
/// * Process 2 leaves a key on node 2 and is killed.
/// * Process 0 has its lease on nodes 0 and 1. Then its requests no longer reach node 1, which
///   process 0 does not notice.
/// * When the key on node 2 has expired, node 2 grants to process 1. The request of process 1 to
///   node 1 arrives late, after the lease there has ended.
pub(super) fn of_forgotten_votes(
    forget: impl Fn(Duration) -> TimedFault + Clone + Send + Sync,
) -> impl Strategy<Value = Case> + Clone {
    let (start, late, loss) = (millis(20_005..=20_050), millis(700..=1_000), millis(5..=100));
    // After the pause, process 0 renews its lease repeatedly. In some cases, a renewal arrives just
    // after node 2 has forgotten its vote for process 1.
    let pause = millis(1_000..=5_000);
    (any::<u64>().no_shrink(), start, late, loss, pause).prop_map(move |(seed, start, late, loss, lasts)| {
        let mut schedule = Schedule::without_faults(seed, 3, 3);
        let cut = |process, node, at| {
            timed(
                at,
                Fault::Partition { process, node, way: PartitionDirection::Requests, lasts: 60 * SECOND },
            )
        };
        schedule.faults = vec![
            cut(2, 0, Duration::ZERO),
            cut(2, 1, Duration::ZERO),
            timed(SECOND / 4, Fault::Kill { process: 2 }),
            cut(0, 1, SECOND),
            timed(12 * SECOND, Fault::Pause { process: 0, lasts }),
            forget(start + loss),
        ];
        // The late message is the lock request, which follows `HELLO` and the registration.
        schedule = schedule.with_message(1, 1, Direction::Request, 2, Verdict::Delay(late));
        let attempt = |rest, hold| Step { call: LockCall::TryLock, ..lock(rest, hold) };
        let programs = vec![
            vec![lock(SECOND / 2, 60 * SECOND)],
            vec![attempt(start, 10 * SECOND)],
            vec![attempt(SECOND / 100, Duration::ZERO)],
        ];
        Case { schedule, programs, is_unguarded: false }
    })
}
