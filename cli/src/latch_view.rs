//! The state of a latch, as text and as JSON, for `latch`, `list` and `inspect`.

use std::{collections::BTreeSet, fmt, time::Duration};

use redquorum::{
    __command::label_of,
    inspection::{Inspection, LatchInspection},
};
use serde::Serialize;

use crate::{
    at_least::AtLeast,
    counted::{counted, listed},
    duration::{coarse, milliseconds},
    name,
    table::{table, width, wrapped},
};

/// The largest number of arrivals that a text names, except the output of `latch NAME show`, which names all.
pub(crate) const MAX_NAMED: usize = 16;

/// The largest number of arrivals of a node that an inspection names.
const MAX_LISTED: usize = 32;

/// The state of a latch by the records of the nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LatchView {
    /// The name of the latch; `None` if the name is not UTF-8.
    latch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latch_hex: Option<String>,
    /// The name in texts.
    #[serde(skip)]
    name: String,
    /// The number of arrivals that opens the latch; `None` if no node has a record, and no number is given.
    count: Option<u32>,
    /// The number of arrivals; `None` if no quorum has answered.
    arrivals: Option<u32>,
    /// Whether there may be more arrivals than the number, because nodes have not named them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    arrivals_may_be_more: bool,
    open: bool,
    /// The time for which nodes keep the latch without a further use.
    remaining_ms: Option<f64>,
    /// The arrivals; `None` if there are more than an inspection names.
    arrived: Option<Vec<ArrivalView>>,
}

/// An arrival at a latch.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct ArrivalView {
    /// The id of the arrival; `None` if the id is not UTF-8.
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_hex: Option<String>,
    /// The label of the client, if the client has chosen no id of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    /// Whether the arrival is one of those by which `latch open` has opened the latch. No process has arrived.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    opened: bool,
    /// The label or the id in texts.
    #[serde(skip)]
    name: String,
}

impl ArrivalView {
    fn new(arrival: &[u8]) -> Self {
        let (id, id_hex) = name::text_or_hex(arrival);
        let label = label_of(arrival);
        let name = label.clone().unwrap_or_else(|| name::shown(arrival));
        // `Latch::open` adds a number to the id of its client.
        let number = arrival.rsplit(|byte| *byte == b'+').next().unwrap_or_default();
        let has_number = !number.is_empty() && number.len() < arrival.len();
        let opened = label.is_some() && has_number && number.iter().all(u8::is_ascii_digit);
        Self { id, id_hex, label, opened, name }
    }
}

impl LatchView {
    /// Returns the view of a latch whose state is unknown, except whether the latch is open.
    pub(crate) fn unknown(latch: &[u8], count: Option<u32>, open: bool) -> Self {
        let (text, latch_hex) = name::text_or_hex(latch);
        Self {
            latch: text,
            latch_hex,
            name: name::shown(latch),
            count,
            arrivals: None,
            arrivals_may_be_more: false,
            open,
            remaining_ms: None,
            arrived: Some(Vec::new()),
        }
    }

    /// Returns the view of an inspected latch. If no node has a record, the latch has no arrivals.
    pub(crate) fn of_inspection(latch: &[u8], count: Option<u32>, found: &Inspection) -> Self {
        match found.latch() {
            Some(found) => Self::new(latch, &found),
            None => Self { arrivals: Some(0), ..Self::unknown(latch, count, false) },
        }
    }

    pub(crate) fn new(latch: &[u8], found: &LatchInspection) -> Self {
        Self {
            arrivals: Some(found.arrived()),
            arrivals_may_be_more: !found.names_all() && found.arrived() < found.count(),
            remaining_ms: Some(milliseconds(found.remaining())),
            arrived: found.names_all().then(|| found.arrivals().map(ArrivalView::new).collect()),
            ..Self::unknown(latch, Some(found.count()), found.is_open())
        }
    }

    /// Returns the view with all arrivals of the closed latch, by their ids.
    pub(crate) fn with_arrivals(self, ids: &[Vec<u8>]) -> Self {
        Self {
            arrivals: Some(u32::try_from(ids.len()).unwrap_or(u32::MAX)),
            arrivals_may_be_more: false,
            arrived: Some(ids.iter().map(|id| ArrivalView::new(id)).collect()),
            ..self
        }
    }

    /// Returns the number of arrivals that opens the latch, if the latch is closed and has arrivals without names.
    pub(crate) fn count_if_unnamed(&self) -> Option<u32> {
        self.count.filter(|_| self.arrived.is_none() && !self.open)
    }

    /// Returns the text for the arrivals by which `latch open` has opened the latch, as far as arrivals are named.
    fn by_opening(&self) -> String {
        match self.arrived.iter().flatten().filter(|arrival| arrival.opened).count() {
            0 => String::new(),
            number => format!(" ({number} by open)"),
        }
    }

