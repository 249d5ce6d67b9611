//! Who held what, and when: a history for people.

mod axis;
mod bars;
mod fault;
mod lanes;
mod lines;
mod row;
mod sentence;
mod svg;

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt, time::Duration};

use self::fault::TimelineFault;
use super::history::{Event, History, HistoryIndex, Violation, Violations};

/// A [`History`] with the faults that it was under and the promises that it broke, as text or as a
/// picture.
///
/// The text has one line for each event that matters, in the order of time, and below them a row of
/// bars for each resource and process. [`to_svg`](Self::to_svg) draws the same. Looks that were
/// right are left out of both.
///
/// ```
/// use std::time::Duration;
/// use redquorum::{Resource, sim::{history::{Attempt, Event, History}, timeline::Timeline}};
///
/// let attempt = Attempt::new(1);
/// let mut history = History::new();
/// history.note(Duration::ZERO, 0, Event::Began { attempt, resources: vec![Resource::new("a")?], shared: vec![] });
/// history.note(Duration::from_millis(2), 0, Event::Granted { attempt, token: "7".parse()? });
///
/// let (from, until) = (Duration::from_millis(1), Duration::from_millis(5));
/// let timeline = Timeline::new(&history).with_fault(from, until, "node 2", "paused");
/// assert!(timeline.to_string().contains("attempt 1 on \"a\": granted, token 7"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Timeline<'h> {
    index: HistoryIndex<'h>,
    faults: Vec<TimelineFault>,
    violations: Vec<Violation>,
    processes: BTreeSet<usize>,
    end: Duration,
}

impl<'h> Timeline<'h> {
    /// The timeline of a history, without faults and violations.
    #[must_use]
    pub fn new(history: &'h History) -> Self {
        let entries = history.entries();
        // A key that was left is found by nobody in particular.
        let acting = entries.iter().filter(|entry| !matches!(entry.event, Event::Left { .. }));
        Self {
            index: HistoryIndex::of(history),
            faults: Vec::new(),
            violations: Vec::new(),
            processes: acting.map(|entry| entry.process).collect(),
            end: entries.iter().map(|entry| entry.at).max().unwrap_or_default(),
        }
    }

    /// With a fault, from when until when, in a lane of the thing that it happened to, such as
    /// `node 2`.
    ///
    /// Lanes come in the order in which they are named first. A fault may last longer than the
    /// history, up to [`Duration::MAX`] for one that is never mended.
    #[must_use]
    pub fn with_fault(
        mut self,
        from: Duration,
        until: Duration,
        lane: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        let until = until.max(from);
        self.end = self.end.max(from);
        self.faults.push(TimelineFault { from, until, lane: lane.into(), text: text.into() });
        self
    }

    /// With what [`History::check`] found, marked where it showed.
    #[must_use]
    pub fn with_violations(mut self, violations: &Violations) -> Self {
        self.violations.extend_from_slice(violations.as_slice());
        self
    }

    /// A picture: a lane for each process and for each thing that had faults, over an axis of time.
    ///
    /// A bar is light while an attempt is under way and solid while its lease is held; a group has
    /// a stripe for each resource. Hovering over a bar shows all of it.
    #[must_use]
    pub fn to_svg(&self) -> String {
        svg::draw(self)
    }
}

impl fmt::Display for Timeline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        lines::write(self, f)?;
        bars::write(self, f)
    }
}
