//! One lock, as a line of a table and as JSON.

use std::time::Duration;

use redquorum::{
    LeaseId,
    inspection::{Inspection, Listing, LockName, LockState},
};
use serde::Serialize;

use crate::{
    counted::counted,
    duration,
    lock_view::{LockView, short},
};

/// One lock, of which a node at least knows.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// What it is a lock of, as JSON has it.
    kind: &'static str,
    /// As `inspect` prints it.
    #[serde(flatten)]
    view: LockView,
    /// The last token, or more after attempts that failed.
    counter: Option<u64>,
    pub(crate) waiters: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_waiter: Option<String>,
    /// How many nodes say what the quorum says.
    agreeing: usize,
    /// Those that say otherwise.
    differing: Vec<String>,
    #[serde(skip)]
    pub(crate) name: String,
    /// Of which it is a slot.
    #[serde(skip)]
    pub(crate) semaphore: Option<Vec<u8>>,
    /// How long it is held yet; `None` without an end, or where no quorum has it.
    #[serde(skip)]
    pub(crate) left: Option<Duration>,
    #[serde(skip)]
    pub(crate) cells: Cells,
}

/// What stands in its line.
#[derive(Clone, Debug)]
pub(crate) struct Cells {
    pub(crate) state: &'static str,
    /// With the owner whole, for lines that are not fitted to a terminal.
    pub(crate) whole_owner: String,
    pub(crate) owner: String,
    pub(crate) left: String,
    pub(crate) waiters: String,
    /// With who is the first of them.
    pub(crate) queue: String,
    /// How many nodes of all have it.
    pub(crate) nodes: String,
    pub(crate) differing: String,
}

/// A row for each lock, in the order of the names.
pub(crate) fn of_listing(listing: &Listing) -> Vec<Row> {
    listing.locks().map(|(lock, found)| Row::new(lock, found)).collect()
}

impl Row {
    #[cfg(test)]
    pub(crate) fn sample(name: &str, left: Duration, waiters: u32, cells: Cells) -> Self {
        Self {
            kind: "resource",
            view: LockView::sample(),
            counter: None,
            waiters,
            first_waiter: None,
            agreeing: 5,
            differing: Vec::new(),
            name: name.to_owned(),
            semaphore: None,
            left: Some(left),
            cells,
        }
    }

    pub(crate) fn new(lock: &LockName, found: &Inspection) -> Self {
        let resource = lock.name().as_bytes();
        let (kind, view) = match lock {
            LockName::Slot { slot, .. } => ("slot", LockView::of_slot(resource, *slot, found)),
            LockName::MultiPermit { .. } => ("turn", LockView::new(resource, found)),
            LockName::ReleaseWatcher { .. } => ("look-out", LockView::new(resource, found)),
            _ => ("resource", LockView::new(resource, found)),
        };
        let state = found.state();
        let is_held = matches!(state, LockState::Held | LockState::Shared);
        let left = found.remaining().filter(|left| is_held && *left < Duration::MAX);
        let differing: Vec<String> = found.differing().map(|node| node.address().to_owned()).collect();
        let having = if is_held { found.agreeing() } else { differing.len() };
        let shown = match state {
            LockState::Held => "held",
            LockState::Shared => "shared",
            LockState::Free => "no quorum",
            _ => "unclear",
        };
        let no_end = if is_held { "no end" } else { "-" };
        let cells = Cells {
            state: shown,
            whole_owner: whose(found, |owner| owner.to_string()),
            owner: whose(found, called),
            left: left.map_or_else(|| no_end.to_owned(), duration::shown),
            waiters: found.waiters().to_string(),
            queue: match found.first_waiter() {
                Some(first) => format!("{}: {}", found.waiters(), called(first)),
                None => found.waiters().to_string(),
            },
            nodes: format!("{having}/{}", found.nodes().count()),
            differing: if differing.is_empty() { "-".to_owned() } else { differing.join(",") },
        };
        Self {
            kind,
            view,
            counter: found.counter(),
            waiters: found.waiters(),
            first_waiter: found.first_waiter().map(ToString::to_string),
            agreeing: found.agreeing(),
            differing,
            name: lock.to_string(),
            semaphore: matches!(lock, LockName::Slot { .. }).then(|| resource.to_vec()),
            left,
            cells,
        }
    }
}

/// What its client calls itself, or enough of it to tell it from others.
fn called(owner: &LeaseId) -> String {
    owner.label().map_or_else(|| short(&owner.to_string()).into_owned(), str::to_owned)
}

/// Who has it: the owner, with the number of holds where there are several, or the readers. Where no
/// quorum names one, the owner of the first node that does.
fn whose(found: &Inspection, named: impl Fn(&LeaseId) -> String) -> String {
    let (owner, holds) = match found.state() {
        LockState::Held | LockState::Shared => (found.holder(), found.holds()),
        _ => match found.nodes().find(|node| node.is_held()) {
            Some(node) => (node.holder().ok().flatten(), node.holds()),
            None => (None, 0),
        },
    };
    if owner.is_some_and(LeaseId::is_of_readers) {
        let readers: Vec<String> = found.readers().map(named).collect();
        let count = counted(holds as usize, "reader");
        return if readers.is_empty() { count } else { format!("{count}: {}", readers.join(", ")) };
    }
    let owner = owner.map_or_else(|| "(another kind)".to_owned(), named);
    if holds > 1 { format!("{owner} x{holds}") } else { owner }
}
