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
    pub(crate) lease_id: LeaseId,
    pub(crate) ttl: Duration,
    /// The hint: one more than the largest counter that the client has seen, or 0 for no hint. A node with smaller
    /// counters gives the hint as its vote. Then the votes of the nodes agree, and no write-back is needed.
    pub(crate) hint: u64,
    /// Whether the node ignores wait queues and yield marks, because the queue node has woken the client or has
    /// granted.
    pub(crate) ignores_queue: bool,
    /// Whether the client will not wait after a refusal, so that the node sets no mark.
    pub(crate) will_not_wait: bool,
}

impl Lock {
    /// Whether the lock is exclusive and names one resource.
    pub(super) fn is_exclusive_of_one(&self) -> bool {
        self.resources.len() == 1 && !self.resources.is_shared(0)
    }

    /// Returns the name of the operation for a client that waits after a refusal, or for any other client.
    fn operation_name(&self, waiting: &'static str, not_waiting: &'static str) -> &'static str {
        if self.will_not_wait { not_waiting } else { waiting }
    }
}

/// The holder for which a node refuses a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// The index of the resource that another lease holds for the longest time; at a tie, the first index.
    pub(crate) resource: usize,
    /// The id of the lease; `None` if the key has more than one field, as a key of another library may have.
    pub(crate) lease_id: Option<LeaseId>,
    pub(crate) remaining: Duration,
    /// The largest fencing counter of the requested resources, 0 if there is none.
    pub(crate) counter: u64,
}

impl Operate for Lock {
    fn resources(&self) -> &[Resource] {
        &self.resources
    }

    fn encode(&self, arguments: &mut Arguments<'_>, _: &QuorumParameters) {
        let Self { resources, lease_id, ttl, hint, ignores_queue, .. } = self;
        let is_usual = !ignores_queue && *hint == 0 && resources.len() == 1;
        if is_usual && !(resources.is_shared(0) && self.will_not_wait) {
            let name = if resources.is_shared(0) { "share" } else { self.operation_name("lock", "try") };
            arguments.short_name(name).lease_id(lease_id).ttl(*ttl);
        } else if *ignores_queue && !self.will_not_wait && self.is_exclusive_of_one() {
            arguments.short_name("turn").lease_id(lease_id).ttl(*ttl).number(*hint);
        } else {
            let name = if *ignores_queue {
                self.operation_name("take", "try_take")
            } else {
                self.operation_name("lock_any", "try_any")
            };
            arguments.name_for(name, resources).lease_id(lease_id).ttl(*ttl).number(*hint);
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

    fn acquired_lease(&self) -> Option<&LeaseId> {
        Some(&self.lease_id)
    }
}

impl Holder {
    pub(super) fn read(resources: &[Resource], fields: &[wire::Value]) -> Option<Self> {
        let [resource, lease_id, remaining, counter] = fields else { return None };
        Some(Self {
            resource: wire::index(resources, resource)?,
            lease_id: wire::lease_id(lease_id)?,
            remaining: wire::milliseconds(remaining)?,
            counter: wire::number(counter)?,
        })
    }
}
