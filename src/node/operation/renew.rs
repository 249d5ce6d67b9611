//! Renew: extends the lease on all resources, or on none. Keys that the node lost are written again.

use std::time::Duration;

use crate::{
    mutation::{self, Mutation},
    node::{
        operation::{Abstention, Answer, Arguments, Holder, Operate, Resources, ScriptReply, wire},
        parameters::QuorumParameters,
    },
    values::{LeaseId, Resource},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Renew {
    pub(crate) resources: Resources,
    pub(crate) lease_id: LeaseId,
    /// The number of holds: the new number, not a difference, so that a repeated renewal changes nothing.
    pub(crate) holds: u32,
    pub(crate) ttl: Duration,
    /// Whether the renewal extends the lease. Otherwise the ttl is the rest of the validity, and the renewal only reports
    /// the number of holds or queries the lease. A node does not distinguish the two.
    pub(crate) extends: bool,
    pub(crate) token: u64,
    /// Whether a client may wait for the resources. If not, the renewal of a reader extends no yield mark.
    pub(crate) may_have_waiters: bool,
}

impl Operate for Renew {
    fn resources(&self) -> &[Resource] {
        &self.resources
    }

    fn encode(&self, arguments: &mut Arguments<'_>, _: &QuorumParameters) {
        let Self { resources, lease_id, holds, ttl, extends: _, token, may_have_waiters } = self;
        if resources.len() == 1 && !resources.is_any_shared() {
            arguments.short_name("renew");
        } else {
            let leaves_marks = resources.is_any_shared() && !may_have_waiters;
            arguments.name_for(if leaves_marks { "renew_idle" } else { "renew_any" }, resources);
        }
        arguments.lease_id(lease_id).number(*holds).ttl(*ttl).number(*token);
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        match reply {
            ScriptReply::Number(1) => Some(Answer::Renewed { proves: true }),
            ScriptReply::Tagged(b"renewed", [proves]) => {
                Some(Answer::Renewed { proves: wire::number(proves)? == 1 })
            }
            ScriptReply::Tagged(b"renewed_in_quarantine", fields) => {
                Abstention::read(fields).map(Answer::RenewedInQuarantine)
            }
            ScriptReply::Tagged(b"held", holder) => Holder::read(&self.resources, holder).map(Answer::Held),
            ScriptReply::Tagged(b"tombstone", []) => Some(Answer::Tombstone),
            ScriptReply::Tagged(..) | ScriptReply::Number(_) => None,
        }
    }

    /// A renewal is useful until shortly before the end of the lease. In contrast, a lock that waits delays the next
    /// attempt of its call.
    fn waits_while_unresponsive(&self) -> bool {
        mutation::altered(Mutation::ImpatientRenewals, true, |_| false)
    }

    fn acquired_lease(&self) -> Option<&LeaseId> {
        Some(&self.lease_id)
    }
}
