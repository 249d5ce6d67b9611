//! What came of a run.

use std::{fmt, sync::Arc, time::Duration};

use crate::sim::{
    Promise, Promises, Schedule,
    history::{History, Violations},
    timeline::Timeline,
};

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// Every program was done, and what it left behind had its time to go away.
    Done,
    /// The horizon came first.
    Horizon,
    /// More was done than the budget of events allows: a busy loop.
    Exhausted,
    /// A task panicked, with this message.
    Panicked(String),
    /// What this node stored contradicted itself: an error of this library, not of the program.
    Inconsistent {
        /// Which node.
        node: usize,
    },
}

/// What came of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// What was to go wrong.
    pub schedule: Arc<Schedule>,
    /// How it ended.
    pub end: End,
    /// What happened, in global time.
    pub history: History,
    /// How long it took in simulated time.
    pub lasted: Duration,
    /// How many attempts there were that more nodes than a queue node heard of.
    pub rounds: u64,
    /// How many messages were sent.
    pub messages: u64,
    /// A number that follows from everything that happened: two runs of one schedule have the same.
    pub trace: u64,
}

/// A run that broke a promise.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// The run.
    pub report: Report,
    /// Which promises it broke, and where; `None` if all that is wrong is how it ended.
    pub violations: Option<Violations>,
}

impl Report {
    /// Whether the run came to its end and kept these promises.
    ///
    /// # Errors
    ///
    /// A [`Failure`] that prints the schedule, what was broken, and who held what when.
    pub fn check(&self, promises: &Promises) -> Result<(), Box<Failure>> {
        let violations = self.history.check(promises).err();
        let is_over = matches!(self.end, End::Done | End::Horizon);
        if is_over && violations.is_none() {
            return Ok(());
        }
        Err(Box::new(Failure { report: self.clone(), violations }))
    }

    /// Who held what when, and what went wrong around it.
    #[must_use]
    pub fn timeline(&self) -> Timeline<'_> {
        let of_faults = self.schedule.faults.iter();
        of_faults.fold(Timeline::new(&self.history), |timeline, timed| {
            timeline.with_fault(timed.at, timed.until(), timed.fault.lane(), timed.fault.to_string())
        })
    }
}

impl Failure {
    /// Whether this promise was broken.
    #[must_use]
    pub fn breaks(&self, promise: Promise) -> bool {
        self.violations.as_ref().is_some_and(|violations| violations.breaks(promise))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.report.end {
            End::Panicked(message) => writeln!(f, "a task panicked: {message}")?,
            End::Exhausted => writeln!(f, "more events than the budget allows: a busy loop")?,
            End::Inconsistent { node } => writeln!(f, "what node {node} has stored contradicts itself")?,
            End::Done | End::Horizon => {}
        }
        if let Some(violations) = &self.violations {
            writeln!(f, "{violations}")?;
        }
        writeln!(f, "seed {}, schedule:\n{}", self.report.schedule.seed, self.report.schedule)?;
        let timeline = self.report.timeline();
        match &self.violations {
            Some(violations) => timeline.with_violations(violations).fmt(f),
            None => timeline.fmt(f),
        }
    }
}

impl std::error::Error for Failure {}
