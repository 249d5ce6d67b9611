//! Proclaim: stores the proclamation of a leader beside its lock, if the leader holds the lock.

use std::{fmt, slice, sync::Arc, time::Duration};

use crate::{
    node::{
        operation::{Answer, Arguments, Operate, ScriptReply},
        parameters::QuorumParameters,
    },
    values::{LeaseId, Resource},
};

/// The largest size of a leader's value, in bytes. The limit exists because every node stores the value, and every
/// observer receives the value.
pub(crate) const MAX_VALUE_BYTES: usize = 64 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proclaim {
    pub(crate) resource: Resource,
    pub(crate) proclamation: Proclamation,
    pub(crate) ttl: Duration,
}

/// The published value of a leader, as nodes store it beside the lock.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Proclamation {
    /// The id of the leader's lease.
    pub(crate) lease_id: LeaseId,
    /// The fencing token of the lock.
    pub(crate) term: u64,
    /// The number of the value, which grows with every value of one leader. By this number, a node recognises an
    /// earlier value in a late request, and keeps the later value.
    pub(crate) number: u64,
    pub(crate) value: Arc<[u8]>,
    /// The time of the election by the leader's clock, since the epoch.
    pub(crate) since: Duration,
}

impl fmt::Debug for Proclamation {
    /// Omits the value, which may be long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lease_id, term, number, value, .. } = self;
        write!(f, "{lease_id} in term {term}, number {number}, {} bytes", value.len())
    }
}

impl Operate for Proclaim {
    fn resources(&self) -> &[Resource] {
        slice::from_ref(&self.resource)
    }

    fn encode(&self, arguments: &mut Arguments<'_>, _: &QuorumParameters) {
        let Proclamation { lease_id, term, number, value, since } = &self.proclamation;
        arguments.name("proclaim", 1).lease_id(lease_id).number(*term).number(*number);
        arguments.bytes(value).time(*since).ttl(self.ttl);
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        match reply {
            ScriptReply::Tagged(b"proclaimed", []) => Some(Answer::Proclaimed),
            ScriptReply::Tagged(b"not_leader", []) => Some(Answer::NotLeader),
            ScriptReply::Tagged(..) | ScriptReply::Number(_) => None,
        }
    }
}
