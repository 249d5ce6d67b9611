//! S97: a node that a new server replaces, beside clients with both lists of nodes.
//!
//! ```text
//!  process 0        old list   reaches 0 and OLD
//!  process 1        old list   reaches 0, 1 and OLD
//!  process 2        new list   reaches 1 and NEW
//!  processes 3, 4   administrators
//! ```
//!
//! The leases of the processes 0 and 2 overlap, unless the old node and the new server are together one node that forgets.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use super::*;
use crate::{
    error::AdminError,
    quorum::{QuorumBuilder, replacing::replace_with},
    sim::Memory,
};

/// The node that is replaced.
const OLD: usize = 2;

/// The new server.
const NEW: usize = 3;

/// A second new server.
const OTHER: usize = 4;

/// The index of the replaced node in each list.
const REPLACED: usize = 2;

const ADMINISTRATORS: [usize; 2] = [3, 4];

/// The time of the first call, when clients hold leases.
const BEGIN: Duration = Duration::from_secs(5);

/// The time of the first call of the second administrator, who repeats the call until it succeeds.
const SECOND_CALL: Duration = Duration::from_secs(6);

/// The time for which a call waits for an old node that does not answer.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// The milliseconds in which a call sends all requests before its wait for the new server, after the wait for the old
/// node.
const STEPS: u64 = 120;

/// The time at which the clients end: after the quarantines of two calls.
const END: Duration = Duration::from_secs(80);

/// The time at which an old node comes back, after the end of the calls.
const COMES_BACK: Duration = Duration::from_secs(40);

/// The state of the old node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OldNode {
    Alive,
    /// The node is dead, and the administrators say so.
    Dead,
    /// The node is said to be gone, but only the administrators do not reach it for a while.
    Unreachable(Duration),
    /// The server restarts after its retirement, with its data or without.
    ComesBack(Memory),
}

/// The replacement of a run.
#[derive(Clone, Copy, Debug)]
struct Replacements {
    old: OldNode,
    /// The time after which the process of the first call is killed.
    ended_after: Option<Duration>,
    /// A node that the first call does not reach for a while, and the time of the first call at which this begins.
    cut_off: Option<(usize, Duration)>,
    /// The server by which the second administrator replaces the node.
    second: usize,
    /// The time at which process 0 starts.
    starts: Duration,
}

/// The outcomes of a run beside its report.
#[derive(Default)]
struct Outcomes {
    /// The results of the calls, with the new servers.
    calls: Mutex<Vec<(usize, Result<(), AdminError>)>>,
    /// The leases of process 1, which reaches all nodes of the old list.
    leases: AtomicU64,
    /// The leases of process 2 after the replacement.
    leases_with_new_server: AtomicU64,
}

fn builder() -> QuorumBuilder {
    Quorum::builder().ttl(TTL).max_ttl(2 * TTL).connect_timeout(CONNECT_TIMEOUT)
}

impl Replacements {
    const fn of(old: OldNode) -> Self {
        Self { old, ended_after: None, cut_off: None, second: NEW, starts: millis(100) }
    }

    /// Returns the schedule of five servers, of which three are a quorum.
    fn schedule(&self) -> Schedule {
        let (lasting, both) = (600 * SECOND, PartitionDirection::Both);
        let schedule = cut(steady(5, 5), 0, &[1], both, Duration::ZERO, lasting);
        let mut schedule = cut(schedule, 2, &[0], both, Duration::ZERO, lasting);
        if let Some(after) = self.ended_after {
            schedule = schedule.with(BEGIN + after, Fault::Kill { process: ADMINISTRATORS[0] });
        }
        if let Some((node, after)) = self.cut_off {
            schedule = cut(schedule, ADMINISTRATORS[0], &[node], both, BEGIN + after, 4 * SECOND);
        }
        match self.old {
            OldNode::Alive => schedule,
            OldNode::Dead => {
                let dead = Fault::Crash { node: OLD, lasts: lasting, memory: Memory::Kept };
                schedule.with(BEGIN - SECOND, dead)
            }
            OldNode::Unreachable(lasts) => {
                let cut_off = |schedule, process| cut(schedule, process, &[OLD], both, BEGIN - SECOND, lasts);
                ADMINISTRATORS.into_iter().fold(schedule, cut_off)
            }
            OldNode::ComesBack(memory) => {
                schedule.with(COMES_BACK, Fault::Crash { node: OLD, lasts: SECOND, memory })
            }
        }
    }

