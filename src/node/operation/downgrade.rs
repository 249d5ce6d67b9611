//! Downgrade: turns the exclusive lock of a writer into a shared lock of a reader, in one step.

use crate::{
    node::{
        operation::{Answer, Arguments, Lock, Operate, ScriptReply},
        parameters::QuorumParameters,
    },
    values::{LeaseId, Resource},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Downgrade {
    /// The lock of the reader, with all resources shared. Queues and marks do not refuse this lock.
    pub(crate) lock: Lock,
    /// The id of the lease that holds the resources before the downgrade.
    pub(crate) writer: LeaseId,
}

impl Operate for Downgrade {
    fn resources(&self) -> &[Resource] {
        &self.lock.resources
    }

    fn encode(&self, arguments: &mut Arguments<'_>, _: &QuorumParameters) {
        let Lock { resources, lease_id, ttl, .. } = &self.lock;
        arguments.name_for("downgrade", resources).lease_id(lease_id).ttl(*ttl).lease_id(&self.writer);
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        match reply {
            ScriptReply::Tagged(b"queued", _) => None,
            reply => self.lock.decode(reply),
        }
    }

    fn acquired_lease(&self) -> Option<&LeaseId> {
        Some(&self.lock.lease_id)
    }
}
