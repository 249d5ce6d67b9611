//! Lock: acquires all resources, or none.

use std::time::Duration;

use crate::{
    node::{
        operation::{Abstention, Answer, Arguments, Operate, Queued, Resources, ScriptReply, wire},
        parameters::QuorumParameters,
    },
    values::{LeaseId, Resource},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lock {
    pub(crate) resources: Resources,
    pub(crate) owner: LeaseId,
    pub(crate) ttl: Duration,
    /// One more than the largest counter that the client has seen, or 0. It brings counters of several
    /// nodes back in step.
    pub(crate) hint: u64,
    /// Whether the queue node has woken this client, which then ignores queues and yield marks.
    pub(crate) has_turn: bool,
    /// Whether the client does not wait after a refusal, so that the node need not set a mark.
    pub(crate) gives_up: bool,
}

impl Lock {
    /// Whether the lock is exclusive and names one resource.
    pub(super) fn is_of_one(&self) -> bool {
        self.resources.len() == 1 && !self.resources.is_shared(0)
    }

    fn one_of(&self, waiting: &'static str, giving_up: &'static str) -> &'static str {
        if self.gives_up { giving_up } else { waiting }
    }
}

/// The holder for which a node refuses a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// The index of the resource whose other owner has the longest ttl; the first of them at a tie.
    pub(crate) resource: usize,
    /// The owner; `None` if the key has more than one field, as a lock of another library may.
    pub(crate) owner: Option<LeaseId>,
    pub(crate) remaining: Duration,
    /// The largest fencing counter of the requested resources, 0 if there is none.
    pub(crate) counter: u64,
}

impl Operate for Lock {
    fn resources(&self) -> &[Resource] {
        &self.resources
    }

    fn encode(&self, arguments: &mut Arguments<'_>, _: &QuorumParameters) {
        let Self { resources, owner, ttl, hint, has_turn, .. } = self;
        let is_usual = !has_turn && *hint == 0 && resources.len() == 1;
        if is_usual && !(resources.is_shared(0) && self.gives_up) {
            let name = if resources.is_shared(0) { "share" } else { self.one_of("lock", "try") };
            arguments.short_name(name).owner(owner).ttl(*ttl);
        } else if *has_turn && !self.gives_up && self.is_of_one() {
            arguments.short_name("turn").owner(owner).ttl(*ttl).number(*hint);
        } else {
            let name =
                if *has_turn { self.one_of("take", "try_take") } else { self.one_of("lock_any", "try_any") };
            arguments.name_for(name, resources).owner(owner).ttl(*ttl).number(*hint);
        }
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        match reply {
            ScriptReply::Number(vote) => Some(Answer::Granted { vote }),
            ScriptReply::Tagged(b"held", holder) => Holder::read(&self.resources, holder).map(Answer::Held),
            ScriptReply::Tagged(b"queued", fields) => {
                Queued::read(&self.resources, fields).map(Answer::Queued)
            }
            ScriptReply::Tagged(b"tombstone", []) => Some(Answer::Tombstone),
            ScriptReply::Tagged(b"abstains", fields) => Abstention::read(fields).map(Answer::Abstains),
            ScriptReply::Tagged(..) => None,
        }
    }

    fn acquiring_owner(&self) -> Option<&LeaseId> {
        Some(&self.owner)
    }
}

impl Holder {
    pub(super) fn read(resources: &[Resource], fields: &[wire::Value]) -> Option<Self> {
        let [resource, owner, remaining, counter] = fields else { return None };
        Some(Self {
            resource: wire::index(resources, resource)?,
            owner: wire::owner(owner)?,
            remaining: wire::milliseconds(remaining)?,
            counter: wire::number(counter)?,
        })
    }
}
