//! What clients do while things go wrong: a program for each, drawn at random.

mod performing;

use std::{fmt, str::FromStr, time::Duration};

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{
    RestartGuard,
    sim::{Failure, Promises, Report, Schedule, Schedules, Simulation},
};

/// One run: what goes wrong, and what the clients do meanwhile.
///
/// It prints as one line of JSON, and [`str::parse`] reads that line back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Case {
    /// What goes wrong.
    pub schedule: Schedule,
    /// What each client does.
    pub programs: Vec<Vec<Step>>,
    /// Whether nodes are trusted to remember every vote, without a restart guard.
    #[serde(default)]
    pub is_unguarded: bool,
}

/// One critical section, and how it is entered and left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Step {
    /// How long the client does something else before.
    #[serde(with = "crate::sim::micros")]
    pub rest: Duration,
    /// What it locks.
    pub what: What,
    /// Which of that it only reads, and shares with other readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<What>,
    /// Whether another task of the client locks the same at the same time, and holds it for a
    /// quarter of the time. If both read, they may have one lease.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_company: bool,
    /// Whether it downgrades what it writes, and reads it for a quarter of the time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub downgrades: bool,
    /// How it locks.
    pub how: How,
    /// Whether the watchdog renews the lease.
    pub is_renewed: bool,
    /// How long it holds the lease.
    #[serde(with = "crate::sim::micros")]
    pub hold: Duration,
    /// Whether it enters the lease again.
    pub reenters: bool,
    /// Whether it verifies the lease before it writes.
    pub verifies: bool,
    /// How it leaves.
    pub ending: Ending,
}

/// Which resources a step locks, or only reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum What {
    /// The one that all contend for.
    One,
    /// Another.
    Other,
    /// Both, all or none.
    Both,
}

/// How a step locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum How {
    /// Waits.
    Lock,
    /// Tries once.
    TryLock,
    /// Waits for so long.
    TryLockFor(#[serde(with = "crate::sim::micros")] Duration),
    /// Waits, and gives up by dropping the future after so long.
    Cancel(#[serde(with = "crate::sim::micros")] Duration),
}

/// How a step ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Ending {
    /// Unlocks, and hears the nodes.
    Unlock,
    /// Drops the guard.
    Drop,
    /// Keeps the guard until the lease is lost: only where it is not renewed, otherwise as
    /// [`Unlock`](Self::Unlock).
    Overstay,
}

/// The ttl of the locks of a case.
const TTL: Duration = Duration::from_secs(20);

/// Longer than a waiter may sleep without cause: the longest fallback poll with its jitter, and a
/// ttl.
const TURN: Duration = Duration::from_secs(30);

const DRIFT: f64 = 0.01;

impl Case {
    /// Cases at random: any programs, under any of these schedules.
    pub fn strategy(schedules: &Schedules) -> impl Strategy<Value = Self> + Clone + Send + Sync + use<> {
        let programs = prop::collection::vec(prop::collection::vec(step(), 1..=4), 8);
        (schedules.strategy(), programs).prop_map(|(schedule, mut programs)| {
            programs.truncate(schedule.clients);
            Self { schedule, programs, is_unguarded: false }
        })
    }

    /// The same without a restart guard.
    #[must_use]
    pub fn unguarded(self) -> Self {
        Self { is_unguarded: true, ..self }
    }

    /// Runs it.
    #[must_use]
    pub fn run(&self) -> Report {
        let (programs, guard) = (self.programs.clone(), self.guard());
        Simulation::new(self.schedule.clone()).horizon(self.horizon()).run(|client| {
            let steps = programs.get(client.index()).cloned().unwrap_or_default();
            async move {
                if let Err(error) = performing::run(&client, guard, &steps).await {
                    // Settings that cannot work are a mistake of this file.
                    unreachable!("a simulated client could not be built: {error}");
                }
            }
        })
    }

    /// Runs it, and holds it to the promises that its schedule leaves standing.
    ///
    /// # Errors
    ///
    /// A [`Failure`] that prints what was broken, and by what.
    pub fn check(&self) -> Result<Report, Box<Failure>> {
        self.check_against(&self.promises())
    }

    /// The promises that its schedule leaves standing.
    #[must_use]
    pub fn promises(&self) -> Promises {
        self.schedule.promises(DRIFT, self.guard())
    }

    /// Runs it, and holds it to these promises.
    ///
    /// # Errors
    ///
    /// A [`Failure`] that prints what was broken, and by what.
    pub fn check_against(&self, promises: &Promises) -> Result<Report, Box<Failure>> {
        let report = self.run();
        report.check(promises).map(|()| report)
    }

    fn guard(&self) -> RestartGuard {
        if self.is_unguarded { RestartGuard::Off } else { RestartGuard::PerConnection }
    }

    /// By then, everybody must have had a turn.
    fn horizon(&self) -> Duration {
        let steps = self.programs.iter().flatten();
        let work = steps
            .flat_map(|step| [step.rest, step.hold, step.hold / 4, TURN * (1 + u32::from(step.has_company))]);
        work.fold(self.schedule.calm_from(), Duration::saturating_add).saturating_add(4 * TURN)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for Case {
    type Err = serde_json::Error;

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        serde_json::from_str(line)
    }
}

fn step() -> impl Strategy<Value = Step> + Clone {
    let what = prop_oneof![4 => Just(What::One), 1 => Just(What::Other), 2 => Just(What::Both)];
    let reads = prop_oneof![
        4 => Just(None),
        3 => Just(Some(What::Both)),
        1 => Just(Some(What::One)),
        1 => Just(Some(What::Other)),
    ];
    let how = prop_oneof![
        6 => Just(How::Lock),
        2 => Just(How::TryLock),
        2 => millis(1..=30_000).prop_map(How::TryLockFor),
        2 => millis(0..=50).prop_map(How::Cancel),
    ];
    let hold = prop_oneof![3 => millis(0..=20), 2 => millis(20..=5_000), 1 => millis(5_000..=45_000)];
    let rest = prop_oneof![3 => millis(0..=10), 1 => millis(10..=10_000)];
    let ending = prop_oneof![3 => Just(Ending::Unlock), 2 => Just(Ending::Drop), 2 => Just(Ending::Overstay)];
    let is_renewed = prop::bool::weighted(0.7);
    let habits = [0.2, 0.2, 0.2, 0.3].map(prop::bool::weighted);
    (rest, (what, reads), how, hold, is_renewed, habits, ending).prop_map(
        |(
            rest,
            (what, reads),
            how,
            hold,
            is_renewed,
            [has_company, downgrades, reenters, verifies],
            ending,
        )| Step {
            rest,
            what,
            reads,
            // A writer's would only be one more client.
            has_company: has_company && reads.is_some(),
            downgrades: downgrades && what != What::Both,
            how,
            is_renewed,
            hold,
            reenters,
            verifies,
            ending,
        },
    )
}

fn millis(range: std::ops::RangeInclusive<u64>) -> impl Strategy<Value = Duration> + Clone {
    range.prop_map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_rests_without_end_has_a_horizon_all_the_same() {
        let step = Step {
            rest: Duration::MAX,
            what: What::One,
            reads: None,
            has_company: false,
            downgrades: false,
            how: How::Lock,
            is_renewed: true,
            hold: Duration::MAX,
            reenters: false,
            verifies: false,
            ending: Ending::Drop,
        };
        let schedule = Schedule::calm(1, 3, 1);
        let case = Case { schedule, programs: vec![vec![step.clone(), step]], is_unguarded: false };
        assert_eq!(case.horizon(), Duration::MAX);
    }
}
