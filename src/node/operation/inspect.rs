//! Inspect: returns the holder, counter, readers and waiters of a resource.

use std::{slice, time::Duration};

use crate::{
    node::{
        operation::{Abstention, Answer, AnswerSize, Arguments, Operate, ScriptReply, wire},
        parameters::{Incarnation, QuorumParameters},
    },
    values::{Fingerprint, LeaseId, Resource},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inspect {
    pub(crate) resource: Resource,
    /// The maximum number of readers in the answer.
    pub(crate) max_readers: u32,
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
    /// The wait queue of the resource, unless it is empty.
    pub(crate) waiters: Option<Box<WaitersInfo>>,
}

/// The wait queue of a resource at one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WaitersInfo {
    pub(crate) count: u32,
    pub(crate) first: LeaseId,
}

/// The number of readers of a resource that an inspection shows.
pub(crate) const READERS_SHOWN: u32 = 16;

/// The largest number of bytes of a reader in an answer: its lease id, and the rest of its ttl.
const MAX_READER_BYTES: usize = 256;

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
        arguments.number(u64::from(self.max_readers));
    }

    fn longest_answer(&self) -> AnswerSize {
        let readers = self.max_readers as usize;
        AnswerSize { bytes: readers * MAX_READER_BYTES, values: 2 * readers }
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        let ScriptReply::Tagged(
            b"inspected",
            [counter, incarnation, fingerprint, abstains, waiters, first_waiter, holder @ ..],
        ) = reply
        else {
            return None;
        };
        let (held, readers) = held_by(holder)?;
        let count = u32::try_from(wire::number(waiters)?).unwrap_or(u32::MAX);
        Some(Answer::Inspected(InspectAnswer {
            held,
            counter: wire::number(counter)?,
            incarnation: wire::incarnation(incarnation),
            fingerprint: wire::fingerprint(fingerprint),
            abstention: abstention(abstains),
            readers,
            waiters: wire::lease_id(first_waiter)?.map(|first| Box::new(WaitersInfo { count, first })),
        }))
    }
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
