//! Transfer: gives the exclusive locks of one lease to another lease, in one step, so that no third lease can lock in
//! between. A downgrade is a transfer to a lease that shares the resources.

use crate::{
    node::{
        operation::{Answer, Arguments, Lock, Operate, ScriptReply, wire},
        parameters::QuorumParameters,
    },
    values::{LeaseId, Resource},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    /// The lock of the lease that receives the resources. Queues and marks do not refuse this lock, and marks stay.
    pub(crate) lock: Lock,
    /// The id of the lease that holds the resources before the transfer.
    pub(crate) from: LeaseId,
    /// The token of `from`, as a proof that no third lease can have held the resources since: the node transfers only
    /// if `from` has all resources, and no counter exceeds the token. Since the transfer itself raises the counters
    /// above the token, a node transfers at most once with one proof.
    ///
    /// `None`: on a node without the keys of `from`, the lease locks like any other lease.
    pub(crate) proof: Option<u64>,
}

impl Operate for Transfer {
    fn resources(&self) -> &[Resource] {
        &self.lock.resources
    }

    fn encode(&self, arguments: &mut Arguments<'_>, _: &QuorumParameters) {
        let Lock { resources, lease_id, ttl, hint, .. } = &self.lock;
        let arguments = arguments.name_for("transfer", resources).lease_id(lease_id).ttl(*ttl).number(*hint);
        // A token is above 0.
        arguments.lease_id(&self.from).number(self.proof.unwrap_or(0));
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        match reply {
            ScriptReply::Tagged(b"queued", _) => None,
            ScriptReply::Tagged(b"not_written_back", [counter]) => {
                wire::number(counter).map(|counter| Answer::NotWrittenBack { counter })
            }
            reply => self.lock.decode(reply),
        }
    }

    fn acquired_lease(&self) -> Option<&LeaseId> {
        Some(&self.lock.lease_id)
    }
}
