//! The result of an inspection of one resource, as text and as JSON. `inspect` and `force-unlock` print this view,
//! `list` adds fields to its JSON, and errors quote its conclusion.

use std::{borrow::Cow, fmt};

use redquorum::{
    __command::is_reader,
    LeaseId,
    inspection::{Inspection, LockState, NodeInspection},
};
use serde::Serialize;

use crate::{
    at_least::AtLeast,
    counted::{counted, listed},
    duration::{milliseconds, shown},
    latch_view::{LatchView, MAX_NAMED},
    name,
    table::{table, width, wrapped},
    waiters::Waiters,
};

/// The largest number of waiters that a text names.
const MAX_WAITERS_NAMED: usize = 16;

/// An inspected resource: each node's answer, and the quorum's conclusion.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LockView {
    /// The resource, or the semaphore of a slot; `None` if this name is not UTF-8.
    resource: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_hex: Option<String>,
    /// The bytes of the resource.
    #[serde(skip)]
    bytes: Vec<u8>,
    /// The slot, if this is the view of a slot of a semaphore.
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<usize>,
    /// Whether the lock is the multi-permit lock of the semaphore.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    multi_permit: bool,
    /// The name of the lock in texts, such as `slot 2 of gpu`.
    #[serde(skip)]
    name: String,
    state: ShownState,
    /// The number of nodes that have to agree.
    needed: usize,
    #[serde(flatten)]
    holder: Option<Holder>,
    /// The readers that a quorum names, if readers share the resource.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    readers: Vec<String>,
    /// Whether the holder leads an election. The waiters are then the other candidates.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    election: bool,
    #[serde(flatten)]
    waiters: Waiters,
    /// The first waiters, in the order of the queue.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    queue: Vec<WaiterView>,
    /// The latch of the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    latch: Option<LatchView>,
    nodes: Vec<NodeLockView>,
}

/// A waiter in the queue of a resource.
#[derive(Clone, Debug, Serialize)]
struct WaiterView {
    /// The lease id under which the client waits.
    waiter: String,
    /// The label of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    /// Whether the waiter is a reader.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    shared: bool,
}

/// The printed form of [`LockState`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum ShownState {
    Held,
    Shared,
    Free,
    Unclear,
}

/// The holder of a resource, by a quorum or on one node.
#[derive(Clone, Debug, Serialize)]
struct Holder {
    /// The lease id; `None` for a key of another program.
    owner: Option<String>,
    /// The label of the owner's client.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    holds: u32,
    /// The remaining ttl; `None` without an end.
    remaining_ms: Option<f64>,
    /// Whether the owner is a ticket, which no client renews.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ticket: bool,
}

/// The answer of one node.
#[derive(Clone, Debug, Serialize)]
struct NodeLockView {
    node: String,
    state: NodeState,
    #[serde(flatten)]
    holder: Option<Holder>,
    /// Whether readers share the resource. In this case, one lease id on the node stands for all readers.
    #[serde(skip)]
    is_shared: bool,
    counter: Option<u64>,
    latency_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The reason why the node would not vote now.
    #[serde(skip_serializing_if = "Option::is_none")]
    abstains: Option<String>,
}

/// The state of the resource on one node; unknown without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum NodeState {
    Held,
    Free,
    Unknown,
}

impl LockView {
    pub(crate) fn new(resource: &[u8], found: &Inspection) -> Self {
        let state = match found.state() {
            LockState::Held => ShownState::Held,
            LockState::Shared => ShownState::Shared,
            LockState::Free => ShownState::Free,
            _ => ShownState::Unclear,
        };
        let holder = || Holder {
            owner: found.holder().map(ToString::to_string),
            label: found.holder().and_then(LeaseId::label).map(str::to_owned),
            holds: found.holds(),
            // A hold without an end has the largest duration.
            remaining_ms: found.remaining().filter(|rest| rest.as_secs() < u64::MAX).map(milliseconds),
            ticket: found.holder().is_some_and(LeaseId::is_of_ticket),
        };
        let (text, hex) = name::text_or_hex(resource);
        Self {
            resource: text,
            resource_hex: hex,
            bytes: resource.to_vec(),
            slot: None,
            multi_permit: false,
            name: name::shown(resource),
            state,
            needed: found.needed(),
            holder: matches!(state, ShownState::Held | ShownState::Shared).then(holder),
            readers: found.readers().map(ToString::to_string).collect(),
            election: found.is_led(),
            waiters: Waiters::of(found),
            queue: found.queue().map(WaiterView::new).collect(),
            latch: found.latch().map(|latch| LatchView::new(resource, &latch)),
            nodes: found.nodes().map(NodeLockView::new).collect(),
        }
    }

