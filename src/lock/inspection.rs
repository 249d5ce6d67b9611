//! The inspection of a resource: its holder, its waiters and its latch, by the answers of the nodes.
//! `Quorum::inspect` makes the query of this file. The listing of locks and the health of a quorum build inspections
//! from queries of their own.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use crate::{
    acquire::checked_request::CheckedRequest,
    client::{
        broadcast::{collect_with_times, send_inspect_with_details},
        context::ClientContext,
    },
    clock::Instant,
    error::{Error, Goal, NoQuorum},
    lock::{latch_inspection::LatchInspection, node_inspection::NodeInspection},
    node::{Answer, InspectAnswer},
    values::{LeaseId, NodeReply, Refusal},
};

/// The state of a resource by the answers of a quorum, with the answer of each node, from
/// [`Quorum::inspect`](crate::Quorum::inspect).
///
/// The inspection shows the time at which the nodes answered, and may be out of date on return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    nodes: Vec<NodeInspection>,
    needed: usize,
}

/// The state of a resource, from [`Inspection::state`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockState {
    /// One exclusive lease at a quorum, or keys of another program at a quorum.
    Held,
    /// Readers, which share the resource at a quorum.
    Shared,
    /// No lease at a quorum. Even the nodes that did not answer or may have lost votes could not complete a quorum of
    /// any lease. Single nodes may have leases nevertheless, such as the leases of attempts in progress.
    Free,
    /// An undecided state: a lease may have a quorum together with the nodes that did not answer or may have lost
    /// votes. A program must not treat the resource as free.
    Unclear,
}

impl Inspection {
    pub(crate) fn new(nodes: Vec<NodeInspection>, needed: usize) -> Self {
        Self { nodes, needed }
    }

    /// Returns the state by the answers of a quorum.
    #[must_use]
    pub fn state(&self) -> LockState {
        let unknown = self.nodes().filter(|node| node.may_be_held()).count();
        let most = self.nodes().map(|node| self.supporters(node).count()).max().unwrap_or(0);
        if most >= self.needed {
            if self.holder().is_some_and(LeaseId::is_of_readers) {
                LockState::Shared
            } else {
                LockState::Held
            }
        } else if most + unknown >= self.needed {
            LockState::Unclear
        } else {
            LockState::Free
        }
    }

    /// Returns the id of the lease that a quorum names, which is the [`Lease::id`](crate::Lease::id) of the holder's
    /// lease. Readers have a common id, for which [`LeaseId::is_of_readers`] is true. `None` if no quorum names a
    /// lease, or if a quorum has keys of another program.
    #[must_use]
    pub fn holder(&self) -> Option<&LeaseId> {
        self.named()?.id()
    }

    /// Returns the number of guards of the holder, or the number of readers. If nodes differ, returns the largest
    /// number that a quorum of nodes reaches. Returns 0 if no quorum names a lease.
    #[must_use]
    pub fn holds(&self) -> u32 {
        self.agreed(NodeInspection::holds).unwrap_or(0)
    }

    /// Returns the time for which a quorum keeps the lease without a renewal. `None` if no quorum names a lease, and
    /// [`Duration::MAX`] if a quorum has keys without a ttl.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.agreed(|node| node.remaining().unwrap_or(Duration::MAX))
    }

    /// Returns the largest fencing counter that a quorum of nodes has reached: the token of the last lease, or more
    /// after failed attempts. `None` if fewer nodes than a quorum have a counter.
    #[must_use]
    pub fn counter(&self) -> Option<u64> {
        let mut counters: Vec<u64> = self.nodes().filter_map(NodeInspection::counter).collect();
        counters.sort_unstable_by(|one, other| other.cmp(one));
        counters.into_iter().nth(self.needed - 1)
    }

    /// Returns the lease ids of the readers that a quorum names. Each node names [at most 16
    /// readers](NodeInspection::readers), so the list may be incomplete.
    pub fn readers(&self) -> impl Iterator<Item = &LeaseId> {
        let mut named: BTreeMap<&LeaseId, usize> = BTreeMap::new();
        for (lease, _) in self.nodes().flat_map(NodeInspection::readers) {
            *named.entry(lease).or_default() += 1;
        }
        named.into_iter().filter(|(_, nodes)| *nodes >= self.needed).map(|(lease, _)| lease)
    }

    /// Returns the number of clients that wait for the resource, at the node with the longest wait queue.
    #[must_use]
    pub fn waiters(&self) -> u32 {
        self.longest_queue().map_or(0, NodeInspection::waiters)
    }

    /// Returns the first waiter at the node with the longest wait queue.
    #[must_use]
    pub fn first_waiter(&self) -> Option<&LeaseId> {
        self.longest_queue()?.first_waiter()
    }

    /// Returns the waiters at the node with the longest wait queue, in the order of the queue. The list has [at most 32
    /// waiters](NodeInspection::queue).
    pub fn queue(&self) -> impl Iterator<Item = &LeaseId> {
        self.longest_queue().into_iter().flat_map(NodeInspection::queue)
    }

    /// Whether the holder that a quorum names leads an [election](crate::election::Election): a node that names the
    /// holder has a value that the holder has proclaimed. The waiters are then the other candidates.
    #[must_use]
    pub fn is_led(&self) -> bool {
        self.named().is_some_and(|named| self.supporters(named).any(NodeInspection::is_led))
    }

    /// Returns the state of the [latch](crate::Latch) of this name; `None` if no node that answered has a record of the
    /// latch. A lock and a latch of the same name are independent.
    #[must_use]
    pub fn latch(&self) -> Option<LatchInspection> {
        LatchInspection::new(self.nodes().filter_map(NodeInspection::latch_info))
    }

    fn longest_queue(&self) -> Option<&NodeInspection> {
        self.nodes().max_by_key(|node| node.waiters())
    }

    /// Returns the number of nodes that agree with the quorum: on the lease, or on a free resource if no quorum names
    /// a lease.
    #[must_use]
    pub fn agreeing(&self) -> usize {
        self.nodes().filter(|node| node.holder().is_ok()).count() - self.differing().count()
    }

    /// Returns the nodes that answered and do not agree with the quorum, as [`agreeing`](Self::agreeing) counts.
    pub fn differing(&self) -> impl Iterator<Item = &NodeInspection> {
        let named = self.named();
        self.nodes().filter(move |node| match named {
            _ if node.holder().is_err() => false,
            Some(named) => !(node.is_held() && node.id() == named.id()),
            None => node.is_held(),
        })
    }

    /// Returns the number of nodes that make a quorum.
    #[must_use]
    pub fn needed(&self) -> usize {
        self.needed
    }

    /// Returns the answer of each node, in the order in which the nodes were named.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeInspection> {
        self.nodes.iter()
    }

    /// Returns the largest value that a quorum of nodes reaches: the q-th largest value of the nodes that name the
    /// lease. `None` if no quorum names a lease.
    fn agreed<T: Ord>(&self, of: impl Fn(&NodeInspection) -> T) -> Option<T> {
        let mut values: Vec<T> = self.supporters(self.named()?).map(of).collect();
        values.sort_unstable_by(|one, other| other.cmp(one));
        values.into_iter().nth(self.needed - 1)
    }

    /// Returns the first of the nodes that name the lease of a quorum, if any.
    fn named(&self) -> Option<&NodeInspection> {
        self.nodes().find(|node| self.supporters(node).count() >= self.needed)
    }

    /// Returns the nodes with the same lease as `one`; no nodes if `one` has no lease.
    fn supporters<'a>(&'a self, one: &'a NodeInspection) -> impl Iterator<Item = &'a NodeInspection> {
        self.nodes().filter(move |other| one.is_held() && other.is_held() && one.id() == other.id())
    }
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.state())?;
        self.nodes().try_for_each(|node| write!(f, "; {node}"))
    }
}

