//! Who holds a resource, asked without changing anything.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use crate::{
    acquire::checked_request::CheckedRequest,
    client::{
        asking::{ask, hear_with_times},
        environment::Environment,
    },
    clock::Instant,
    error::LockError,
    lock::node_inspection::NodeInspection,
    node::{Answer, Inspection as Inspected},
    values::{NodeError, OwnerId, Refusal, Vote},
};

/// What the nodes say about a resource, from [`RedLock::inspect`](crate::RedLock::inspect): the
/// quorum's view, and each node's answer behind it.
///
/// It was so when the nodes answered; by the time it is read it may be otherwise. To act on it is
/// what a lock is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    nodes: Vec<NodeInspection>,
    needed: usize,
}

/// A resource as one node has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeHolder {
    /// Nobody holds it there.
    Free,
    /// Somebody holds it there.
    Held {
        /// Who: `redquorum:shared` for readers, `None` for a lock of some other kind.
        owner: Option<OwnerId>,
        /// How many holds, or readers.
        holds: u32,
        /// For how long, unless it is renewed; `None` for a key that somebody left without a ttl.
        remaining: Option<Duration>,
    },
    /// The node did not say.
    Unknown(NodeError),
}

/// The quorum's view of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockState {
    /// A quorum names the same owner.
    Held,
    /// A quorum has readers, who share it.
    Shared,
    /// Nobody has a quorum, even if all nodes that did not say, or may have forgotten, were on one
    /// side. Some nodes may be held all the same, by others whose attempts are under way.
    Free,
    /// It depends on the nodes that did not say, or are in quarantine, as they may have forgotten:
    /// with them, somebody may have a quorum. Not to be taken for free.
    Unclear,
}

impl Inspection {
    pub(crate) fn new(nodes: Vec<NodeInspection>, needed: usize) -> Self {
        Self { nodes, needed }
    }

    /// The quorum's view.
    #[must_use]
    pub fn state(&self) -> LockState {
        let silent = self.nodes.iter().filter(|node| node.may_be_held()).count();
        let most = self.seen().map(|seen| self.supporters(seen).count()).max().unwrap_or(0);
        if most >= self.needed {
            if self.owner().is_some_and(OwnerId::is_of_readers) { LockState::Shared } else { LockState::Held }
        } else if most + silent >= self.needed {
            LockState::Unclear
        } else {
            LockState::Free
        }
    }

    /// The owner that a quorum names, as [`Lease::owner`](crate::Lease::owner) shows it to
    /// the holder; `redquorum:shared` for readers. `None` also for a lock of some other kind.
    #[must_use]
    pub fn owner(&self) -> Option<&OwnerId> {
        match self.holder()? {
            NodeHolder::Held { owner, .. } => owner.as_ref(),
            NodeHolder::Free | NodeHolder::Unknown(_) => None,
        }
    }

    /// How many holds the owner has, or how many readers there are: the most that a quorum agrees
    /// on; 0 if nobody is named.
    #[must_use]
    pub fn holds(&self) -> u32 {
        let holds = |seen: &NodeHolder| if let NodeHolder::Held { holds, .. } = seen { *holds } else { 0 };
        self.agreed(holds).unwrap_or(0)
    }

    /// How long a quorum keeps the lock unless it is renewed; `None` if nobody is named.
    #[must_use]
    pub fn remaining_ttl(&self) -> Option<Duration> {
        self.agreed(|seen| match seen {
            NodeHolder::Held { remaining, .. } => remaining.unwrap_or(Duration::MAX),
            NodeHolder::Free | NodeHolder::Unknown(_) => Duration::ZERO,
        })
    }

    /// The fencing counter that a quorum has reached: the token of the last lease, or more after
    /// attempts that failed. `None` where too few nodes have one (any more).
    #[must_use]
    pub fn counter(&self) -> Option<u64> {
        let mut counters: Vec<u64> = self.nodes().filter_map(NodeInspection::counter).collect();
        counters.sort_unstable_by(|one, other| other.cmp(one));
        counters.into_iter().nth(self.needed - 1)
    }