    /// Returns the view of a slot of a semaphore.
    pub(crate) fn of_slot(semaphore: &[u8], slot: usize, found: &Inspection) -> Self {
        let view = Self::new(semaphore, found);
        let name = format!("slot {slot} of {}", view.name);
        Self { slot: Some(slot), name, ..view }
    }

    /// Returns the view of the lock by which clients that acquire several permits of a semaphore take turns.
    pub(crate) fn of_multi_permit(semaphore: &[u8], found: &Inspection) -> Self {
        let view = Self::new(semaphore, found);
        let name = format!("multi-permit lock of {}", view.name);
        Self { multi_permit: true, name, ..view }
    }

    /// Whether every node answered that the resource is free.
    pub(crate) fn is_free_everywhere(&self) -> bool {
        self.nodes.iter().all(|node| node.state == NodeState::Free)
    }

    /// Whether no lease has a quorum, and no lease can have one.
    pub(crate) fn is_free(&self) -> bool {
        self.state == ShownState::Free
    }

    /// Returns the reasons of nodes that did not answer, or would not vote, by node.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = (&str, &str)> {
        self.nodes.iter().filter_map(|node| {
            let reason = node.error.as_ref().or(node.abstains.as_ref())?;
            Some((&*node.node, &**reason))
        })
    }

    /// Whether any node that answered names a holder.
    pub(crate) fn is_held_anywhere(&self) -> bool {
        self.nodes.iter().any(|node| node.state == NodeState::Held)
    }

    /// Whether a quorum names the holder.
    pub(crate) fn has_holder(&self) -> bool {
        self.holder.is_some()
    }

    /// Returns the answer of each node in one line.
    pub(crate) fn answers(&self) -> Vec<String> {
        self.nodes.iter().map(NodeLockView::answer).collect()
    }

    /// Whether each holder of this view, by the quorum and on each node, is also in the earlier view `shown`. The
    /// result is true if the resource was unlocked meanwhile, because this view then has no holder.
    pub(crate) fn has_no_other_holder_than(&self, shown: &Self) -> bool {
        let owner = |holder: &Holder| holder.owner.clone();
        let is_shown_on_a_node = |now: &NodeLockView| {
            now.holder.is_none()
                || shown
                    .nodes
                    .iter()
                    .any(|was| was.holder.as_ref().map(owner) == now.holder.as_ref().map(owner))
        };
        let is_shown_by_quorum =
            self.holder.is_none() || self.holder.as_ref().map(owner) == shown.holder.as_ref().map(owner);
        is_shown_by_quorum && self.nodes.iter().all(is_shown_on_a_node)
    }

    /// Returns a row for each node, the errors and abstentions of nodes, and the conclusion. The lines are fitted to a
    /// terminal of this width, or left whole without a width.
    pub(crate) fn shown(&self, width: Option<u16>) -> String {
        let mut table = table(&["node", "owner", "holds", "remaining", "counter", "latency"], width);
        let mut notes = Vec::new();
        for node in &self.nodes {
            table.add_row(node.row(width.is_some()));
        }
        notes.extend(self.reasons().map(|(node, reason)| format!("{node}: {reason}")));
        notes.extend(self.waiting(width.is_some()));
        let latch = |latch: &LatchView| latch.names(MAX_NAMED).into_iter().chain([latch.to_string()]);
        notes.extend(self.latch.iter().flat_map(latch));
        notes.push(self.conclusion());
        let notes: Vec<String> = notes.iter().map(|note| wrapped(note, width)).collect();
        format!("{}\n{}", table.trim_fmt(), notes.join("\n"))
    }

    /// Returns the waiters in the order of the queue, by their labels if `is_short`; `None` without waiters.
    fn waiting(&self, is_short: bool) -> Option<String> {
        let waiting = self.waiters.count();
        let noun = if self.election { "candidate" } else { "waiter" };
        let names = self.queue.iter().map(|waiter| waiter.name(is_short));
        let names = || listed(names, MAX_WAITERS_NAMED, waiting.number);
        (waiting.number > 0).then(|| format!("{}: {}", waiting.counted(noun), names()))
    }

    /// Returns the command that ends the lock without its holder. The command is not wrapped, so that
    /// it can be copied.
    fn force_unlock_advice(&self, width: Option<u16>) -> Option<String> {
        self.holder.as_ref()?;
        let kind = match self.slot {
            Some(slot) => format!("--slot {slot} "),
            None if self.multi_permit => "--multi-permit ".to_owned(),
            None => String::new(),
        };
        Some(advice(&kind, &self.bytes, "it", width))
    }

    /// Returns the number of waiters of these slots of a semaphore together.
    pub(crate) fn waiters_of_any<'a>(slots: impl IntoIterator<Item = &'a Self>) -> AtLeast {
        let mut waiters = Waiters::default();
        slots.into_iter().for_each(|view| waiters.add(&view.waiters));
        waiters.count()
    }

    /// Returns the command that ends a slot of a semaphore without its holder: the whole command if only one of these
    /// slots is held, and `None` if no slot is held.
    pub(crate) fn slot_advice<'a>(
        slots: impl IntoIterator<Item = &'a Self>,
        width: Option<u16>,
    ) -> Option<String> {
        let mut held = slots.into_iter().filter(|view| view.has_holder());
        let first = held.next()?;
        match held.next() {
            Some(_) => Some(advice("--slot SLOT ", &first.bytes, "a slot", width)),
            None => first.force_unlock_advice(width),
        }
    }

    /// Returns the quorum's conclusion in one line.
    pub(crate) fn conclusion(&self) -> String {
        let (resource, nodes, needed) = (&self.name, self.nodes.len(), self.needed);
        let held = self.nodes.iter().filter(|node| node.state == NodeState::Held).count();
        match (self.state, &self.holder) {
            (ShownState::Held, Some(holder)) if self.election => format!("{resource} is led by {holder}"),
            (ShownState::Held, Some(holder)) => format!("{resource} is held by {holder}"),
            (ShownState::Shared, Some(Holder { holds, remaining_ms, .. })) => {
                let count = counted(*holds as usize, "reader");
                let named = if self.readers.is_empty() { "" } else { ": " };
                let (readers, end) = (self.readers.join(", "), Remaining(*remaining_ms));
                format!("{resource} is shared by {count}{named}{readers}{end}")
            }
            (ShownState::Held | ShownState::Shared, None) => format!("{resource} is held"),
            (ShownState::Free, _) if held == 0 => format!("{resource} is free"),
            (ShownState::Free, _) => format!(
                "{resource} is free: {held} of {nodes} nodes have a holder, but no holder has {needed} nodes"
            ),
            (ShownState::Unclear, _) => format!(
                "{resource} is unclear: the state depends on nodes that did not answer, or may have lost a vote, \
                 so do not assume that the lock is free"
            ),
        }
    }
}