/// Inspects every node, and waits until each node has answered or timed out.
///
/// # Errors
///
/// [`Error::NoQuorum`] if fewer nodes than a quorum answered.
///
/// # Cancel safety
///
/// Dropping the future has no effect on the nodes.
pub(crate) async fn inspect(context: &ClientContext, checked: &CheckedRequest) -> Result<Inspection, Error> {
    let start = context.now();
    let deadline = start + checked.settings.attempt.node_timeout;
    let answers = collect_with_times(
        context,
        send_inspect_with_details(context, &checked.resource, deadline),
        deadline,
    )
    .await;
    let answered = answers.iter().filter(|(answer, _)| matches!(answer, Answer::Inspected(_))).count();
    let needed = context.settings.electorate.needed();
    if answered < needed {
        let replies = context.replies(answers.iter().map(|(answer, _)| reply(answer)));
        return Err(NoQuorum::new(Goal::Inspect(checked.resource.clone()), replies).into());
    }
    Ok(Inspection { nodes: by_node(context, start, answers), needed })
}

/// Returns the inspection of each node, from the answers to a request that was sent at `start`. The answers are in the
/// order of the nodes, each with the time at which the node answered, if the node did.
pub(crate) fn by_node(
    context: &ClientContext,
    start: Instant,
    answers: Vec<(Answer, Option<Instant>)>,
) -> Vec<NodeInspection> {
    let nodes = context.nodes.iter().zip(answers).map(|(node, (answer, at))| {
        let latency = at.map(|at| at.saturating_duration_since(start));
        NodeInspection::new(Arc::clone(node.address()), answer, latency)
    });
    nodes.collect()
}

/// Returns the reply of a node, for the error of an inspection without a quorum. An answer with an abstention becomes a
/// refusal, because the node would refuse a lock.
fn reply(answer: &Answer) -> NodeReply {
    match answer {
        Answer::Inspected(InspectAnswer { abstention: Some(abstention), .. }) => {
            NodeReply::Refused(Refusal::from(*abstention))
        }
        answer => NodeReply::from(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        node::{Abstention, HolderInfo},
        values::NodeError,
    };

    /// Returns an inspection with these answers, one word for each node. A letter and a digit stand
    /// for a lease id and its remaining seconds, `-` for a free resource, `?` for no answer, `q`
    /// for a node in quarantine.
    fn inspection(nodes: &str) -> Inspection {
        let held = |held: &str| HolderInfo {
            lease_id: Some(LeaseId::from_wire(&held.as_bytes()[..1])),
            holds: 1,
            remaining: held[1..].parse().ok().map(Duration::from_secs),
        };
        let inspected = |held, abstention| {
            Answer::Inspected(InspectAnswer {
                held,
                counter: 0,
                incarnation: None,
                fingerprint: None,
                abstention,
                readers: Box::default(),
                details: None,
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
    fn the_state_is_unclear_if_nodes_without_an_answer_could_decide() {
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
            assert_eq!(inspection(nodes).state(), state, "{nodes}");
        }
    }

    #[test]
    fn the_remaining_time_ends_when_a_quorum_no_longer_has_the_lease() {
        let inspection = inspection("a1 a9 a3 a7 -");
        assert_eq!(inspection.remaining(), Some(Duration::from_secs(3)));
        assert_eq!(inspection.holder(), Some(&LeaseId::from_wire(b"a")));
        assert_eq!(inspection.holds(), 1);
    }
}
