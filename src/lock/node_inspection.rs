//! The inspection of a resource at one node, as a part of an [`Inspection`](super::Inspection).

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    node::{Answer, HolderInfo, InspectDetails, LatchInfo},
    values::{LeaseId, NodeError, Refusal},
};

/// The state of a resource on one node, and whether the node votes, from
/// [`Inspection::nodes`](crate::inspection::Inspection::nodes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInspection {
    address: Arc<str>,
    held: Result<Option<HolderInfo>, NodeError>,
    counter: Option<u64>,
    abstention: Option<Refusal>,
    latency: Option<Duration>,
    readers: Box<[(LeaseId, Duration)]>,
    details: Option<Box<InspectDetails>>,
}

impl NodeInspection {
    pub(super) fn new(address: Arc<str>, answer: Answer, latency: Option<Duration>) -> Self {
        let has_answered = !matches!(&answer, Answer::Error(error) if !error.is_answer());
        let latency = latency.filter(|_| has_answered);
        let error = match answer {
            Answer::Inspected(inspection) => {
                return Self {
                    address,
                    held: Ok(inspection.held),
                    counter: Some(inspection.counter).filter(|counter| *counter > 0),
                    abstention: inspection.abstention.map(Refusal::from),
                    latency,
                    readers: inspection.readers,
                    details: inspection.details,
                };
            }
            Answer::Error(error) => error,
            other => NodeError::Protocol(format!("{other:?} is no inspection").into()),
        };
        Self {
            address,
            held: Err(error),
            counter: None,
            abstention: None,
            latency,
            readers: Box::default(),
            details: None,
        }
    }

    /// Returns the address of the node, without a password.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the id of the lease on the node. Readers have a common id, for which [`LeaseId::is_of_readers`] is
    /// true. `None` if the node has no lease, or has a key of another program. In the second case,
    /// [`is_held`](Self::is_held) is true.
    ///
    /// # Errors
    ///
    /// The error of the node, or of the connection to the node, if the node did not answer the inspection.
    pub fn holder(&self) -> Result<Option<&LeaseId>, &NodeError> {
        self.held.as_ref().map(|held| held.as_ref().and_then(|held| held.lease_id.as_ref()))
    }