    /// Readers that a quorum names, of those that [the nodes tell](NodeInspection::readers).
    pub fn readers(&self) -> impl Iterator<Item = &OwnerId> {
        let mut named: BTreeMap<&OwnerId, usize> = BTreeMap::new();
        for (owner, _) in self.nodes().flat_map(NodeInspection::readers) {
            *named.entry(owner).or_default() += 1;
        }
        named.into_iter().filter(|(_, nodes)| *nodes >= self.needed).map(|(owner, _)| owner)
    }

    /// How many clients wait for the resource, as far as the node knows that knows of most.
    #[must_use]
    pub fn waiters(&self) -> u32 {
        self.longest_queue().map_or(0, NodeInspection::waiters)
    }

    /// The first of them.
    #[must_use]
    pub fn first_waiter(&self) -> Option<&OwnerId> {
        self.longest_queue()?.first_waiter()
    }

    fn longest_queue(&self) -> Option<&NodeInspection> {
        self.nodes().max_by_key(|node| node.waiters())
    }

    /// How many nodes say what the quorum says: who the owner is or, where none is named, that nobody
    /// has it.
    #[must_use]
    pub fn agreeing(&self) -> usize {
        let answered = self.seen().filter(|seen| !matches!(seen, NodeHolder::Unknown(_))).count();
        answered - self.differing().count()
    }

    /// The nodes that said otherwise. Those that did not say are none of them.
    pub fn differing(&self) -> impl Iterator<Item = &NodeInspection> {
        let named = self.holder();
        self.nodes().filter(move |node| match (node.holder(), named) {
            (NodeHolder::Unknown(_), _) | (NodeHolder::Free, None) => false,
            (NodeHolder::Held { owner: one, .. }, Some(NodeHolder::Held { owner: other, .. })) => {
                one != other
            }
            _ => true,
        })
    }

    /// How many nodes have to name an owner for the quorum to do so.
    #[must_use]
    pub fn needed(&self) -> usize {
        self.needed
    }

    /// What each node said, in the order in which the nodes were given.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeInspection> {
        self.nodes.iter()
    }

    fn seen(&self) -> impl Iterator<Item = &NodeHolder> {
        self.nodes().map(NodeInspection::holder)
    }

    /// What a quorum sees at least: the q-th largest among the owner's nodes.
    fn agreed<T: Ord>(&self, of: impl Fn(&NodeHolder) -> T) -> Option<T> {
        let mut seen: Vec<T> = self.supporters(self.holder()?).map(of).collect();
        seen.sort_unstable_by(|one, other| other.cmp(one));
        seen.into_iter().nth(self.needed - 1)
    }

    /// What one of the nodes that agree on a holder sees.
    fn holder(&self) -> Option<&NodeHolder> {
        self.seen().find(|seen| self.supporters(seen).count() >= self.needed)
    }

    /// What the nodes see that name the same owner as `one`.
    fn supporters<'a>(&'a self, one: &'a NodeHolder) -> impl Iterator<Item = &'a NodeHolder> {
        self.seen().filter(move |other| match (one, other) {
            (NodeHolder::Held { owner: one, .. }, NodeHolder::Held { owner: other, .. }) => one == other,
            _ => false,
        })
    }
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.state())?;
        for node in self.nodes() {
            write!(f, "; {}: {}", node.address(), node.holder())?;
        }
        Ok(())
    }
}

/// How long a key stays, in words.
struct Remaining(Option<Duration>);

impl fmt::Display for Remaining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(remaining) => write!(f, "for {remaining:?}"),
            None => f.write_str("without an end"),
        }
    }
}

impl fmt::Display for NodeHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free => f.write_str("free"),
            Self::Held { owner: Some(owner), holds, remaining } if owner.is_of_readers() => {
                write!(f, "read {holds} times, {}", Remaining(*remaining))
            }
            Self::Held { owner: Some(owner), holds, remaining } => {
                write!(f, "held by {owner}, {holds} times, {}", Remaining(*remaining))
            }
            Self::Held { owner: None, remaining, .. } => {
                write!(f, "held by a lock of another kind, {}", Remaining(*remaining))
            }
            Self::Unknown(error) => error.fmt(f),
        }
    }
}

