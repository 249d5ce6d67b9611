//! Inspect: returns the holder, counter and readers of a resource, and on request the details: waiters, leadership, and
//! the latch of the same name.

use std::{slice, sync::Arc, time::Duration};

use crate::{
    node::{
        operation::{Abstention, Answer, AnswerSize, Arguments, Operate, ScriptReply, wire},
        parameters::{Incarnation, QuorumParameters},
    },
    values::{Arrivals, Fingerprint, LeaseId, Resource},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inspect {
    pub(crate) resource: Resource,
    /// The maximum number of readers in the answer.
    pub(crate) max_readers: u32,
    /// The maximum number of waiters, and of arrivals at a latch, in the answer. With 0, the answer has no details.
    pub(crate) max_details: u32,
}

/// The state of one resource on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InspectAnswer {
    /// The holder; `None` if the resource is free.
    pub(crate) held: Option<HolderInfo>,
    /// The fencing counter, 0 if there is none.
    pub(crate) counter: u64,
    /// The incarnation of the server; `None` if the user may not read it.
    pub(crate) incarnation: Option<Incarnation>,
    /// The fingerprint of the node's quorum; `None` if the node has no metadata.
    pub(crate) fingerprint: Option<Fingerprint>,
    /// The abstention with which the node would answer a lock of this client now.
    pub(crate) abstention: Option<Abstention>,
    /// The readers with the rest of their ttls: the first to expire, at most the requested number.
    pub(crate) readers: Box<[(LeaseId, Duration)]>,
    /// The details, if they were requested.
    pub(crate) details: Option<Box<InspectDetails>>,
}

/// The details of a resource at one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InspectDetails {
    /// The number of waiters in the wait queue.
    pub(crate) waiters: u32,
    /// The first waiters in the order of the wait queue, at most the requested number.
    pub(crate) queue: Box<[LeaseId]>,
    /// Whether the holder has proclaimed a value, as the leader of an election does.
    pub(crate) leads: bool,
    /// The latch of the same name, if the node has a record of the latch.
    pub(crate) latch: Option<LatchInfo>,
}

/// The state of a latch at one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LatchInfo {
    /// The number of arrivals that opens the latch.
    pub(crate) count: u32,
    pub(crate) is_open: bool,
    /// The number of recorded arrivals.
    pub(crate) arrived: u32,
    /// The recorded arrivals; none if there are more than the requested number.
    pub(crate) arrivals: Arrivals,
    /// The time for which the node keeps the latch.
    pub(crate) remaining: Duration,
}

/// The number of readers of a resource that an inspection shows.
pub(crate) const READERS_SHOWN: u32 = 16;

/// The number of waiters, and of arrivals at a latch, that an inspection with details shows.
pub(crate) const DETAILS_SHOWN: u32 = 32;

/// The largest number of bytes of a reader in an answer: its lease id, and the rest of its ttl.
const MAX_READER_BYTES: usize = 256;

/// The largest number of bytes of a waiter or an arrival in an answer: the label, the uuid, the number and the suffix of
/// an id, and the ends of both lines.
const MAX_DETAIL_BYTES: usize = 128;

/// The holder of a resource at one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HolderInfo {
    /// The id of the lease; `None` if the key has more than one field, as a key of another library may have.
    pub(crate) lease_id: Option<LeaseId>,
    /// The number of holds, or of readers if the resource is shared.
    pub(crate) holds: u32,
    /// The rest of the ttl; `None` for a key without a ttl, which this library never writes.
    pub(crate) remaining: Option<Duration>,
}

impl Operate for Inspect {
    fn resources(&self) -> &[Resource] {
        slice::from_ref(&self.resource)
    }

    fn encode(&self, arguments: &mut Arguments<'_>, _: &QuorumParameters) {
        arguments.name("inspect", 1);
        arguments.number(u64::from(self.max_readers)).number(u64::from(self.max_details));
    }

    fn longest_answer(&self) -> AnswerSize {
        let (readers, details) = (self.max_readers as usize, self.max_details as usize);
        // The details have waiters and arrivals.
        let bytes = readers * MAX_READER_BYTES + 2 * details * MAX_DETAIL_BYTES;
        AnswerSize { bytes, values: 2 * (readers + details) }
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        let ScriptReply::Tagged(
            b"inspected",
            [counter, incarnation, fingerprint, abstains, details, holder @ ..],
        ) = reply
        else {
            return None;
        };
        let (held, readers) = held_by(holder)?;
        Some(Answer::Inspected(InspectAnswer {
            held,
            counter: wire::number(counter)?,
            incarnation: wire::incarnation(incarnation),
            fingerprint: wire::fingerprint(fingerprint),
            abstention: abstention(abstains),
            readers,
            details: match details {
                wire::Value::Array(fields) => Some(Box::new(details_in(fields)?)),
                _ => None,
            },
        }))
    }
}

fn details_in(fields: &[wire::Value]) -> Option<InspectDetails> {
    let [waiters, leads, latch, queue @ ..] = fields else { return None };
    let waiter = |value: &wire::Value| wire::bytes(value).map(LeaseId::from_wire);
    Some(InspectDetails {
        waiters: number(waiters)?,
        queue: queue.iter().map(waiter).collect::<Option<_>>()?,
        leads: wire::number(leads)? == 1,
        // Another program may have written a key of another shape.
        latch: if let wire::Value::Array(fields) = latch { latch_in(fields) } else { None },
    })
}

fn latch_in(fields: &[wire::Value]) -> Option<LatchInfo> {
    let [count, open, arrived, remaining, arrivals @ ..] = fields else { return None };
    let arrival = |value: &wire::Value| wire::bytes(value).map(Arc::from);
    Some(LatchInfo {
        count: number(count)?,
        is_open: wire::number(open)? == 1,
        arrived: number(arrived)?,
        arrivals: arrivals.iter().map(arrival).collect::<Option<_>>()?,
        remaining: wire::milliseconds(remaining)?,
    })
}

fn number(value: &wire::Value) -> Option<u32> {
    wire::number(value).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

type Readers = Box<[(LeaseId, Duration)]>;

/// Reads the holder and the readers of a resource.
///
/// Another library may write holds that are no number, which count as 0. A negative ttl stands for a key
/// without a ttl.
fn held_by(fields: &[wire::Value]) -> Option<(Option<HolderInfo>, Readers)> {
    let [lease_id, holds, remaining, readers @ ..] = fields else {
        return fields.is_empty().then_some((None, Box::default()));
    };
    let held = HolderInfo {
        lease_id: wire::lease_id(lease_id)?,
        holds: wire::number(holds).and_then(|holds| u32::try_from(holds).ok()).unwrap_or(0),
        remaining: wire::milliseconds(remaining),
    };
    let (readers, []) = readers.as_chunks() else { return None };
    let reader =
        |[lease_id, left]: &[wire::Value; 2]| Some((wire::lease_id(lease_id)??, wire::milliseconds(left)?));
    Some((Some(held), readers.iter().map(reader).collect::<Option<_>>()?))
}

/// Reads an abstention: the rest of a quarantine in milliseconds. A negative number means that no client has
/// registered.
fn abstention(value: &wire::Value) -> Option<Abstention> {
    let wire::Value::Integer(remaining) = value else { return None };
    let quarantined = |remaining| Abstention::Quarantined(Duration::from_millis(remaining));
    Some(u64::try_from(*remaining).map_or(Abstention::NotRegistered, quarantined))
}
