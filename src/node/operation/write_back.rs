//! Write-back: raises the counters of all resources to the token. No counter changes if the lease does not hold
//! all resources, or if a counter exceeds the token.

use crate::{
    node::{
        operation::{Abstention, Answer, Arguments, Operate, Resources, ScriptReply, wire},
        parameters::QuorumParameters,
    },
    values::{LeaseId, Resource},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WriteBack {
    pub(crate) resources: Resources,
    pub(crate) lease_id: LeaseId,
    pub(crate) token: u64,
}

impl Operate for WriteBack {
    fn resources(&self) -> &[Resource] {
        &self.resources
    }

    fn encode(&self, arguments: &mut Arguments<'_>, _: &QuorumParameters) {
        arguments.name_for("write_back", &self.resources).lease_id(&self.lease_id).number(self.token);
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        match reply {
            ScriptReply::Tagged(b"written_back", []) => Some(Answer::WrittenBack),
            ScriptReply::Tagged(b"not_written_back", [counter]) => {
                wire::number(counter).map(|counter| Answer::NotWrittenBack { counter })
            }
            ScriptReply::Tagged(b"abstains", fields) => Abstention::read(fields).map(Answer::Abstains),
            ScriptReply::Tagged(..) | ScriptReply::Number(_) => None,
        }
    }

    fn acquired_lease(&self) -> Option<&LeaseId> {
        Some(&self.lease_id)
    }
}
