//! To proclaim: keep what a leader says of itself beside its lock, unless it is not its lock.

use std::{fmt, slice, sync::Arc, time::Duration};

use crate::{
    node::{
        operation::{Answer, Arguments, Operate, ScriptReply},
        parameters::QuorumParameters,
    },
    values::{LeaseId, Resource},
};

/// The longest value of a leader, in bytes: every node keeps it, and every observer is sent it.
pub(crate) const LONGEST_VALUE: usize = 64 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proclaim {
    pub(crate) resource: Resource,
    pub(crate) said: Proclamation,
    pub(crate) ttl: Duration,
}

/// What a leader says of itself, as nodes keep it beside its lock.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Proclamation {
    /// Whose lock it stands beside.
    pub(crate) owner: LeaseId,
    /// The lock's fencing token.
    pub(crate) term: u64,
    /// Grows with every value of one leader: what arrives late does not replace what was said after
    /// it.
    pub(crate) number: u64,
    pub(crate) value: Arc<[u8]>,
    /// When it was elected, by its own time of day since the epoch.
    pub(crate) since: Duration,
}

impl fmt::Debug for Proclamation {
    /// Without the value, which may be long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, term, number, value, .. } = self;
        write!(f, "{owner} in term {term}, number {number}, {} bytes", value.len())
    }
}

impl Operate for Proclaim {
    fn resources(&self) -> &[Resource] {
        slice::from_ref(&self.resource)
    }

    fn encode(&self, arguments: &mut Arguments<'_>, _: &QuorumParameters) {
        let Proclamation { owner, term, number, value, since } = &self.said;
        arguments.name("proclaim", 1).owner(owner).number(*term).number(*number);
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