    /// Returns the number of arrivals that are missing; 0 if the latch is open or its state is unknown.
    pub(crate) fn missing(&self) -> u32 {
        match (self.count, self.arrivals) {
            (Some(count), Some(arrivals)) if !self.open => count.saturating_sub(arrivals),
            _ => 0,
        }
    }

    /// Returns the number of arrivals that the nodes have recorded; `None` if no quorum has answered.
    fn recorded(&self) -> Option<AtLeast> {
        let number = self.arrivals? as usize;
        Some(AtLeast { number, may_be_more: self.arrivals_may_be_more })
    }

    /// Returns the arrivals and the number that opens the latch, such as `3 of 5 arrivals`.
    pub(crate) fn arrivals(&self) -> String {
        let by_opening = self.by_opening();
        match (self.recorded(), self.count) {
            (Some(arrivals), Some(count)) => {
                let (least, number) = (arrivals.prefix(), arrivals.number);
                format!("{least}{number} of {}{by_opening}", counted(count as usize, "arrival"))
            }
            (Some(arrivals), None) => arrivals.counted("arrival"),
            (None, Some(count)) => format!("opens at {}", counted(count as usize, "arrival")),
            (None, None) => "unknown".to_owned(),
        }
    }

    /// Returns the arrivals and the number that opens the latch for a cell of a table, such as `3 of 5`.
    pub(crate) fn cell(&self) -> String {
        match (self.recorded(), self.count) {
            (Some(arrivals), Some(count)) => format!("{arrivals} of {count}{}", self.by_opening()),
            _ => "(unknown)".to_owned(),
        }
    }

    /// Returns the labels or ids of the arrivals, and the clients that have opened the latch without the missing
    /// arrivals, at most `most` of each; `None` without arrivals. A label of several arrivals is shown once, with the
    /// number of arrivals.
    pub(crate) fn names(&self, most: usize) -> Option<String> {
        let Some(arrived) = &self.arrived else {
            let remedy = if self.open { "" } else { ": `redquorum latch NAME show` names them" };
            return Some(format!("arrived: more than {MAX_LISTED}{remedy}"));
        };
        let opened: BTreeSet<&str> =
            arrived.iter().filter(|arrival| arrival.opened).map(|arrival| &*arrival.name).collect();
        let opened =
            (!opened.is_empty()).then(|| format!("opened by {}", listed(opened.iter(), most, opened.len())));
        let mut names: Vec<(&str, usize)> = Vec::new();
        for arrival in arrived.iter().filter(|arrival| !arrival.opened) {
            match names.last_mut() {
                Some((name, arrivals)) if *name == arrival.name => *arrivals += 1,
                _ => names.push((&arrival.name, 1)),
            }
        }
        let name = |(name, arrivals): &(&str, usize)| match arrivals {
            1 => (*name).to_owned(),
            _ => format!("{name} x{arrivals}"),
        };
        let shown = || listed(names.iter().map(name), most, names.len());
        let arrived = (!names.is_empty()).then(|| format!("arrived: {}", shown()));
        let parts: Vec<String> = arrived.into_iter().chain(opened).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// Returns a row for each node, the arrivals, and the conclusion, fitted to a terminal of this width.
    pub(crate) fn shown_by_node(&self, found: &Inspection, columns: Option<u16>) -> String {
        let mut nodes = table(&["node", "arrivals", "count"], columns);
        let mut notes = Vec::new();
        for node in found.nodes() {
            let [arrived, count] = match (node.arrivals(), node.holder()) {
                (Some((arrived, count)), _) => [arrived.to_string(), count.to_string()],
                (None, Ok(_)) => ["0".to_owned(), "-".to_owned()],
                (None, Err(_)) => ["(unknown)".to_owned(), "-".to_owned()],
            };
            nodes.add_row([node.address().to_owned(), arrived, count]);
            let reason = node.holder().err().map(ToString::to_string);
            let reason = reason.or_else(|| node.abstention().map(ToString::to_string));
            notes.extend(reason.map(|reason| format!("{}: {reason}", node.address())));
        }
        notes.extend(self.names(usize::MAX));
        notes.push(self.to_string());
        let notes: Vec<String> = notes.iter().map(|note| wrapped(note, columns)).collect();
        format!("{}\n{}", nodes.trim_fmt(), notes.join("\n"))
    }
}

impl fmt::Display for LatchView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, arrivals) = (&self.name, self.arrivals());
        match (self.open, self.remaining_ms) {
            (true, _) => write!(f, "latch {name} is open: {arrivals}"),
            (false, None) => write!(f, "latch {name} is closed: {arrivals}"),
            (false, Some(left)) => {
                let left = coarse(Duration::from_secs_f64(left / 1e3));
                write!(f, "latch {name} is closed: {arrivals}, forgotten in {left} unless it is used")
            }
        }
    }
}