    /// Whether the node has a lease on the resource, or a key of another program in its place.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held().is_some()
    }

    /// Returns the number of guards of the holder, or the number of readers; 0 if the node has no lease.
    #[must_use]
    pub fn holds(&self) -> u32 {
        self.held().map_or(0, |held| held.holds)
    }

    /// Returns the time for which the node keeps the lease without a renewal. `None` if the node has no lease, or has a
    /// key without a ttl.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.held()?.remaining
    }

    fn held(&self) -> Option<&HolderInfo> {
        self.held.as_ref().ok()?.as_ref()
    }

    pub(super) fn id(&self) -> Option<&LeaseId> {
        self.held()?.lease_id.as_ref()
    }

    /// Returns the fencing counter of the resource on the node: the largest vote or token that the node has stored. The
    /// counter may be above the tokens of all leases, because the votes of failed attempts raise the counter, too.
    /// `None` if the node has no counter, or did not answer.
    #[must_use]
    pub fn counter(&self) -> Option<u64> {
        self.counter
    }

    /// Returns the reason for which the node abstained when it answered: [`Refusal::Quarantined`] after a restart, a
    /// flush or a promotion that may have lost votes, and on a new node that has no metadata yet. `None` if the node
    /// votes, or did not answer.
    #[must_use]
    pub fn abstention(&self) -> Option<&Refusal> {
        self.abstention.as_ref()
    }

    /// Returns the lease ids of the readers on the node, with the time for which the node keeps each lease without a
    /// renewal. The list has at most 16 leases, the leases with the shortest times.
    pub fn readers(&self) -> impl Iterator<Item = (&LeaseId, Duration)> {
        self.readers.iter().map(|(lease_id, left)| (lease_id, *left))
    }

    /// Returns the number of clients in the wait queue of the resource on the node. Usually only the queue node has a
    /// wait queue, and all other nodes report 0.
    #[must_use]
    pub fn waiters(&self) -> u32 {
        self.details.as_ref().map_or(0, |details| details.waiters)
    }

    /// Returns the id of the first waiter in the wait queue on the node, if any. The [label](LeaseId::label) of the id
    /// names the waiting client.
    #[must_use]
    pub fn first_waiter(&self) -> Option<&LeaseId> {
        self.queue().next()
    }

    /// Returns the ids of the waiters in the wait queue on the node, in the order of the queue. The list has at most 32
    /// waiters. The [label](LeaseId::label) of an id names the waiting client. The id of a waiting reader ends with
    /// `:shared`.
    pub fn queue(&self) -> impl Iterator<Item = &LeaseId> {
        self.details.iter().flat_map(|details| &details.queue)
    }

    /// Whether the holder on the node has proclaimed a value there, as the leader of an
    /// [election](crate::election::Election) does.
    #[must_use]
    pub fn is_led(&self) -> bool {
        self.details.as_ref().is_some_and(|details| details.leads)
    }

    pub(super) fn latch_info(&self) -> Option<&LatchInfo> {
        self.details.as_ref()?.latch.as_ref()
    }

    /// Returns the number of arrivals at the [latch](crate::Latch) of this name that the node has recorded, and the
    /// number that opens the latch. `None` if the node has no record of a latch.
    #[must_use]
    pub fn arrivals(&self) -> Option<(u32, u32)> {
        self.latch_info().map(|latch| (latch.arrived, latch.count))
    }

    /// Whether the node may have had the vote of a lease that this inspection does not show: the node did not answer,
    /// or may have lost votes and names no lease.
    pub(super) fn may_be_held(&self) -> bool {
        // The remaining time of a quarantine is unset until a client registers with the node. A node without metadata
        // has no lease, so the node counts as free.
        let may_have_lost = matches!(self.abstention, Some(Refusal::Quarantined { remaining: Some(_) }));
        self.held.is_err() || (may_have_lost && !self.is_held())
    }

    /// Returns the time from the request to the answer of the node. The time includes the wait behind earlier requests
    /// on the connection, and other work of this client in between. `None` if the node itself did not answer.
    #[must_use]
    pub fn latency(&self) -> Option<Duration> {
        self.latency
    }
}

/// The time until a key expires, as text.
struct Remaining(Option<Duration>);

impl fmt::Display for Remaining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(remaining) => write!(f, "for {remaining:?}"),
            None => f.write_str("without an end"),
        }
    }
}

impl fmt::Display for NodeInspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.address)?;
        match &self.held {
            Err(error) => error.fmt(f),
            Ok(None) => f.write_str("free"),
            Ok(Some(HolderInfo { lease_id, holds, remaining })) => match lease_id {
                Some(readers) if readers.is_of_readers() => {
                    write!(f, "read {holds} times, {}", Remaining(*remaining))
                }
                Some(lease) => write!(f, "held by {lease}, {holds} times, {}", Remaining(*remaining)),
                None => write!(f, "held by a lock of another kind, {}", Remaining(*remaining)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::InspectAnswer;

    fn inspection_after_3_ms(answer: Answer) -> NodeInspection {
        NodeInspection::new("node".into(), answer, Some(Duration::from_millis(3)))
    }

    #[test]
    fn only_an_answer_of_the_node_itself_has_a_latency() {
        let inspection = InspectAnswer {
            held: None,
            counter: 7,
            incarnation: None,
            fingerprint: None,
            abstention: None,
            readers: Box::default(),
            details: None,
        };
        let answered = inspection_after_3_ms(Answer::Inspected(inspection));
        assert_eq!((answered.counter(), answered.latency()), (Some(7), Some(Duration::from_millis(3))));
        let refused = inspection_after_3_ms(Answer::Error(NodeError::Busy));
        assert_eq!((refused.counter(), refused.latency()), (None, Some(Duration::from_millis(3))));
        for error in [
            NodeError::TimedOut,
            NodeError::Unresponsive,
            NodeError::Disconnected,
            NodeError::Unreachable("dead".into()),
        ] {
            assert_eq!(inspection_after_3_ms(Answer::Error(error)).latency(), None);
        }
    }
}
