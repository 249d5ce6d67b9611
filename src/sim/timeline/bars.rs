//! Rows of characters that show the leases of each resource and process.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::{Timeline, fault, lines::process_name};
use crate::sim::{history::AttemptRecord, millis::Millis};

/// The number of characters from the start to the end of a history.
const COLUMNS: usize = 80;

// The characters of a row, as the legend explains them.
const ASKED: char = '.';
const HELD: char = '#';
const SHARED: char = '=';
const FAULT: char = '~';
const BROKEN: char = '!';

/// Writes a row for each resource and process, a row for each lane of faults, a row for violations,
/// and a scale.
pub(super) fn write(timeline: &Timeline<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let rows = rows(timeline);
    if rows.is_empty() {
        return Ok(());
    }
    let widest = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    writeln!(f, "\n{ASKED} asked for  {HELD} held  {SHARED} shared  {FAULT} fault  {BROKEN} broken promise")?;
    for (name, row) in &rows {
        writeln!(f, "{name:<widest$} |{}|", row.text())?;
    }
    let end = format!("{} ms", Millis(timeline.end));
    writeln!(f, "{:<widest$} |{:<left$}{end}|", "", "0", left = COLUMNS.saturating_sub(end.len()))
}

fn rows(timeline: &Timeline<'_>) -> Vec<(String, BarRow)> {
    let mut held: BTreeMap<_, BarRow> = BTreeMap::new();
    for record in timeline.index.iter() {
        for resource in record.resources {
            let with = if record.shares(resource) { SHARED } else { HELD };
            let row = held.entry((resource, record.process)).or_insert_with(|| BarRow::new(timeline.end));
            row.lease(record, with);
        }
    }
    let held = held
        .into_iter()
        .map(|((resource, process), row)| (format!("{resource:?} {}", process_name(process)), row));
    let faults = fault::by_lane(&timeline.faults).into_iter().map(|(lane, faults)| {
        let mut row = BarRow::new(timeline.end);
        faults.iter().for_each(|fault| row.fill(fault.from, fault.until, FAULT));
        (lane.to_owned(), row)
    });
    let mut broken = BarRow::new(timeline.end);
    timeline.violations.iter().for_each(|violation| broken.fill(violation.at(), violation.at(), BROKEN));
    let broken = (!timeline.violations.is_empty()).then(|| ("violations".to_owned(), broken));
    held.chain(faults).chain(broken).collect()
}

/// The characters of one row.
struct BarRow {
    cells: [char; COLUMNS],
    end: Duration,
}

impl BarRow {
    fn new(end: Duration) -> Self {
        Self { cells: [' '; COLUMNS], end }
    }

    fn lease(&mut self, record: &AttemptRecord<'_>, with: char) {
        let asked_until = record.granted.map(|granted| granted.at).or(record.lost).unwrap_or(self.end);
        self.fill(record.began, asked_until, ASKED);
        if let Some(granted) = record.granted {
            self.fill(granted.at, record.ended.map_or(self.end, |ended| ended.at), with);
        }
    }

    /// Fills the cells of a period, at least one cell. The character of an attempt does not replace the
    /// character of a lease.
    fn fill(&mut self, from: Duration, until: Duration, with: char) {
        let first = self.column(from);
        let last = self.column(until.saturating_sub(Duration::from_nanos(1))).max(first);
        for cell in self.cells.iter_mut().take(last + 1).skip(first) {
            if with != ASKED || ![HELD, SHARED].contains(cell) {
                *cell = with;
            }
        }
    }

    fn column(&self, at: Duration) -> usize {
        let column = at.as_nanos() * COLUMNS as u128 / self.end.as_nanos().max(1);
        usize::try_from(column).unwrap_or(COLUMNS).min(COLUMNS - 1)
    }

    fn text(&self) -> String {
        self.cells.iter().collect()
    }
}
