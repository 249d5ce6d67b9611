//! A lock or latch in the output of `list` and `top`: as a row of a table, and as JSON.

use std::time::Duration;

use redquorum::{
    LeaseId, Resource,
    inspection::{Inspection, LatchInspection, Listing, LockName, LockState},
};
use serde::Serialize;

use crate::{
    at_least::AtLeast,
    counted::{counted, listed},
    duration,
    latch_view::LatchView,
    lock_view::{LockView, short},
    name,
    wait_cycles::WaitCycle,
    waiters::Waiters,
};

/// The largest number of waiters in a row.
const MAX_WAITERS_NAMED: usize = 4;

/// The kind of a lock, as in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum LockKind {
    /// The lock of a resource that a program named.
    Resource,
    /// A slot of a semaphore.
    Slot,
    /// The lock under which a client acquires several permits of a semaphore.
    MultiPermit,
    /// The lock of the release watcher of a semaphore or of a set of candidates.
    ReleaseWatcher,
}

/// A lock that at least one node has listed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    kind: LockKind,
    /// Whether the lock is a part of a cycle of clients that wait for each other.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    in_cycle: bool,
    /// The fields that `inspect` prints, too.
    #[serde(flatten)]
    pub(crate) view: LockView,
    /// The fencing counter: the token of the last lease, or a larger number after failed attempts.
    counter: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_waiter: Option<String>,
    /// The number of nodes that agree with the quorum.
    agreeing: usize,
    /// The nodes that differ from the quorum.
    differing: Vec<String>,
    #[serde(skip)]
    pub(crate) table_row: TableRow,
}

/// A row of the table, with the figures that `top` sorts and counts by.
#[derive(Clone, Debug)]
pub(crate) struct TableRow {
    pub(crate) name: String,
    pub(crate) is_latch: bool,
    /// Whether the lock is that of a release watcher, whose waiters also wait for a permit.
    pub(crate) is_release_watcher: bool,
    /// The semaphore, if the row is a slot.
    pub(crate) semaphore: Option<Vec<u8>>,
    /// The remaining ttl; `None` for a row without a ttl, or without a quorum.
    pub(crate) left: Option<Duration>,
    pub(crate) waiters: Waiters,
    pub(crate) cells: Cells,
}

/// The texts of a row.
#[derive(Clone, Debug)]
pub(crate) struct Cells {
    pub(crate) state: &'static str,
    /// The owner with the whole lease id, for lines that are not fitted to a terminal.
    pub(crate) whole_owner: String,
    pub(crate) owner: String,
    pub(crate) left: String,
    pub(crate) waiters: String,
    /// The number of waiters with the first waiters.
    pub(crate) queue: String,
    /// The number of nodes that have the lock, and the number of all nodes.
    pub(crate) nodes: String,
    pub(crate) differing: String,
}

/// Returns a row for each lock, in the order of the names. Locks that are a part of a cycle are marked.
pub(crate) fn of_listing(listing: &Listing, cycles: &[WaitCycle]) -> Vec<Row> {
    let row = |(lock, found): (&LockName, &Inspection)| {
        let mut row = Row::new(lock, found);
        if cycles.iter().any(|cycle| cycle.has(lock)) {
            row.mark();
        }
        row
    };
    listing.locks().map(row).collect()
}

/// A latch in the table of `list`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LatchRow {
    #[serde(flatten)]
    view: LatchView,
    /// The number of nodes that have a record of the latch.
    nodes: usize,
    #[serde(skip)]
    pub(crate) table_row: TableRow,
}

/// Returns a row for each latch, in the order of the names.
pub(crate) fn latches_of_listing(listing: &Listing) -> Vec<LatchRow> {
    listing.latches().map(|(name, found)| LatchRow::new(name, found)).collect()
}

impl LatchRow {
    fn new(name: &Resource, found: &Inspection) -> Self {
        let name = name.as_bytes();
        let latch = found.latch();
        let view = match &latch {
            Some(latch) => LatchView::new(name, latch),
            // The nodes with a record did not answer the inspection.
            None => LatchView::unknown(name, None, false),
        };
        let nodes = latch.as_ref().map_or(0, |latch| latch.nodes());
        let state = match &latch {
            Some(latch) if latch.is_open() => "open",
            Some(_) => "closed",
            None => "unclear",
        };
        let left = latch.as_ref().map(LatchInspection::remaining);
        let cells = Cells {
            state,
            whole_owner: view.cell(),
            owner: view.cell(),
            left: left.map_or_else(|| "-".to_owned(), duration::coarse),
            waiters: "-".to_owned(),
            queue: "-".to_owned(),
            nodes: format!("{nodes}/{}", found.nodes().count()),
            differing: "-".to_owned(),
        };
        let name = format!("latch {}", name::shown(name));
        let table_row = TableRow {
            name,
            is_latch: true,
            is_release_watcher: false,
            semaphore: None,
            left,
            waiters: Waiters::default(),
            cells,
        };
        Self { view, nodes, table_row }
    }
}

