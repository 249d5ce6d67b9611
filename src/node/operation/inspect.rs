//! To inspect: tell who holds a resource.

use std::{slice, time::Duration};

use crate::{
    node::{
        operation::{Abstention, Answer, Arguments, Operate, ScriptReply, wire},
        parameters::{Incarnation, QuorumParameters},
    },
    values::{Fingerprint, LeaseId, Resource},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inspect {
    pub(crate) resource: Resource,
    /// How many readers are told, at most.
    pub(crate) max_readers: u32,
}

/// One resource as one node has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InspectAnswer {
    /// `None`: free.
    pub(crate) held: Option<HolderInfo>,
    /// The fencing counter, 0 where there is none.
    pub(crate) counter: u64,
    /// Which incarnation of which server this is; `None` if the client may not know.
    pub(crate) incarnation: Option<Incarnation>,
    /// To which quorum the node belongs; `None` if it has no metadata.
    pub(crate) fingerprint: Option<Fingerprint>,
    /// Why it would not vote for this client now, if it would not.
    pub(crate) abstention: Option<Abstention>,
    /// Who shares it, and how long each of them still does: those who do for the shortest time, up
    /// to the number that was asked for.
    pub(crate) readers: Box<[(LeaseId, Duration)]>,
    /// Who is queued for it here, if anybody is.
    pub(crate) waiters: Option<Box<WaitersInfo>>,
}

/// The wait queue of a resource at one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WaitersInfo {
    pub(crate) count: u32,
    pub(crate) first: LeaseId,
}

/// So many readers of a resource are told to those who look.
pub(crate) const READERS_SHOWN: u32 = 16;

/// The holder of a resource at one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HolderInfo {
    /// `None` if the key has more than one field: a lock of some other kind.
    pub(crate) owner: Option<LeaseId>,
    /// Of a resource that is shared, how many share it.
    pub(crate) holds: u32,
    /// `None`: a key without a ttl, which no lock of ours ever is.
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
            waiters: wire::owner(first_waiter)?.map(|first| Box::new(WaitersInfo { count, first })),
        }))
    }
}

type Readers = Box<[(LeaseId, Duration)]>;

/// The holder, or nobody, and who shares the resource. What others write may be no number, and a
/// ttl that is negative is none.
fn held_by(fields: &[wire::Value]) -> Option<(Option<HolderInfo>, Readers)> {
    let [owner, holds, remaining, readers @ ..] = fields else {
        return fields.is_empty().then_some((None, Box::default()));
    };
    let held = HolderInfo {
        owner: wire::owner(owner)?,
        holds: wire::number(holds).and_then(|holds| u32::try_from(holds).ok()).unwrap_or(0),
        remaining: wire::milliseconds(remaining),
    };
    let (readers, []) = readers.as_chunks() else { return None };
    let reader = |[owner, left]: &[wire::Value; 2]| Some((wire::owner(owner)??, wire::milliseconds(left)?));
    Some((Some(held), readers.iter().map(reader).collect::<Option<_>>()?))
}

/// Why the node would not vote: for so many milliseconds, or for a negative number, until it has
/// registered.
fn abstention(value: &wire::Value) -> Option<Abstention> {
    let wire::Value::Integer(remaining) = value else { return None };
    let quarantined = |remaining| Abstention::Quarantined(Duration::from_millis(remaining));
    Some(u64::try_from(*remaining).map_or(Abstention::NotRegistered, quarantined))
}
