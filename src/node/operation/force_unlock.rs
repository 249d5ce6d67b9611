//! Force-unlock: deletes the keys of any lease, and leaves a tombstone that refuses renewals of the lease.

use crate::{
    clock::Instant,
    node::{
        operation::{Answer, Arguments, Operate, Resources, ScriptReply, unlock::unlocked},
        parameters::QuorumParameters,
    },
    values::Resource,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForceUnlock {
    pub(crate) resources: Resources,
}

impl Operate for ForceUnlock {
    fn resources(&self) -> &[Resource] {
        &self.resources
    }

    fn encode(&self, arguments: &mut Arguments<'_>, _: &QuorumParameters) {
        arguments.name("force_unlock", self.resources.len());
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        unlocked(reply)
    }

    fn concerns_other_clients(&self, _: Option<Instant>) -> bool {
        true
    }
}