/// The output of `latch NAME show`.
#[derive(Debug, Serialize)]
pub(crate) struct LatchByNode {
    #[serde(flatten)]
    view: LatchView,
    nodes: Vec<LatchOnNode>,
    #[serde(skip)]
    found: Inspection,
}

/// The record of a latch on one node.
#[derive(Debug, Serialize)]
struct LatchOnNode {
    node: String,
    /// The number of arrivals; `None` without an answer.
    arrivals: Option<u32>,
    /// The number of arrivals that opens the latch; `None` without a record.
    count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The reason why the node would not vote now.
    #[serde(skip_serializing_if = "Option::is_none")]
    abstains: Option<String>,
}

impl LatchByNode {
    pub(crate) fn new(view: LatchView, found: Inspection) -> Self {
        let nodes = found.nodes().map(|node| {
            let error = node.holder().err().map(ToString::to_string);
            let recorded = node.arrivals();
            LatchOnNode {
                node: node.address().to_owned(),
                arrivals: recorded.map(|(arrivals, _)| arrivals).or_else(|| error.is_none().then_some(0)),
                count: recorded.map(|(_, count)| count),
                error,
                abstains: node.abstention().map(ToString::to_string),
            }
        });
        Self { nodes: nodes.collect(), view, found }
    }
}

impl fmt::Display for LatchByNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.view.shown_by_node(&self.found, width()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(count: u32, arrivals: u32, open: bool) -> LatchView {
        let arrived = (0..arrivals).map(|number| ArrivalView::new(format!("job {number}").as_bytes()));
        LatchView {
            arrivals: Some(arrivals),
            remaining_ms: Some(86_400_000.0),
            arrived: Some(arrived.collect()),
            ..LatchView::unknown(b"migration:42", Some(count), open)
        }
    }

    #[test]
    fn a_latch_is_shown_with_its_arrivals() {
        assert_eq!(
            view(5, 3, false).to_string(),
            "latch migration:42 is closed: 3 of 5 arrivals, forgotten in 24h unless it is used"
        );
        assert_eq!(view(1, 1, true).to_string(), "latch migration:42 is open: 1 of 1 arrival");
        let unknown = LatchView::unknown(b"x", None, false);
        assert_eq!(
            (unknown.to_string(), unknown.names(MAX_NAMED)),
            ("latch x is closed: unknown".to_owned(), None)
        );
    }

    #[test]
    fn missing_arrivals_are_counted_only_if_the_latch_is_closed() {
        let missing = [view(5, 3, false), view(5, 3, true), LatchView::unknown(b"x", Some(5), false)];
        assert_eq!(missing.map(|view| view.missing()), [2, 0, 0]);
    }

    #[test]
    fn the_names_of_many_arrivals_are_bounded() {
        let names = view(64, 20, false).names(MAX_NAMED).unwrap();
        assert!(names.starts_with("arrived: job 0, job 1, "), "{names}");
        assert!(names.ends_with("job 15 and 4 more"), "{names}");
        let arrival = |number| {
            ArrivalView::new(format!("web-1:7/5f0c1f1e-4f0f-4b6f-8d55-0e2b7a3f8d10:3+{number}").as_bytes())
        };
        let first = arrival(0);
        assert_eq!((first.label.as_deref(), &*first.name), (Some("web-1:7"), "web-1:7"));
        let mut opened = view(3, 1, true);
        opened.arrived.as_mut().unwrap().extend((0..3).map(arrival));
        assert_eq!(opened.names(MAX_NAMED).as_deref(), Some("arrived: job 0; opened by web-1:7"));
        opened.arrivals = Some(4);
        assert_eq!(opened.arrivals(), "4 of 3 arrivals (3 by open)");
        assert!(!ArrivalView::new(b"job+1").opened, "an id that a user has chosen");
    }

    #[test]
    fn arrivals_that_an_inspection_does_not_name_are_said_to_be_unnamed() {
        let many = LatchView { arrived: None, arrivals_may_be_more: true, ..view(100, 40, false) };
        let names = "arrived: more than 32: `redquorum latch NAME show` names them";
        assert_eq!(many.names(MAX_NAMED).as_deref(), Some(names));
        assert_eq!(
            (many.arrivals(), many.cell()),
            ("at least 40 of 100 arrivals".into(), "40+ of 100".into())
        );
        let shown = serde_json::to_value(&many).unwrap();
        assert_eq!(
            (&shown["arrived"], &shown["arrivals_may_be_more"]),
            (&serde_json::Value::Null, &true.into())
        );
        let ids: Vec<Vec<u8>> = (0..41).map(|number| format!("job {number}").into_bytes()).collect();
        let all = many.with_arrivals(&ids);
        assert_eq!(all.arrivals(), "41 of 100 arrivals");
        assert!(all.names(usize::MAX).unwrap().ends_with(", job 40"), "{:?}", all.names(usize::MAX));
    }
}
