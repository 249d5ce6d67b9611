//! The scenarios of `docs/SIMULATION.md`, each as a schedule made by hand and a small program.
//!
//! Where a scenario says that something breaks, the run has to show it: a checker that never finds
//! anything proves nothing.

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
mod guarded;
mod holds_and_renewals;
mod messages;
mod queue_faults;
mod readers;
mod semaphores;
mod shutdown;
mod time;
mod unpolled;

const SECOND: Duration = Duration::from_secs(1);

/// Of most locks here.
const TTL: Duration = Duration::from_secs(10);

const DRIFT: f64 = 0.01;

/// How long a lease of [`TTL`] is valid.
const VALIDITY: Duration = Duration::from_millis(9_898);

/// The longest fallback poll with its jitter, and a little: by then a waiter has seen what no
/// notice told it.
const POLL: Duration = Duration::from_secs(8);

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Whose turn it was, in order.
fn turns(report: &Report) -> Vec<usize> {
    let entries = report.history.entries().iter();
    entries.filter(|entry| matches!(entry.event, Event::Granted { .. })).map(|entry| entry.process).collect()
}

/// Nothing goes wrong, and every message takes a millisecond.
fn steady(nodes: usize, processes: usize) -> Schedule {
    let mut schedule = Schedule::without_faults(1, nodes, processes);
    schedule.latency = Latency::between(millis(1), millis(1));
    schedule
}

/// Five nodes, of which process 0 reaches the first three. So if it holds the lock, then by these;
/// and process 1, which reaches all, needs node 2 beside the last two.
fn meeting_at_node_2(seed: u64) -> Schedule {
    let schedule = Schedule::without_faults(seed, 5, 2);
    cut(schedule, 0, &[3, 4], PartitionDirection::Both, Duration::ZERO, 60 * SECOND)
}

/// Cuts a process off from some nodes.
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

/// Trusts the nodes to remember every vote.
fn unguarded(process: &Process) -> Quorum {
    let builder = Quorum::builder().ttl(TTL).max_ttl(2 * TTL);
    builder.restart_guard(RestartGuard::Off).connect_simulated(process).unwrap()
}

/// Process 0 reads, holds its lease to the end, and writes; process 1 comes after two seconds, and
/// reads and writes as soon as it has the lock.
fn two_holders(schedule: Schedule) -> Report {
    two_holders_of(schedule, quorum)
}

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
            assert!(!process.check_valid(&guard), "a lease that is announced as lost looks valid");
        }
        if let Ok(value) = value {
            let _is_accepted = store.write(token, value + 1).await;
        }
    })
}

/// Tries again and again from a time on, until it gets the lock.
async fn probe(process: &Process, from: Duration, every: Duration) {
    let quorum = quorum(process);
    let lock = quorum.red_lock("r").options(LockOptions::new().without_renewal());
    process.sleep(from).await;
    loop {
        if let Ok(Some(guard)) = lock.try_lock().await {
            return hold(process, guard).await;
        }
        process.sleep(every).await;
    }
}

/// Keeps a lease for a moment: one that is dropped when it is granted overlaps with nothing.
async fn hold(process: &Process, guard: LockGuard) {
    process.sleep(millis(1)).await;
    drop(guard);
}

/// What comes of it while a rule is broken.
fn breaking<T>(rule: Mutation, act: impl FnOnce() -> T) -> T {
    let _broken = break_rule(Some(rule));
    act()
}

fn assert_keeps(report: &Report, promises: &Promises) {
    if let Err(failure) = report.check(promises) {
        panic!("{failure}");
    }
}

/// What its schedule leaves standing.
fn assert_keeps_the_rest(report: &Report) {
    assert_keeps(report, &report.schedule.promises(DRIFT, RestartGuard::default()));
}

fn breaks(report: &Report, promise: Promise) -> bool {
    let violations = report.history.check(&Promises::NONE.with(promise)).err();
    violations.is_some_and(|violations| violations.breaks(promise))
}

/// When something happened to a process.
fn times_of(report: &Report, process: usize, matches: impl Fn(&Event) -> bool) -> Vec<Duration> {
    let entries = report.history.entries().iter();
    entries.filter(|entry| entry.process == process && matches(&entry.event)).map(|entry| entry.at).collect()
}

fn granted(report: &Report, process: usize) -> Vec<Duration> {
    times_of(report, process, |event| matches!(event, Event::Granted { .. }))
}

fn lost(report: &Report, process: usize) -> Vec<Duration> {
    times_of(report, process, |event| matches!(event, Event::Lost { .. }))
}

fn ended(report: &Report, process: usize) -> Vec<Duration> {
    times_of(report, process, |event| matches!(event, Event::Ended { .. }))
}

/// The tokens of all leases, as they were granted.
fn tokens(report: &Report) -> Vec<FencingToken> {
    let entries = report.history.entries().iter();
    let token = |event: &Event| if let Event::Granted { token, .. } = event { Some(*token) } else { None };
    entries.filter_map(|entry| token(&entry.event)).collect()
}

/// What a process was told when it looked at its leases, in order; a grant counts as the first look.
fn validity_checks(report: &Report, process: usize) -> Vec<bool> {
    let entries = report.history.entries().iter().filter(|entry| entry.process == process);
    let look =
        |event: &Event| if let Event::Looked { is_valid, .. } = event { Some(*is_valid) } else { None };
    entries.filter_map(|entry| look(&entry.event)).collect()
}

/// Whether the writes of a process were accepted, in order.
fn writes(report: &Report, process: usize) -> Vec<bool> {
    let entries = report.history.entries().iter().filter(|entry| entry.process == process);
    let write = |event: &Event| {
        if let Event::Written { is_accepted, .. } = event { Some(*is_accepted) } else { None }
    };
    entries.filter_map(|entry| write(&entry.event)).collect()
}
