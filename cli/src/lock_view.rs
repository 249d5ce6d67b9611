//! Who holds a resource, as it is shown.

use std::{borrow::Cow, fmt};

use redquorum::{
    LeaseId,
    inspection::{Inspection, LockState, NodeInspection},
};
use serde::Serialize;

use crate::{
    counted::counted,
    duration::{milliseconds, shown},
    name,
    table::{table, width, wrapped},
};

/// Who holds a resource: each node's answer, and the quorum's conclusion.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LockView {
    /// `None`: it is not UTF-8.
    resource: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_hex: Option<String>,
    /// The resource itself.
    #[serde(skip)]
    bytes: Vec<u8>,
    /// Which slot of it, if it is a semaphore.
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<usize>,
    /// The resource as people read it.
    #[serde(skip)]
    name: String,
    state: ShownState,
    /// How many nodes have to agree.
    needed: usize,
    #[serde(flatten)]
    holder: Option<Holder>,
    /// Those who share it, as far as they are known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    readers: Vec<String>,
    nodes: Vec<NodeLockView>,
}

/// [`LockState`], as it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum ShownState {
    Held,
    Shared,
    Free,
    Unclear,
}

#[derive(Clone, Debug, Serialize)]
struct Holder {
    /// `None`: a lock of another kind.
    owner: Option<String>,
    /// What the owner's client calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    holds: u32,
    /// `None`: without an end.
    remaining_ms: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct NodeLockView {
    node: String,
    state: NodeState,
    #[serde(flatten)]
    holder: Option<Holder>,
    /// Whether readers share it, for whom one name stands.
    #[serde(skip)]
    is_shared: bool,
    counter: Option<u64>,
    latency_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Why it would not vote for a lock now.
    #[serde(skip_serializing_if = "Option::is_none")]
    abstains: Option<String>,
}

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
            // What never ends is told by the largest of durations.
            remaining_ms: found.remaining().filter(|rest| rest.as_secs() < u64::MAX).map(milliseconds),
        };
        let (text, hex) = name::told(resource);
        Self {
            resource: text,
            resource_hex: hex,
            bytes: resource.to_vec(),
            slot: None,
            name: name::shown(resource),
            state,
            needed: found.needed(),
            holder: matches!(state, ShownState::Held | ShownState::Shared).then(holder),
            readers: found.readers().map(ToString::to_string).collect(),
            nodes: found.nodes().map(NodeLockView::new).collect(),
        }
    }

    /// The same, of a slot of a semaphore.
    pub(crate) fn of_slot(semaphore: &[u8], slot: usize, found: &Inspection) -> Self {
        let view = Self::new(semaphore, found);
        let name = format!("slot {slot} of {}", view.name);
        Self { slot: Some(slot), name, ..view }
    }

    /// Whether every node has said that nobody holds it.
    pub(crate) fn is_free_everywhere(&self) -> bool {
        self.nodes.iter().all(|node| node.state == NodeState::Free)
    }

    /// The answer of each node, in one line.
    pub(crate) fn answers(&self) -> Vec<String> {
        self.nodes.iter().map(NodeLockView::answer).collect()
    }

    /// Whether a holder, here or on any node, was shown to do so in an earlier view. That it was
    /// given back meanwhile makes no difference.
    pub(crate) fn has_no_other_holder_than(&self, shown: &Self) -> bool {
        let owner = |holder: &Holder| holder.owner.clone();
        let was_on_a_node = |now: &NodeLockView| {
            now.holder.is_none()
                || shown
                    .nodes
                    .iter()
                    .any(|was| was.holder.as_ref().map(owner) == now.holder.as_ref().map(owner))
        };
        let is_of_the_same_quorum =
            self.holder.is_none() || self.holder.as_ref().map(owner) == shown.holder.as_ref().map(owner);
        is_of_the_same_quorum && self.nodes.iter().all(was_on_a_node)
    }

    /// A row for each node, what keeps nodes from voting, and the conclusion: for a terminal of
    /// this width, or as whole lines.
    pub(crate) fn shown(&self, width: Option<u16>) -> String {
        let mut table = table(&["node", "owner", "holds", "remaining", "counter", "latency"], width);
        let mut notes = Vec::new();
        for node in &self.nodes {
            table.add_row(node.row(width.is_some()));
            let why = node.error.as_ref().or(node.abstains.as_ref());
            notes.extend(why.map(|why| format!("{}: {why}", node.node)));
        }
        notes.push(self.conclusion());
        let notes: Vec<String> = notes.iter().map(|note| wrapped(note, width)).collect();
        format!("{}\n{}", table.trim_fmt(), notes.join("\n"))
    }

    /// What ends it though its holder does not, for somebody who looks at a lock that is in the way.
    /// The command is in one piece, however long, so that it can be copied.
    fn how_to_end(&self, width: Option<u16>) -> Option<String> {
        self.holder.as_ref()?;
        let slot = self.slot.map(|slot| format!("--slot {slot} ")).unwrap_or_default();
        let name = name::typed(&self.bytes);
        let why = "a key that is deleted by hand comes back with the next renewal";
        Some(format!("`redquorum force-unlock {slot}{name}` ends it;\n{}", wrapped(why, width)))
    }

    /// The quorum's conclusion, in one line.
    pub(crate) fn conclusion(&self) -> String {
        let (resource, nodes, needed) = (&self.name, self.nodes.len(), self.needed);
        let held = self.nodes.iter().filter(|node| node.state == NodeState::Held).count();
        match (self.state, &self.holder) {
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
                "{resource} is free: {held} of {nodes} nodes have a holder, but no {needed} the same one"
            ),
            (ShownState::Unclear, _) => format!(
                "{resource} is unclear: it depends on nodes that did not say, or may have forgotten, \
                 so do not take it for free"
            ),
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
                short(label.as_deref().unwrap_or(owner))
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
        Remaining(self.remaining_ms).fmt(f)
    }
}

/// How long it is held yet, in milliseconds; `None` for ever.
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
        // For people: a program that reads it ends with the conclusion.
        match self.how_to_end(width).filter(|_| width.is_some()) {
            Some(how) => write!(f, "\n{how}"),
            None => Ok(()),
        }
    }
}

/// An owner, or its client's label, in a row of a terminal: enough of it to tell one from another.
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

fn from_milliseconds(milliseconds: f64) -> String {
    let duration = std::time::Duration::try_from_secs_f64(milliseconds / 1e3);
    duration.map_or_else(|_| "-".to_owned(), shown)
}

#[cfg(test)]
mod tests;