impl WaiterView {
    fn new(waiter: &LeaseId) -> Self {
        let label = waiter.label().map(str::to_owned);
        Self { waiter: waiter.to_string(), label, shared: is_reader(waiter) }
    }

    /// Returns the lease id, or the label or the shortened lease id if `is_short`.
    fn name(&self, is_short: bool) -> Cow<'_, str> {
        match &self.label {
            _ if !is_short => self.waiter.as_str().into(),
            Some(label) => label.as_str().into(),
            None => short(&self.waiter),
        }
    }
}

impl NodeLockView {
    fn new(answer: &NodeInspection) -> Self {
        let (state, holder, error) = match answer.holder() {
            Ok(owner) if answer.is_held() => {
                let holder = Holder {
                    owner: owner.map(ToString::to_string),
                    label: owner.and_then(LeaseId::label).map(str::to_owned),
                    holds: answer.holds(),
                    remaining_ms: answer.remaining().map(milliseconds),
                    ticket: owner.is_some_and(LeaseId::is_of_ticket),
                };
                (NodeState::Held, Some(holder), None)
            }
            Ok(_) => (NodeState::Free, None, None),
            Err(error) => (NodeState::Unknown, None, Some(error.to_string())),
        };
        let is_shared = matches!(answer.holder(), Ok(Some(owner)) if owner.is_of_readers());
        Self {
            node: answer.address().to_owned(),
            state,
            holder,
            is_shared,
            counter: answer.counter(),
            latency_ms: answer.latency().map(milliseconds),
            error,
            abstains: answer.abstention().map(ToString::to_string),
        }
    }

