//! Which promises hold under which faults.

use std::time::Duration;

use crate::{
    RestartGuard,
    sim::{Direction, Fault, Memory, MessageFault, Promise, Promises, Schedule, TimedFault, Verdict},
};

/// How far a node's clock may be stepped forward while a lease lives: the margin of the validity.
const LARGEST_STEP: i64 = 2;

/// How long it takes at most until a connection is given up and replaced, where node timeouts are a
/// second or less.
const REDIAL: Duration = Duration::from_secs(6);

/// The promises that a schedule leaves standing, by the assumption that each fault breaks.
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
            // Votes are forgotten, and counters with them: without a restart guard, nothing is
            // promised of either.
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

/// Whether no clock is off by more than half of the drift.
fn keeps_rates(schedule: &Schedule, drift: f64) -> bool {
    let rates = schedule.process_rates.iter().chain(&schedule.node_rates);
    rates.copied().all(|rate| f64::from(rate.saturating_abs()) <= drift / 2.0 * 1_000_000.0)
}

impl Schedule {
    /// Whether a node may take a late request of an owner that was unlocked there.
    pub(crate) fn forgets_tombstones(&self, node: usize) -> bool {
        self.faults.iter().any(|timed| match timed.fault {
            Fault::Crash { node: of, memory, .. } => of == node && memory != Memory::Kept,
            Fault::Flush { node: of } => of == node,
            Fault::Step { node: of, by } => of == node && by > LARGEST_STEP,
            _ => false,
        })
    }

    /// Whether some keys of a node may go or come back without others that belong to them.
    pub(crate) fn disturbs_keys(&self, node: usize) -> bool {
        self.faults.iter().any(|timed| match timed.fault {
            Fault::Evict { node: of } | Fault::Step { node: of, .. } => of == node,
            _ => false,
        })
    }

    /// Whether a node may be asked the same twice by a process.
    pub(crate) fn repeats_requests(&self, process: usize, node: usize) -> bool {
        self.of_messages(process, node).any(|message| {
            message.direction == Direction::Request && matches!(message.verdict, Verdict::Duplicate(_))
        })
    }

    /// From when on nothing stands between a process and a node.
    pub(crate) fn calm_between(&self, process: usize, node: usize) -> Duration {
        let ends = self.faults.iter().filter(|timed| timed.fault.stands_between(process, node));
        let calm: Duration = ends.map(TimedFault::until).max().unwrap_or_default();
        calm.saturating_add(self.delays(process, node))
    }

    /// How late a request of a process may come to a node, if everything that holds it up comes one
    /// after the other.
    pub(crate) fn longest_delay(&self, process: usize, node: usize) -> Duration {
        let between = self.faults.iter().filter(|timed| timed.fault.stands_between(process, node));
        between.fold(self.delays(process, node), |sum, timed| sum.saturating_add(timed.fault.lasts()))
    }

    fn delays(&self, process: usize, node: usize) -> Duration {
        let by = |message: &MessageFault| match message.verdict {
            Verdict::Delay(by) | Verdict::Overtaken(by) | Verdict::Duplicate(by) => by,
            // A connection that is silent, or broken, is given up and replaced.
            Verdict::Drop | Verdict::Reset => REDIAL,
        };
        self.of_messages(process, node).map(by).fold(Duration::ZERO, Duration::saturating_add)
    }

    fn of_messages(&self, process: usize, node: usize) -> impl Iterator<Item = &MessageFault> {
        self.messages.iter().filter(move |message| (message.process, message.node) == (process, node))
    }
}

impl Fault {
    /// Whether it keeps a process's requests from a node.
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