    /// Whether the administrators say that the old node is gone.
    fn is_gone(&self) -> bool {
        matches!(self.old, OldNode::Dead | OldNode::Unreachable(_))
    }

    fn run(self) -> (Report, Arc<Outcomes>) {
        let outcomes = Arc::new(Outcomes::default());
        let report = run(self.schedule(), |process| {
            process.leave_new(NEW);
            process.leave_new(OTHER);
            let outcomes = Arc::clone(&outcomes);
            async move {
                match process.index() {
                    0 if self.second == NEW => {
                        process.sleep(self.starts).await;
                        hold_repeatedly(&process, OLD, &AtomicU64::new(0)).await;
                    }
                    // With two new servers, a client has the list of the first one.
                    0 => {
                        wait_until_closed(&process, NEW).await;
                        hold_repeatedly(&process, NEW, &AtomicU64::new(0)).await;
                    }
                    1 => use_locks(&process, &outcomes.leases).await,
                    2 => {
                        wait_until_closed(&process, self.second).await;
                        hold_repeatedly(&process, self.second, &outcomes.leases_with_new_server).await;
                    }
                    index if index == ADMINISTRATORS[0] => {
                        process.sleep(BEGIN).await;
                        replace(&process, NEW, self.is_gone(), &outcomes).await;
                    }
                    // A late request of the first call may undo a step of the second one.
                    _ => {
                        process.sleep(SECOND_CALL).await;
                        while now(&process) < COMES_BACK
                            && !replace(&process, self.second, self.is_gone(), &outcomes).await
                        {
                            process.sleep(SECOND).await;
                        }
                    }
                }
            }
        });
        (report, outcomes)
    }

    /// Asserts all promises, and that a call has replaced the node without the loss of a lease.
    fn assert_replaces(self) {
        let (report, outcomes) = self.run();
        assert_keeps(&report, &Promises::ALL);
        let calls = outcomes.calls.lock().unwrap();
        assert!(calls.iter().any(|(_, replaced)| replaced.is_ok()), "{calls:?}: {self:?}");
        let [leases, with_new] =
            [&outcomes.leases, &outcomes.leases_with_new_server].map(|leases| leases.load(Ordering::Relaxed));
        assert!(leases > 300 && with_new > 0, "{leases}, {with_new}: {calls:?}, {self:?}");
    }

    /// Returns the same replacement with a first call that is killed after each of its steps, or is not killed.
    fn ending_at_any_step(self) -> impl Iterator<Item = Self> {
        let begin = if self.is_gone() { CONNECT_TIMEOUT } else { Duration::ZERO };
        // A request and its answer take two milliseconds, and begin at an even one.
        let steps = (0..STEPS / 2).map(move |step| Some(begin + millis(2 * step + 1)));
        steps.chain([None]).map(move |ended_after| Self { ended_after, ..self })
    }
}

fn now(process: &Process) -> Duration {
    micros(process.world().lock().now())
}

/// Waits until an administrator has closed a new server, or until the end.
async fn wait_until_closed(process: &Process, node: usize) {
    while now(process) < END && !process.world().lock().has_metadata(node) {
        process.sleep(millis(50)).await;
    }
}

/// Locks one resource again and again without renewal, and keeps each lease until its end. The list of nodes ends with
/// `last`. Counts the leases of the last seconds.
async fn hold_repeatedly(process: &Process, last: usize, leases: &AtomicU64) {
    let quorum = builder().connect_simulated(&process.with_list(&[0, 1, last])).unwrap();
    let lock = quorum.red_lock("r").options(LockOptions::new().without_renewal());
    while now(process) < END {
        if let Ok(Some(guard)) = lock.try_lock().await {
            leases.fetch_add(u64::from(now(process) > END - 3 * TTL), Ordering::Relaxed);
            process.lost(&guard).await;
            assert!(!process.check_valid(&guard));
        }
        process.sleep(millis(130)).await;
    }
}

