//! Count permits: records the number of permits that a client counts for a semaphore, and returns the number that was
//! recorded before.

use std::{slice, time::Duration};

use crate::{
    node::{
        operation::{Answer, Arguments, Operate, ScriptReply, wire},
        parameters::QuorumParameters,
    },
    values::Resource,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CountPermits {
    pub(crate) semaphore: Resource,
    pub(crate) permits: u32,
    /// The time for which the node keeps the number.
    pub(crate) ttl: Duration,
}

impl Operate for CountPermits {
    fn resources(&self) -> &[Resource] {
        slice::from_ref(&self.semaphore)
    }

    fn encode(&self, arguments: &mut Arguments<'_>, _: &QuorumParameters) {
        arguments.name("count_permits", 1).number(self.permits).ttl(self.ttl);
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        match reply {
            // A number that another program has written in another form counts as none.
            ScriptReply::Tagged(b"counted", [before]) => Some(Answer::PermitsCounted {
                before: wire::number(before).and_then(|before| u32::try_from(before).ok()),
            }),
            _ => None,
        }
    }
}
