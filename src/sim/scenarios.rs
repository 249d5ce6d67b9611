//! The scenarios of `docs/SIMULATION.md`, each as a manual schedule and a small program.
//!
//! If a promise is broken in a scenario, the test requires that the checker reports the violation,
//! because a checker that never reports a violation proves nothing.

use std::time::Duration;

use crate::{
    LockOptions, RestartGuard,
    lock::LockGuard,
    mutation::{Mutation, break_rule},
    quorum::Quorum,
    sim::{
        End, Fault, Latency, PartitionDirection, Process, Promise, Promises, Report, Schedule, Simulation,
        history::Event,
    },
    values::FencingToken,
};

mod contention;
mod fair;
mod forgetting;
mod free_slots;
mod guarded;
mod holds_and_renewals;
mod messages;
mod minimum_hold;
mod overload;
mod queue_faults;
mod readers;
mod renewals;
mod replacing;
mod semaphores;
mod shutdown;
mod ticket_rules;
mod tickets;
mod time;
mod unpolled;
mod waiting;

const SECOND: Duration = Duration::from_secs(1);

/// The ttl of most locks in scenarios.
const TTL: Duration = Duration::from_secs(10);

const DRIFT: f64 = 0.01;

/// The validity of a lease of [`TTL`].
const VALIDITY: Duration = Duration::from_millis(9_898);

/// A bound of the interval between fallback polls, with jitter and a margin. A waiter that receives no
/// notice makes an attempt within this time.
const POLL: Duration = Duration::from_secs(8);

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Returns the process of each grant, in order.
fn turns(report: &Report) -> Vec<usize> {
    let entries = report.history.entries().iter();
    entries.filter(|entry| matches!(entry.event, Event::Granted { .. })).map(|entry| entry.process).collect()
}

/// Returns a schedule without faults in which every message takes one millisecond.
fn steady(nodes: usize, processes: usize) -> Schedule {
    let mut schedule = Schedule::without_faults(1, nodes, processes);
    schedule.latency = Latency::between(millis(1), millis(1));
    schedule
}

/// Returns a schedule with five nodes, of which process 0 reaches only the first three. A lease of
/// process 0 is therefore on nodes 0, 1 and 2. Process 1 reaches all nodes, and needs the vote of
/// node 2 in addition to those of nodes 3 and 4.
fn meeting_at_node_2(seed: u64) -> Schedule {
    let schedule = Schedule::without_faults(seed, 5, 2);
    cut(schedule, 0, &[3, 4], PartitionDirection::Both, Duration::ZERO, 60 * SECOND)
}

/// Partitions a process from some nodes.
fn cut(
    schedule: Schedule,
    process: usize,
    nodes: &[usize],
    way: PartitionDirection,
    at: Duration,
    lasts: Duration,
) -> Schedule {
    let to = |schedule: Schedule, node: &usize| {
        schedule.with(at, Fault::Partition { process, node: *node, way, lasts })
    };
    nodes.iter().fold(schedule, to)
}

fn run<Program>(schedule: Schedule, program: impl Fn(Process) -> Program) -> Report
where
    Program: Future<Output = ()> + Send + 'static,
{
    let report = Simulation::new(schedule).horizon(600 * SECOND).run(program);
    assert!(matches!(report.end, End::Done | End::Horizon), "{:?}", report.end);
    report
}

fn quorum(process: &Process) -> Quorum {
    Quorum::builder().ttl(TTL).max_ttl(2 * TTL).connect_simulated(process).unwrap()
}

/// Returns a client without a restart guard, which trusts that nodes never forget votes.
fn unguarded(process: &Process) -> Quorum {
    let builder = Quorum::builder().ttl(TTL).max_ttl(2 * TTL);
    builder.restart_guard(RestartGuard::Off).connect_simulated(process).unwrap()
}

/// Runs two processes with clients of [`quorum`]. Process 0 reads the store, holds its lease until the
/// validity ends, and then writes. Process 1 locks from two seconds on, and reads and writes under its
/// lease at once.
fn two_holders(schedule: Schedule) -> Report {
    two_holders_of(schedule, quorum)
}

