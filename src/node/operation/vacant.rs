//! Vacant: returns the resources that have neither a holder nor waiters.

use crate::{
    node::{
        operation::{Abstention, Answer, AnswerSize, Arguments, Operate, ScriptReply, wire},
        parameters::QuorumParameters,
    },
    values::Resource,
};

/// The largest number of bytes of an index in an answer, as in `:1023`.
const MAX_INDEX_BYTES: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Vacant {
    pub(crate) resources: Vec<Resource>,
    /// The maximum number of resources in the answer.
    pub(crate) max_resources: u32,
    /// Whether resources with a yield mark or a writer mark count as vacant.
    pub(crate) ignores_marks: bool,
}

impl Operate for Vacant {
    fn resources(&self) -> &[Resource] {
        &self.resources
    }

    fn encode(&self, arguments: &mut Arguments<'_>, _: &QuorumParameters) {
        arguments.name("vacant", self.resources.len()).number(self.max_resources).number(self.ignores_marks);
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        match reply {
            ScriptReply::Tagged(b"vacant", indices) => {
                let index = |value: &wire::Value| wire::index(&self.resources, value);
                indices.iter().map(index).collect::<Option<_>>().map(Answer::Vacant)
            }
            ScriptReply::Tagged(b"abstains", fields) => Abstention::read(fields).map(Answer::Abstains),
            _ => None,
        }
    }

    fn longest_answer(&self) -> AnswerSize {
        let values = self.resources.len().min(self.max_resources as usize);
        AnswerSize { bytes: values * MAX_INDEX_BYTES, values }
    }
}