/// Holds one lease for the whole run, and locks another resource for short times.
async fn use_locks(process: &Process, leases: &AtomicU64) {
    let quorum = builder().connect_simulated(&process.with_list(&[0, 1, OLD])).unwrap();
    let held = quorum.red_lock("held").lock().await.unwrap();
    while now(process) < END {
        if let Ok(Some(guard)) = quorum.red_lock("s").try_lock().await {
            leases.fetch_add(1, Ordering::Relaxed);
            process.sleep(millis(20)).await;
            drop(guard.unlock().await);
        }
        assert!(process.check_valid(&held), "a lease is lost at {:?}", now(process));
        process.sleep(millis(80)).await;
    }
}

/// Replaces the old node by a server.
async fn replace(process: &Process, by: usize, is_gone: bool, outcomes: &Outcomes) -> bool {
    let [before, after] =
        [OLD, by].map(|last| builder().administer_simulated(&process.with_list(&[0, 1, last])));
    let replaced = replace_with(&before, &after, REPLACED, true, is_gone).await;
    let is_replaced = replaced.is_ok();
    outcomes.calls.lock().unwrap().push((by, replaced));
    is_replaced
}

#[test]
fn s97_a_replacement_that_is_killed_at_any_step_is_ended_by_the_next_call() {
    for old in [OldNode::Alive, OldNode::Dead] {
        Replacements::of(old).ending_at_any_step().for_each(Replacements::assert_replaces);
    }
}

#[test]
fn s97_a_replacement_whose_administrator_loses_a_node_is_ended_by_the_next_call() {
    for node in [0, 1, OLD, NEW] {
        for after in (0..=STEPS).step_by(3).map(millis) {
            let cut_off = Some((node, after));
            Replacements { cut_off, ..Replacements::of(OldNode::Alive) }.assert_replaces();
        }
    }
}

#[test]
fn s97_an_old_node_that_comes_back_with_its_data_stays_retired() {
    let replacements = Replacements::of(OldNode::ComesBack(Memory::Kept));
    replacements.ending_at_any_step().step_by(4).for_each(Replacements::assert_replaces);
}

/// The administrators reach the old node again while they wait for the new server.
#[test]
fn s97_an_old_node_that_was_only_out_of_reach_is_retired_before_the_new_server_votes() {
    for lasts in [7, 12, 18] {
        let replacements = Replacements::of(OldNode::Unreachable(lasts * SECOND));
        replacements.ending_at_any_step().step_by(4).for_each(Replacements::assert_replaces);
    }
}

/// Two administrators say that the old node is gone, and name different new servers.
#[test]
fn s97_a_dead_node_is_replaced_by_one_of_two_servers() {
    let replacements = Replacements { second: OTHER, ..Replacements::of(OldNode::Dead) };
    for replacements in replacements.ending_at_any_step() {
        let (report, outcomes) = replacements.run();
        assert_keeps(&report, &Promises::ALL);
        let calls = outcomes.calls.lock().unwrap();
        let ended = calls.iter().filter(|(_, replaced)| replaced.is_ok()).count();
        let is_expected = if replacements.ended_after.is_none() { ended == 1 } else { ended < 2 };
        assert!(is_expected, "{calls:?}");
    }
}

/// A running client does not use the address of the old node again. A client that starts later does.
#[test]
fn s97_an_old_node_that_comes_back_without_its_mark_votes_for_new_clients() {
    let replacements = Replacements::of(OldNode::ComesBack(Memory::Lost));
    replacements.assert_replaces();
    let (report, _) = Replacements { starts: COMES_BACK + 2 * SECOND, ..replacements }.run();
    assert!(breaks(&report, Promise::Exclusion));
}

#[test]
fn s97_each_rule_of_a_replacement_is_needed() {
    let alive = Replacements::of(OldNode::Alive);
    let out_of_reach = Replacements::of(OldNode::Unreachable(18 * SECOND));
    let by_two = Replacements { second: OTHER, ..Replacements::of(OldNode::Dead) };
    for (rule, replacements) in [
        (Mutation::JoinBesideOld, alive),
        (Mutation::JoinWithoutQuarantine, alive),
        (Mutation::IgnoreReturnedOld, out_of_reach),
        (Mutation::ForgetReplacements, by_two),
    ] {
        let (report, _) = breaking(rule, || replacements.run());
        assert!(breaks(&report, Promise::Exclusion), "{rule:?}");
        let (report, _) = replacements.run();
        assert_keeps(&report, &Promises::ALL);
    }
}
