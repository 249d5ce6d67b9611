//! The consequences of the faults of a schedule: the promises that still hold, the nodes whose data may
//! contradict itself, and the keys that may outlive their attempts.

use std::time::Duration;

use crate::{
    RestartGuard,
    sim::{Direction, Fault, Memory, MessageFault, Promise, Promises, Schedule, TimedFault, Verdict},
};

/// The largest sum of forward steps of a node's clock that the margin of the validity covers, in
/// milliseconds.
const LARGEST_STEP: i64 = 2;

/// The longest time until a client replaces a dead connection, if the node timeout is at most one
/// second.
const REDIAL: Duration = Duration::from_secs(6);

/// Returns the promises that hold under a schedule. A fault that breaks the assumption of a promise
/// removes the promise.
pub(crate) fn promises(schedule: &Schedule, drift: f64, guard: RestartGuard) -> Promises {
    let mut promises = Promises::ALL;
    if !keeps_rates(schedule, drift) {
        promises = promises.without(Promise::Exclusion);
    }
    let mut steps = vec![0; schedule.nodes];
    for timed in &schedule.faults {
        match &timed.fault {
            Fault::Freeze { lasts, .. } if *lasts > Duration::ZERO => {
                promises = promises.without(Promise::Exclusion);
            }
            // The node forgets votes and counters. Without a restart guard, no promise that depends on
            // votes or counters holds.
            Fault::Crash { memory: Memory::Lost | Memory::AsOf(_), .. } | Fault::Flush { .. }
                if guard == RestartGuard::Off =>
            {
                promises = promises
                    .without(Promise::Exclusion)
                    .without(Promise::Order)
                    .without(Promise::Register)
                    .without(Promise::Proof);
            }
            Fault::Evict { .. } => promises = promises.without(Promise::Exclusion),
            Fault::Step { node, by } => {
                if let Some(sum) = steps.get_mut(*node) {
                    *sum += (*by).max(0);
                }
            }
            _ => {}
        }
    }
    if steps.iter().any(|sum| *sum > LARGEST_STEP) {
        promises = promises.without(Promise::Exclusion);
    }
    promises
}

/// Whether each clock rate is wrong by at most half of the drift, so that two clocks differ by at most the
/// drift.
fn keeps_rates(schedule: &Schedule, drift: f64) -> bool {
    let rates = schedule.process_rates.iter().chain(&schedule.node_rates);
    rates.copied().all(|rate| f64::from(rate.saturating_abs()) <= drift / 2.0 * 1_000_000.0)
}

impl Schedule {
    /// Whether a node may lose a tombstone before its end, and then executes a late request of a lease
    /// that was unlocked.
    pub(crate) fn forgets_tombstones(&self, node: usize) -> bool {
        self.faults.iter().any(|timed| match timed.fault {
            Fault::Crash { node: of, memory, .. } => of == node && memory != Memory::Kept,
            Fault::Flush { node: of } => of == node,
            Fault::Step { node: of, by } => of == node && by > LARGEST_STEP,
            _ => false,
        })
    }

    /// Whether an eviction or a step of the clock may delete, expire or restore a part of the data of a
    /// resource on a node. The remaining data may then contradict itself, without an error of this
    /// library.
    pub(crate) fn disturbs_keys(&self, node: usize) -> bool {
        self.faults.iter().any(|timed| match timed.fault {
            Fault::Evict { node: of } | Fault::Step { node: of, .. } => of == node,
            _ => false,
        })
    }

    /// Whether a node may receive a request of a process twice.
    pub(crate) fn repeats_requests(&self, process: usize, node: usize) -> bool {
        self.of_messages(process, node).any(|message| {
            message.direction == Direction::Request && matches!(message.verdict, Verdict::Duplicate(_))
        })
    }

    /// Returns the end of the last timed fault between a process and a node, plus the sum of the delays
    /// by faults of their messages.
    pub(crate) fn faults_end_between(&self, process: usize, node: usize) -> Duration {
        let ends = self.faults.iter().filter(|timed| timed.fault.stands_between(process, node));
        let last: Duration = ends.map(TimedFault::until).max().unwrap_or_default();
        last.saturating_add(self.delays(process, node))
    }

    /// Returns an upper bound of the delay of a request from a process to a node: the sum of the
    /// durations of all timed faults between process and node, and of the delays by message faults.
    pub(crate) fn longest_delay(&self, process: usize, node: usize) -> Duration {
        let between = self.faults.iter().filter(|timed| timed.fault.stands_between(process, node));
        between.fold(self.delays(process, node), |sum, timed| sum.saturating_add(timed.fault.lasts()))
    }

    fn delays(&self, process: usize, node: usize) -> Duration {
        let by = |message: &MessageFault| match message.verdict {
            Verdict::Delay(by) | Verdict::Overtaken(by) | Verdict::Duplicate(by) => by,
            // The client replaces a silent or broken connection.
            Verdict::Drop | Verdict::Reset => REDIAL,
        };
        self.of_messages(process, node).map(by).fold(Duration::ZERO, Duration::saturating_add)
    }

    fn of_messages(&self, process: usize, node: usize) -> impl Iterator<Item = &MessageFault> {
        self.messages.iter().filter(move |message| (message.process, message.node) == (process, node))
    }
}

impl Fault {
    /// Whether the fault holds back or delays messages between a process and a node.
    fn stands_between(&self, process: usize, node: usize) -> bool {
        match self {
            Self::Pause { process: of, .. }
            | Self::Freeze { process: of, .. }
            | Self::Kill { process: of } => *of == process,
            Self::Crash { node: of, .. }
            | Self::Hang { node: of, .. }
            | Self::Slow { node: of, .. }
            | Self::Far { node: of, .. } => *of == node,
            Self::Partition { process: one, node: other, .. } => (*one, *other) == (process, node),
            Self::Flush { .. } | Self::Evict { .. } | Self::Step { .. } => false,
        }
    }
}
