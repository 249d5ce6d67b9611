//! Vacant: returns the resources that have neither a holder nor waiters.

use crate::{
    node::{
        operation::{Abstention, Answer, Arguments, Operate, ScriptReply, wire},
        parameters::QuorumParameters,
    },
    values::Resource,
};

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
}