/// Asks every node, and waits until each has answered or its time is over.
pub(crate) async fn inspect(
    environment: &Environment,
    checked: &CheckedRequest,
) -> Result<Inspection, LockError> {
    let start = environment.now();
    let deadline = start + checked.settings.rules.node_timeout;
    let heard = hear_with_times(environment, ask(environment, &checked.resource, deadline), deadline).await;
    let answered = heard.iter().filter(|(answer, _)| matches!(answer, Answer::Inspected(_))).count();
    let needed = environment.settings.electorate.needed();
    if answered < needed {
        let votes = environment.votes(heard.iter().map(|(answer, _)| vote(answer)));
        return Err(LockError::NoQuorum { resource: checked.resource.clone(), needed, votes });
    }
    Ok(Inspection { nodes: by_node(environment, start, heard), needed })
}

/// What each node answered to what it was asked at `start`.
pub(crate) fn by_node(
    environment: &Environment,
    start: Instant,
    heard: Vec<(Answer, Option<Instant>)>,
) -> Vec<NodeInspection> {
    let nodes = environment.nodes.iter().zip(heard).map(|(node, (answer, at))| {
        let latency = at.map(|at| at.saturating_duration_since(start));
        NodeInspection::new(Arc::clone(node.address()), answer, latency)
    });
    nodes.collect()
}

/// The vote that an answer to a question shows: that of a lock, which the node would refuse in
/// quarantine.
fn vote(answer: &Answer) -> Vote {
    match answer {
        Answer::Inspected(Inspected { abstention: Some(abstention), .. }) => {
            Vote::Refused(Refusal::from(*abstention))
        }
        answer => Vote::from(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Abstention, HeldBy};

    /// One word a node: a letter and a digit for an owner and its remaining seconds, `-` free, `?`
    /// silent, `q` in quarantine.
    fn view(nodes: &str) -> Inspection {
        let held = |held: &str| HeldBy {
            owner: Some(OwnerId::from_wire(&held.as_bytes()[..1])),
            holds: 1,
            remaining: held[1..].parse().ok().map(Duration::from_secs),
        };
        let inspected = |held, abstention| {
            Answer::Inspected(Inspected {
                held,
                counter: 0,
                incarnation: None,
                fingerprint: None,
                abstention,
                readers: Box::default(),
                waiters: None,
            })
        };
        let quarantined = Abstention::Quarantined(Duration::from_secs(60));
        let answer = |word: &str| match word {
            "-" => inspected(None, None),
            "q" => inspected(None, Some(quarantined)),
            "?" => Answer::Error(NodeError::TimedOut),
            word => inspected(Some(held(word)), None),
        };
        let node = |word| NodeInspection::new("node".into(), answer(word), None);
        let nodes: Vec<_> = nodes.split(' ').map(node).collect();
        let needed = nodes.len() / 2 + 1;
        Inspection { nodes, needed }
    }

    #[test]
    fn the_quorum_decides_and_silence_is_neither_free_nor_held_nor_is_what_may_have_been_forgotten() {
        for (nodes, state) in [
            ("a1 a2 a3 - -", LockState::Held),
            ("a1 a2 b3 - -", LockState::Free),
            ("a1 a2 ? - -", LockState::Unclear),
            ("a1 b2 ? - -", LockState::Free),
            ("? ? - - -", LockState::Free),
            ("? ? ? - -", LockState::Unclear),
            ("a1 q q", LockState::Unclear),
            ("a1 - q", LockState::Unclear),
            ("- - q", LockState::Free),
        ] {
            assert_eq!(view(nodes).state(), state, "{nodes}");
        }
    }

    #[test]
    fn the_remaining_ttl_is_how_long_a_quorum_lasts() {
        let view = view("a1 a9 a3 a7 -");
        assert_eq!(view.remaining_ttl(), Some(Duration::from_secs(3)));
        assert_eq!(view.owner(), Some(&OwnerId::from_wire(b"a")));
        assert_eq!(view.holds(), 1);
    }
}
