//! Which promises hold under which faults.

use std::time::Duration;

use crate::RestartGuard;
use crate::sim::{Fault, Memory, Promise, Promises, Schedule, Verdict};

/// How far a node's clock may be stepped forward while a lease lives: the margin of the validity.
const LARGEST_STEP: i64 = 2;

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
            // Votes are forgotten, and counters with them: without a restart guard, nothing is promised of either.
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
    let rates = schedule.client_rates.iter().chain(&schedule.node_rates);
    rates.copied().all(|rate| f64::from(rate.saturating_abs()) <= drift / 2.0 * 1_000_000.0)
}

/// Whether a node may take a late request of an owner that was unlocked there.
pub(crate) fn forgets_tombstones(fault: &Fault) -> bool {
    match fault {
        Fault::Crash { memory, .. } => *memory != Memory::Kept,
        Fault::Flush { .. } => true,
        Fault::Step { by, .. } => *by > LARGEST_STEP,
        _ => false,
    }
}

impl Schedule {
    /// How late a request may come, if everything that holds it up comes one after the other.
    pub(crate) fn longest_delay(&self) -> Duration {
        let of_faults = self.faults.iter().map(|timed| timed.fault.lasts());
        let of_messages = self.messages.iter().map(|message| match message.verdict {
            Verdict::Delay(by) | Verdict::Overtaken(by) | Verdict::Duplicate(by) => by,
            Verdict::Drop | Verdict::Reset => Duration::ZERO,
        });
        of_faults.chain(of_messages).sum()
    }
}
