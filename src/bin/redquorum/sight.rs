//! Who holds a resource, as it is shown.

use std::{borrow::Cow, fmt};

use redquorum::{Inspection, LockState, NodeInspection, Seen};
use serde::Serialize;

use crate::{
    duration::{milliseconds, shown},
    table::table,
};

/// Who holds a resource: each node's answer, and the quorum's verdict.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sight {
    resource: String,
    state: State,
    /// How many nodes have to agree.
    needed: usize,
    #[serde(flatten)]
    holder: Option<Holder>,
    nodes: Vec<NodeSight>,
}

/// [`LockState`], as it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Held,
    Free,
    Unclear,
}

#[derive(Clone, Debug, Serialize)]
struct Holder {
    /// `None`: a lock of another kind.
    owner: Option<String>,
    holds: u32,
    /// `None`: without an end.
    remaining_ms: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct NodeSight {
    node: String,
    state: NodeState,
    #[serde(flatten)]
    holder: Option<Holder>,
    counter: Option<u64>,
    latency_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum NodeState {
    Held,
    Free,
    Unknown,
}

impl Sight {
    pub(crate) fn new(resource: &[u8], found: &Inspection) -> Self {
        let state = match found.state() {
            LockState::Held => State::Held,
            LockState::Free => State::Free,
            _ => State::Unclear,
        };
        let holder = || Holder {
            owner: found.owner().map(ToString::to_string),
            holds: found.hold_count(),
            // What never ends is told by the largest of durations.
            remaining_ms: found.remaining_ttl().filter(|rest| rest.as_secs() < u64::MAX).map(milliseconds),
        };
        Self {
            resource: String::from_utf8_lossy(resource).into_owned(),
            state,
            needed: found.needed(),
            holder: (state == State::Held).then(holder),
            nodes: found.answers().map(NodeSight::new).collect(),
        }
    }

    /// Whether every node has said that nobody holds it.
    pub(crate) fn is_free_everywhere(&self) -> bool {
        self.nodes.iter().all(|node| node.state == NodeState::Free)
    }

    /// Whether whoever holds it, here or on any node, was shown to do so in an earlier sight. That it was given back meanwhile
    /// makes no difference.
    pub(crate) fn has_no_other_holder_than(&self, shown: &Self) -> bool {
        let owner = |holder: &Holder| holder.owner.clone();
        let was_on_a_node = |now: &NodeSight| {
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

    /// The quorum's verdict, in one line.
    pub(crate) fn verdict(&self) -> String {
        let (resource, nodes, needed) = (&self.resource, self.nodes.len(), self.needed);
        let held = self.nodes.iter().filter(|node| node.state == NodeState::Held).count();
        match (self.state, &self.holder) {
            (State::Held, Some(holder)) => format!("{resource} is held by {holder}"),
            (State::Held, None) => format!("{resource} is held"),
            (State::Free, _) if held == 0 => format!("{resource} is free"),
            (State::Free, _) => format!(
                "{resource} is free: {held} of {nodes} nodes have a holder, but no {needed} the same one"
            ),
            (State::Unclear, _) => format!(
                "{resource} is unclear: it depends on nodes that did not say, so do not take it for free"
            ),
        }
    }
}

impl NodeSight {
    fn new(answer: &NodeInspection) -> Self {
        let (state, holder, fault) = match answer.seen() {
            Seen::Held { owner, holds, remaining, .. } => {
                let owner = owner.as_ref().map(ToString::to_string);
                let holder = Holder { owner, holds: *holds, remaining_ms: remaining.map(milliseconds) };
                (NodeState::Held, Some(holder), None)
            }
            Seen::Free => (NodeState::Free, None, None),
            other => (NodeState::Unknown, None, Some(other.to_string())),
        };
        Self {
            node: answer.address().to_owned(),
            state,
            holder,
            counter: answer.counter(),
            latency_ms: answer.latency().map(milliseconds),
            fault,
        }
    }

    fn row(&self) -> [Cow<'_, str>; 6] {
        let nothing = Cow::Borrowed("-");
        let owner = match (&self.holder, &self.fault) {
            (Some(holder), _) => holder.owner.as_deref().unwrap_or("(a lock of another kind)").into(),
            (None, Some(fault)) => format!("({fault})").into(),
            (None, None) => "(free)".into(),
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
        match self.remaining_ms {
            Some(remaining) => write!(f, ", for {} unless it is renewed", from_milliseconds(remaining)),
            None => f.write_str(", without an end"),
        }
    }
}

impl fmt::Display for Sight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = table(&["node", "owner", "holds", "remaining", "counter", "latency"]);
        for node in &self.nodes {
            table.add_row(node.row());
        }
        writeln!(f, "{}", table.trim_fmt())?;
        f.write_str(&self.verdict())
    }
}

fn from_milliseconds(milliseconds: f64) -> String {
    let duration = std::time::Duration::try_from_secs_f64(milliseconds / 1e3);
    duration.map_or_else(|_| "-".to_owned(), shown)
}
