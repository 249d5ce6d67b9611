//! Record replacements: reads or changes the record of replaced nodes in the metadata of a node.

use std::sync::Arc;

use crate::{
    clock::Instant,
    node::{
        operation::{Abstention, Answer, Arguments, Operate, ScriptReply, wire},
        parameters::QuorumParameters,
    },
    values::Resource,
};

/// The change of the record from one text to another. A node with a third text keeps this text, and returns it. The node
/// writes its record in any case, so an answer shows that the node accepts writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordReplacements {
    pub(crate) from: Arc<str>,
    pub(crate) to: Arc<str>,
}

impl Operate for RecordReplacements {
    fn resources(&self) -> &[Resource] {
        &[]
    }

    fn encode(&self, arguments: &mut Arguments<'_>, _: &QuorumParameters) {
        let Self { from, to } = self;
        arguments.name("record_replacements", 0).bytes(from.as_bytes()).bytes(to.as_bytes());
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        match reply {
            ScriptReply::Tagged(b"recorded", [text]) => {
                wire::text(text).map(|text| Answer::Recorded { text: text.into() })
            }
            ScriptReply::Tagged(b"abstains", []) => Some(Answer::Abstains(Abstention::NotRegistered)),
            _ => None,
        }
    }

    fn concerns_other_clients(&self, _: Option<Instant>) -> bool {
        true
    }
}
