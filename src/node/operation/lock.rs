//! To lock: take all resources for the first time, or none.

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
    /// One more than the largest counter the waiter has seen, or 0: brings counters back in step.
    pub(crate) hint: u64,
    /// Whether it is this owner's turn, as the queue node says: then it need not let the waiters go
    /// first.
    pub(crate) has_turn: bool,
    /// Whether it will not wait for these if it is refused: then nobody has to let it go first.
    pub(crate) gives_up: bool,
}

impl Lock {
    /// Whether it is of one resource, and not to share it.
    pub(super) fn is_of_one(&self) -> bool {
        self.resources.len() == 1 && !self.resources.is_shared(0)
    }

    fn one_of(&self, waiting: &'static str, giving_up: &'static str) -> &'static str {
        if self.gives_up { giving_up } else { waiting }
    }
}

/// The holder that stands in the way of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// Which of the asked resources, by index: of those held by others, the one that is held
    /// longest (the first of them if they tie).
    pub(crate) resource: usize,
    /// `None` if the key has more than one field: a lock of some other kind.
    pub(crate) owner: Option<LeaseId>,
    pub(crate) remaining: Duration,
    /// The largest fencing counter among the asked resources, 0 where there is none.
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