    fn answer(&self) -> String {
        let answer = match (&self.holder, &self.error, &self.abstains) {
            (Some(holder), ..) => {
                let by = match &holder.owner {
                    _ if self.is_shared => "readers",
                    Some(owner) => owner,
                    None => "a lock of another kind",
                };
                let end = holder.remaining_ms.map(|left| format!("for {}", from_milliseconds(left)));
                format!("held by {by} {}", end.as_deref().unwrap_or("without an end"))
            }
            (None, Some(error), _) => error.clone(),
            (None, None, Some(abstention)) => abstention.clone(),
            (None, None, None) => "free".to_owned(),
        };
        format!("{}: {answer}", self.node)
    }

    fn row(&self, is_short: bool) -> [Cow<'_, str>; 6] {
        let nothing = Cow::Borrowed("-");
        let owner = match (&self.holder, self.state) {
            _ if self.is_shared => "(readers)".into(),
            (Some(Holder { owner: Some(owner), label, .. }), _) if is_short => {
                label.as_deref().map_or_else(|| short(owner), short_label)
            }
            (Some(holder), _) => holder.owner.as_deref().unwrap_or("(another kind)").into(),
            (None, NodeState::Unknown) => "(unknown)".into(),
            (None, _) => "(free)".into(),
        };
        [
            self.node.as_str().into(),
            owner,
            self.holder.as_ref().map_or_else(|| nothing.clone(), |holder| holder.holds.to_string().into()),
            self.holder.as_ref().map_or_else(|| nothing.clone(), |holder| holder.remaining().into()),
            self.counter.map_or_else(|| nothing.clone(), |counter| counter.to_string().into()),
            self.latency_ms.map_or(nothing, |latency| from_milliseconds(latency).into()),
        ]
    }
}

impl Holder {
    fn remaining(&self) -> String {
        self.remaining_ms.map_or_else(|| "no end".to_owned(), from_milliseconds)
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.owner.as_deref().unwrap_or("a lock of another kind"))?;
        if self.holds > 1 {
            write!(f, ", {} times", self.holds)?;
        }
        match self.remaining_ms.filter(|_| self.ticket) {
            Some(left) => write!(f, ", a ticket, {} left", from_milliseconds(left)),
            None => Remaining(self.remaining_ms).fmt(f),
        }
    }
}

/// The remaining ttl in milliseconds; `None` without an end.
struct Remaining(Option<f64>);

impl fmt::Display for Remaining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(remaining) => write!(f, ", for {} unless it is renewed", from_milliseconds(remaining)),
            None => f.write_str(", without an end"),
        }
    }
}

impl fmt::Display for LockView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = width();
        f.write_str(&self.shown(width))?;
        // Only a terminal shows the advice. Programs can rely on the conclusion as the last line.
        match self.force_unlock_advice(width).filter(|_| width.is_some()) {
            Some(advice) => write!(f, "\n{advice}"),
            None => Ok(()),
        }
    }
}

/// Shortens an owner for a row of a terminal. The beginning and the number at the end stay, so that owners stay
/// distinguishable.
pub(crate) fn short(owner: &str) -> Cow<'_, str> {
    const WHOLE: usize = 16;
    const BEGINNING: usize = 8;
    if owner.chars().count() <= WHOLE {
        return owner.into();
    }
    let beginning: String = owner.chars().take(BEGINNING).collect();
    let number = owner.rfind(':').and_then(|colon| owner.get(colon..)).unwrap_or_default();
    let number: String = number.chars().take(BEGINNING).collect();
    format!("{beginning}…{number}").into()
}

/// Shortens the label of a client for a row of a terminal. The end stays, because generated host names differ there.
fn short_label(label: &str) -> Cow<'_, str> {
    const WHOLE: usize = 17;
    if label.chars().count() <= WHOLE {
        return label.into();
    }
    let beginning = label.chars().count() - (WHOLE - 1);
    format!("…{}", label.chars().skip(beginning).collect::<String>()).into()
}

/// Returns the command that ends a lock without its holder, with the reason to use the command.
fn advice(options: &str, name: &[u8], ended: &str, width: Option<u16>) -> String {
    let name = name::shell_argument(name);
    let reason = "a key that is deleted by hand comes back with the next renewal";
    format!("`redquorum force-unlock {options}{name}` ends {ended};\n{}", wrapped(reason, width))
}

fn from_milliseconds(milliseconds: f64) -> String {
    let duration = std::time::Duration::try_from_secs_f64(milliseconds / 1e3);
    duration.map_or_else(|_| "-".to_owned(), shown)
}

#[cfg(test)]
mod tests;
