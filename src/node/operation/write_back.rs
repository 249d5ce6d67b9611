//! To write back: raise the counters of all resources to the token, if they are the owner's and
//! none is above it, or of none.

use crate::{
    node::{
        operation::{Abstention, Answer, Arguments, Operate, Resources, Said, wire},
        parameters::QuorumParameters,
    },
    values::{LeaseId, Resource},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WriteBack {
    pub(crate) resources: Resources,
    pub(crate) owner: LeaseId,
    pub(crate) token: u64,
}

impl Operate for WriteBack {
    fn resources(&self) -> &[Resource] {
        &self.resources
    }

    fn encode(&self, arguments: &mut Arguments<'_>, _: &QuorumParameters) {
        arguments.name_for("write_back", &self.resources).owner(&self.owner).number(self.token);
    }

    fn decode(&self, said: Said<'_>) -> Option<Answer> {
        match said {
            Said::Tagged(b"written_back", []) => Some(Answer::WrittenBack),
            Said::Tagged(b"not_written_back", [counter]) => {
                wire::number(counter).map(|counter| Answer::NotWrittenBack { counter })
            }
            Said::Tagged(b"abstains", fields) => Abstention::read(fields).map(Answer::Abstains),
            Said::Tagged(..) | Said::Number(_) => None,
        }
    }

    fn taker(&self) -> Option<&LeaseId> {
        Some(&self.owner)
    }
}
