//! The scenarios.

use clap::ValueEnum;

use super::section::Section;
use crate::Problem;

mod contended;
mod faults;
mod frozen;
mod handoff;
mod line;
mod readers;
mod scale;
mod semaphore;
mod throughput;
mod uncontended;
mod waiters;
mod watchdog;

/// The number of nodes, except in the scenario that varies this number.
const NODES: usize = 5;

/// A scenario. The name of the variant is the key of its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    Uncontended,
    Throughput,
    Handoff,
    Contended,
    Line,
    Readers,
    Semaphore,
    Frozen,
    Faults,
    Waiters,
    Watchdog,
    Scale,
}

/// The effort of a run, which decides the duration of each scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) is_quick: bool,
}

impl Effort {
    fn pick<T>(self, quick: T, full: T) -> T {
        if self.is_quick { quick } else { full }
    }
}

impl Scenario {
    pub(crate) const ALL: [Self; 12] = [
        Self::Uncontended,
        Self::Throughput,
        Self::Handoff,
        Self::Contended,
        Self::Line,
        Self::Readers,
        Self::Semaphore,
        Self::Frozen,
        Self::Watchdog,
        Self::Scale,
        // These two scenarios are last, because their clients send pending unlocks to dead servers for a while.
        Self::Waiters,
        Self::Faults,
    ];

    /// Returns the key of the scenario's figures.
    pub(crate) fn key(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    pub(crate) async fn run(self, effort: Effort) -> Result<Section, Problem> {
        match self {
            Self::Uncontended => uncontended::run(effort).await,
            Self::Throughput => throughput::run(effort).await,
            Self::Handoff => handoff::run(effort).await,
            Self::Contended => contended::run(effort).await,
            Self::Line => line::run(effort).await,
            Self::Readers => readers::run(effort).await,
            Self::Semaphore => semaphore::run(effort).await,
            Self::Frozen => frozen::run(effort).await,
            Self::Faults => faults::run(effort).await,
            Self::Waiters => waiters::run(effort).await,
            Self::Watchdog => watchdog::run(effort).await,
            Self::Scale => scale::run(effort).await,
        }
    }
}
