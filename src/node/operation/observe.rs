//! To observe: tell who holds a resource, and what a leader has said there.

use std::{slice, time::Duration};

use crate::{
    node::{
        operation::{Answer, Arguments, Operate, Proclamation, ScriptReply, wire},
        parameters::QuorumParameters,
    },
    values::{LeaseId, Resource},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Observe {
    pub(crate) resource: Resource,
}

/// An election as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObserveAnswer {
    /// Who holds the lock; `None` if nobody does, or a lock of some other kind is there.
    pub(crate) owner: Option<LeaseId>,
    /// For how long; `None` also for a key without a ttl.
    pub(crate) remaining: Option<Duration>,
    /// What a leader said there last. It may be one that does not hold the lock any more.
    pub(crate) said: Option<Proclamation>,
}

impl Operate for Observe {
    fn resources(&self) -> &[Resource] {
        slice::from_ref(&self.resource)
    }

    fn encode(&self, arguments: &mut Arguments<'_>, _: &QuorumParameters) {
        arguments.name("observe", 1);
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        let ScriptReply::Tagged(b"observed", [owner, remaining, proclaimed @ ..]) = reply else {
            return None;
        };
        Some(Answer::Observed(ObserveAnswer {
            owner: wire::owner(owner)?,
            remaining: wire::milliseconds(remaining),
            said: proclamation(proclaimed),
        }))
    }

    fn has_long_answer(&self) -> bool {
        true
    }
}

/// What others write there may be anything, and is nobody's proclamation then.
fn proclamation(fields: &[wire::Value]) -> Option<Proclamation> {
    let [owner, term, number, value, since] = fields else { return None };
    Some(Proclamation {
        owner: LeaseId::from_wire(wire::bytes(owner)?),
        term: wire::number(term)?,
        number: wire::number(number)?,
        value: wire::bytes(value)?.into(),
        since: wire::milliseconds(since)?,
    })
}