/// Runs [`two_holders`] with clients that `connect` creates.
fn two_holders_of(schedule: Schedule, connect: fn(&Process) -> Quorum) -> Report {
    run(schedule, move |process| async move {
        let (quorum, store) = (connect(&process), process.store("r"));
        let lock = quorum.red_lock("r").options(LockOptions::new().without_renewal());
        if process.index() == 1 {
            process.sleep(2 * SECOND).await;
        }
        let guard = lock.lock().await.unwrap();
        let token = guard.fencing_token();
        let value = store.read(token).await;
        if process.index() == 0 {
            process.lost(&guard).await;
            assert!(!process.check_valid(&guard), "a lost lease is still valid");
        }
        if let Ok(value) = value {
            let _is_accepted = store.write(token, value + 1).await;
        }
    })
}

/// Calls `try_lock` at intervals, from time `from` until a grant.
async fn probe(process: &Process, from: Duration, interval: Duration) {
    let quorum = quorum(process);
    let lock = quorum.red_lock("r").options(LockOptions::new().without_renewal());
    process.sleep(from).await;
    loop {
        if let Ok(Some(guard)) = lock.try_lock().await {
            return hold(process, guard).await;
        }
        process.sleep(interval).await;
    }
}

/// Holds a lease for a moment, because a lease that is dropped at its grant overlaps with no other
/// lease.
async fn hold(process: &Process, guard: LockGuard) {
    process.sleep(millis(1)).await;
    drop(guard);
}

/// Runs `act` while this rule is broken, and returns the result of `act`.
fn breaking<T>(rule: Mutation, act: impl FnOnce() -> T) -> T {
    let _broken = break_rule(Some(rule));
    act()
}

fn assert_keeps(report: &Report, promises: &Promises) {
    if let Err(failure) = report.check(promises) {
        panic!("{failure}");
    }
}

/// Asserts the promises that hold under the schedule with the default restart guard.
fn assert_keeps_the_rest(report: &Report) {
    assert_keeps(report, &report.schedule.promises(DRIFT, RestartGuard::default()));
}

/// Whether the run broke this promise.
fn breaks(report: &Report, promise: Promise) -> bool {
    let violations = report.history.check(&Promises::NONE.with(promise)).err();
    violations.is_some_and(|violations| violations.breaks(promise))
}

/// Returns the times of the events of a process for which `matches` returns true.
fn times_of(report: &Report, process: usize, matches: impl Fn(&Event) -> bool) -> Vec<Duration> {
    let entries = report.history.entries().iter();
    entries.filter(|entry| entry.process == process && matches(&entry.event)).map(|entry| entry.at).collect()
}

/// Returns the times of the grants to a process.
fn granted(report: &Report, process: usize) -> Vec<Duration> {
    times_of(report, process, |event| matches!(event, Event::Granted { .. }))
}

/// Returns the times at which attempts of a process failed.
fn failed_attempts(report: &Report, process: usize) -> Vec<Duration> {
    times_of(report, process, |event| matches!(event, Event::Lost { .. }))
}

/// Returns the times at which leases of a process ended.
fn ended(report: &Report, process: usize) -> Vec<Duration> {
    times_of(report, process, |event| matches!(event, Event::Ended { .. }))
}

/// Returns the tokens of all leases, in the order of grants.
fn tokens(report: &Report) -> Vec<FencingToken> {
    let entries = report.history.entries().iter();
    let token = |event: &Event| if let Event::Granted { token, .. } = event { Some(*token) } else { None };
    entries.filter_map(|entry| token(&entry.event)).collect()
}

/// Returns the results of a process's validity checks, in order. Each grant counts as a check with the
/// result `true`.
fn validity_checks(report: &Report, process: usize) -> Vec<bool> {
    let entries = report.history.entries().iter().filter(|entry| entry.process == process);
    let check =
        |event: &Event| if let Event::Checked { is_valid, .. } = event { Some(*is_valid) } else { None };
    entries.filter_map(|entry| check(&entry.event)).collect()
}

/// Returns whether the writes of a process were accepted, in order.
fn writes(report: &Report, process: usize) -> Vec<bool> {
    let entries = report.history.entries().iter().filter(|entry| entry.process == process);
    let write = |event: &Event| {
        if let Event::Written { is_accepted, .. } = event { Some(*is_accepted) } else { None }
    };
    entries.filter_map(|entry| write(&entry.event)).collect()
}
