//! The result of a run.

use std::{fmt, sync::Arc, time::Duration};

use crate::sim::{
    NodeLoad, Promise, Promises, Schedule,
    history::{History, Violations},
    timeline::Timeline,
};

/// The reason for which a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// Every program has ended, and afterwards the clients had time to delete leftover keys.
    Done,
    /// The run reached its horizon.
    Horizon,
    /// The run exceeded its budget of events and task polls, probably in a busy loop.
    Exhausted,
    /// A task panicked, with this message.
    Panicked(String),
    /// The stored data of this node contradicted itself. The cause is an error of this library, not of
    /// the program.
    Inconsistent {
        /// The index of the node.
        node: usize,
    },
}

/// The result of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The schedule of the run.
    pub schedule: Arc<Schedule>,
    /// The reason for the end of the run.
    pub end: End,
    /// The events of leases and stores, with the simulated time since the start of the run.
    pub history: History,
    /// The simulated time of the run.
    pub lasted: Duration,
    /// The number of attempts of which at least one node has executed a lock. An attempt that only
    /// entered a wait queue does not count.
    pub rounds: u64,
    /// The number of messages that were sent.
    pub messages: u64,
    /// The work of each node.
    pub loads: Vec<NodeLoad>,
    /// A digest of all events of the run. In one build, two runs of the same schedule and the same
    /// programs have the same digest.
    pub trace: u64,
    /// The events for the proof; `None` if the run recorded no trace.
    #[cfg(test)]
    pub(crate) proof_trace: Option<String>,
}

/// A run that broke a promise, or that ended as neither [`End::Done`] nor [`End::Horizon`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// The report of the run.
    pub report: Report,
    /// The broken promises with their evidence; `None` if the run broke no promise.
    pub violations: Option<Violations>,
}

impl Report {
    /// Checks that the run ended as [`End::Done`] or [`End::Horizon`], and kept these promises.
    ///
    /// # Errors
    ///
    /// A [`Failure`] that prints the schedule, the violations, and the timeline of leases.
    pub fn check(&self, promises: &Promises) -> Result<(), Box<Failure>> {
        let violations = self.history.check(promises).err();
        let has_ended_normally = matches!(self.end, End::Done | End::Horizon);
        if has_ended_normally && violations.is_none() {
            return Ok(());
        }
        Err(Box::new(Failure { report: self.clone(), violations }))
    }

    /// Returns the leases and faults of the run as a timeline.
    #[must_use]
    pub fn timeline(&self) -> Timeline<'_> {
        let of_faults = self.schedule.faults.iter();
        of_faults.fold(Timeline::new(&self.history), |timeline, timed| {
            timeline.with_fault(timed.at, timed.until(), timed.fault.lane(), timed.fault.to_string())
        })
    }
}

impl Failure {
    /// Whether the run broke this promise.
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
            End::Inconsistent { node } => writeln!(f, "the stored data of node {node} contradicts itself")?,
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
