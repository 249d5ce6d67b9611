//! What one node said about a resource.

use std::{sync::Arc, time::Duration};

use crate::{
    lock::inspection::NodeHolder,
    node::{Answer, Waiters},
    values::{NodeError, OwnerId, Refusal},
};

/// What one node said about a resource, from
/// [`Inspection::nodes`](crate::inspection::Inspection::nodes): who holds it there, its fencing
/// counter, and how long the answer took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInspection {
    address: Arc<str>,
    holder: NodeHolder,
    counter: Option<u64>,
    abstention: Option<Refusal>,
    latency: Option<Duration>,
    readers: Box<[(OwnerId, Duration)]>,
    waiters: Option<Box<Waiters>>,
}

impl NodeInspection {
    pub(super) fn new(address: Arc<str>, answer: Answer, latency: Option<Duration>) -> Self {
        let (counter, abstention) = match &answer {
            Answer::Inspected(inspection) => (
                Some(inspection.counter).filter(|counter| *counter > 0),
                inspection.abstention.map(Refusal::from),
            ),
            _ => (None, None),
        };
        let (readers, waiters) = match &answer {
            Answer::Inspected(seen) => (seen.readers.clone(), seen.waiters.clone()),
            _ => (Box::default(), None),
        };
        let has_answered = !matches!(&answer, Answer::Error(error) if !error.is_answer());
        Self {
            address,
            holder: holder(answer),
            counter,
            abstention,
            latency: latency.filter(|_| has_answered),
            readers,
            waiters,
        }
    }

    /// The node's address, without a password.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Who holds the resource there.
    #[must_use]
    pub fn holder(&self) -> &NodeHolder {
        &self.holder
    }

    /// The resource's fencing counter there: the largest vote that the node has given or was raised
    /// to. No token that it confirmed is above it; it may be above all tokens, as votes of attempts
    /// that failed raise it, too. `None` where there is none (any more), or the node did not say.
    #[must_use]
    pub fn counter(&self) -> Option<u64> {
        self.counter
    }

    /// Why the node would not vote for a lock of this client now: [`Refusal::Quarantined`] after a
    /// restart, a flush or a promotion, and while it is new. `None` if it votes, or did not say.
    #[must_use]
    pub fn abstention(&self) -> Option<&Refusal> {
        self.abstention.as_ref()
    }

    /// Who shares the resource there, and for how long unless that is renewed: those who do for the
    /// shortest time, 16 at most.
    pub fn readers(&self) -> impl Iterator<Item = (&OwnerId, Duration)> {
        self.readers.iter().map(|(owner, left)| (owner, *left))
    }

    /// How many clients are in the resource's wait queue there. Mostly one node keeps it; to the
    /// others, nobody waits.
    #[must_use]
    pub fn waiters(&self) -> u32 {
        self.waiters.as_ref().map_or(0, |waiters| waiters.count)
    }

    /// The first in the wait queue there.
    #[must_use]
    pub fn first_waiter(&self) -> Option<&OwnerId> {
        self.waiters.as_ref().map(|waiters| &waiters.first)
    }

    /// Whether it cannot tell that nobody holds the resource there: it did not say, or may have
    /// forgotten.
    pub(super) fn may_be_held(&self) -> bool {
        // A node to which no client has written metadata yet knows of no lock either, so an empty
        // one counts as free.
        let has_forgotten = matches!(self.abstention, Some(Refusal::Quarantined { remaining: Some(_) }));
        matches!(self.holder, NodeHolder::Unknown(_)) || (has_forgotten && self.holder == NodeHolder::Free)
    }

    /// From the question to the node's answer: a round trip, what waited before it on the
    /// connection, and what this client had to do meanwhile. `None` if the node itself did not
    /// answer.
    #[must_use]
    pub fn latency(&self) -> Option<Duration> {
        self.latency
    }
}

fn holder(answer: Answer) -> NodeHolder {
    match answer {
        Answer::Inspected(inspection) => match inspection.held {
            Some(held) => {
                NodeHolder::Held { owner: held.owner, holds: held.holds, remaining: held.remaining }
            }
            None => NodeHolder::Free,
        },
        Answer::Error(error) => NodeHolder::Unknown(error),
        other => NodeHolder::Unknown(NodeError::Protocol(format!("{other:?} is no inspection").into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Inspection;

    fn of(answer: Answer) -> NodeInspection {
        NodeInspection::new("node".into(), answer, Some(Duration::from_millis(3)))
    }

    #[test]
    fn only_what_a_node_itself_said_took_it_time() {
        let inspection = Inspection {
            held: None,
            counter: 7,
            incarnation: None,
            fingerprint: None,
            abstention: None,
            readers: Box::default(),
            waiters: None,
        };
        let answered = of(Answer::Inspected(inspection));
        assert_eq!((answered.counter(), answered.latency()), (Some(7), Some(Duration::from_millis(3))));
        let refused = of(Answer::Error(NodeError::Busy));
        assert_eq!((refused.counter(), refused.latency()), (None, Some(Duration::from_millis(3))));
        for error in [
            NodeError::TimedOut,
            NodeError::Unresponsive,
            NodeError::Disconnected,
            NodeError::Unreachable("dead".into()),
        ] {
            assert_eq!(of(Answer::Error(error)).latency(), None);
        }
    }
}
