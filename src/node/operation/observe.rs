//! Observe: returns the holder of a resource, and the last proclamation of a leader.

use std::{slice, time::Duration};

use crate::{
    node::{
        operation::{
            Answer, AnswerSize, Arguments, MAX_VALUE_BYTES, Operate, Proclamation, ScriptReply, wire,
        },
        parameters::QuorumParameters,
    },
    values::{LeaseId, Resource},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Observe {
    pub(crate) resource: Resource,
}

/// The state of an election on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObserveAnswer {
    /// The lease id of the holder; `None` if the lock is free, or another library holds it.
    pub(crate) lease_id: Option<LeaseId>,
    /// The rest of the ttl; `None` if the lock is free or has no ttl.
    pub(crate) remaining: Option<Duration>,
    /// The last proclamation, perhaps of a leader that does not hold the lock any more.
    pub(crate) proclamation: Option<Proclamation>,
}

impl Operate for Observe {
    fn resources(&self) -> &[Resource] {
        slice::from_ref(&self.resource)
    }

    fn encode(&self, arguments: &mut Arguments<'_>, _: &QuorumParameters) {
        arguments.name("observe", 1);
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        let ScriptReply::Tagged(b"observed", [lease_id, remaining, proclaimed @ ..]) = reply else {
            return None;
        };
        Some(Answer::Observed(ObserveAnswer {
            lease_id: wire::lease_id(lease_id)?,
            remaining: wire::milliseconds(remaining),
            proclamation: proclamation(proclaimed),
        }))
    }

    fn longest_answer(&self) -> AnswerSize {
        // The value, and the fields beside it.
        AnswerSize { bytes: MAX_VALUE_BYTES + 1024, values: 0 }
    }
}

/// Reads a proclamation; `None` if another program has written the key in another shape.
fn proclamation(fields: &[wire::Value]) -> Option<Proclamation> {
    let [lease_id, term, number, value, since] = fields else { return None };
    Some(Proclamation {
        lease_id: LeaseId::from_wire(wire::bytes(lease_id)?),
        term: wire::number(term)?,
        number: wire::number(number)?,
        value: wire::bytes(value)?.into(),
        since: wire::milliseconds(since)?,
    })
}
