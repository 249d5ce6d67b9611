//! Timelines: a readable form of a history, with its leases, faults and violations.

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

/// A [`History`] with its faults and violations, as text or as a picture.
///
/// The text has one line for each event, fault and violation, in the order of time. Checks of validity,
/// starts of verifications and malformed entries have no line. Below the lines, the text has a row of
/// characters for each resource and process, for each lane of faults, and for violations.
/// [`to_svg`](Self::to_svg) draws the attempts, leases, faults and violations.
///
/// ```
/// use std::time::Duration;
/// use redquorum::{Resource, sim::{history::{AttemptId, Event, History}, timeline::Timeline}};
///
/// let attempt = AttemptId::new(1);
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
    /// Creates the timeline of a history, without faults and violations.
    #[must_use]
    pub fn new(history: &'h History) -> Self {
        let entries = history.entries();
        // The process of a residual key may have no other entry.
        let acting = entries.iter().filter(|entry| !matches!(entry.event, Event::Residue { .. }));
        Self {
            index: HistoryIndex::of(history),
            faults: Vec::new(),
            violations: Vec::new(),
            processes: acting.map(|entry| entry.process).collect(),
            end: entries.iter().map(|entry| entry.at).max().unwrap_or_default(),
        }
    }

    /// Adds a fault, in the lane of its node, process or path, such as `node 2`.
    ///
    /// Lanes have the order of their first faults. A fault may last longer than the history, up to
    /// [`Duration::MAX`] for a fault without an end.
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

    /// Adds the violations that [`History::check`] returned, each marked at the time at which it
    /// showed.
    #[must_use]
    pub fn with_violations(mut self, violations: &Violations) -> Self {
        self.violations.extend_from_slice(violations.as_slice());
        self
    }

    /// Returns a picture in SVG: lanes over an axis of time, for violations, for each process, and for each
    /// node, process or path with faults.
    ///
    /// A bar is light during an attempt and solid while the lease is held. The bar of a lock of
    /// several resources has a stripe for each resource. A viewer shows the full text of a bar under the
    /// pointer.
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