impl Row {
    /// Returns the row of a slot of a semaphore, which may be free.
    pub(crate) fn of_slot(semaphore: &[u8], slot: usize, found: &Inspection) -> Self {
        let view = LockView::of_slot(semaphore, slot, found);
        let name = format!("slot {slot} of {}", name::shown(semaphore));
        Self::with((LockKind::Slot, view), name, Some(semaphore), found)
    }

    pub(crate) fn new(lock: &LockName, found: &Inspection) -> Self {
        let resource = lock.name().as_bytes();
        let kind_and_view = match lock {
            LockName::Slot { slot, .. } => (LockKind::Slot, LockView::of_slot(resource, *slot, found)),
            LockName::MultiPermit { .. } => {
                (LockKind::MultiPermit, LockView::of_multi_permit(resource, found))
            }
            LockName::ReleaseWatcher { .. } => (LockKind::ReleaseWatcher, LockView::new(resource, found)),
            _ => (LockKind::Resource, LockView::new(resource, found)),
        };
        let semaphore = matches!(lock, LockName::Slot { .. }).then_some(resource);
        Self::with(kind_and_view, lock.to_string(), semaphore, found)
    }

    /// Marks the lock as a part of a cycle of clients that wait for each other.
    fn mark(&mut self) {
        self.in_cycle = true;
        let state = &mut self.table_row.cells.state;
        *state = match *state {
            "held" => "held*",
            "led" => "led*",
            "shared" => "shared*",
            state => state,
        };
    }

    fn with(
        (kind, view): (LockKind, LockView),
        name: String,
        semaphore: Option<&[u8]>,
        found: &Inspection,
    ) -> Self {
        let state = found.state();
        let is_free = view.is_free() && !view.is_held_anywhere();
        let is_held = matches!(state, LockState::Held | LockState::Shared);
        let left = found.remaining().filter(|left| is_held && *left < Duration::MAX);
        let differing: Vec<String> = found.differing().map(|node| node.address().to_owned()).collect();
        let nodes_with_lock = if is_held { found.agreeing() } else { differing.len() };
        let shown_state = match state {
            LockState::Held if found.is_led() => "led",
            LockState::Held => "held",
            LockState::Shared => "shared",
            LockState::Free if is_free => "free",
            LockState::Free => "no quorum",
            _ => "unclear",
        };
        let waiters = Waiters::of(found);
        let no_end = if is_held { "no end" } else { "-" };
        let cells = Cells {
            state: shown_state,
            whole_owner: if is_free { "-".to_owned() } else { owner_of(found, |owner| owner.to_string()) },
            owner: if is_free { "-".to_owned() } else { owner_of(found, short_name) },
            left: left.map_or_else(|| no_end.to_owned(), duration::shown),
            waiters: waiters.count().to_string(),
            queue: queue_of(found, waiters.count()),
            nodes: format!("{nodes_with_lock}/{}", found.nodes().count()),
            differing: if differing.is_empty() { "-".to_owned() } else { differing.join(",") },
        };
        let semaphore = semaphore.map(<[u8]>::to_vec);
        let is_release_watcher = kind == LockKind::ReleaseWatcher;
        let table_row =
            TableRow { name, is_latch: false, is_release_watcher, semaphore, left, waiters, cells };
        Self {
            kind,
            in_cycle: false,
            view,
            counter: found.counter(),
            first_waiter: found.first_waiter().map(ToString::to_string),
            agreeing: found.agreeing(),
            differing,
            table_row,
        }
    }
}

/// Returns the number of waiters, and the first waiters in the order of the queue.
fn queue_of(found: &Inspection, waiters: AtLeast) -> String {
    let names = listed(found.queue().map(short_name), MAX_WAITERS_NAMED, waiters.number);
    if names.is_empty() { waiters.to_string() } else { format!("{waiters}: {names}") }
}

/// Returns the label of an owner's client, or the shortened owner. A ticket has no client.
fn short_name(owner: &LeaseId) -> String {
    if owner.is_of_ticket() {
        return "a ticket".to_owned();
    }
    owner.label().map_or_else(|| short(&owner.to_string()).into_owned(), str::to_owned)
}

/// Returns the text for the owner: the holder, with the number of holds if there are several, or the readers. If no
/// quorum names a holder, returns the holder on the first node that has a holder. If no node that answered has a
/// holder, the owner is unknown.
fn owner_of(found: &Inspection, named: impl Fn(&LeaseId) -> String) -> String {
    let (owner, holds) = match found.state() {
        LockState::Held | LockState::Shared => (found.holder(), found.holds()),
        _ => match found.nodes().find(|node| node.is_held()) {
            Some(node) => (node.holder().ok().flatten(), node.holds()),
            None => return "(unknown)".to_owned(),
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
