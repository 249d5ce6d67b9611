//! To list: tell which resources are held, a part at a time.

use crate::{
    node::{
        operation::{Answer, Arguments, Operate, ScriptReply, wire},
        parameters::QuorumParameters,
    },
    values::{NodeError, Resource},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct List {
    /// 0 at first, then the one that the node has told last.
    pub(crate) cursor: u64,
}

/// One page of the resources held at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListPage {
    /// Where to go on; 0 at the end.
    pub(crate) cursor: u64,
    /// A resource may be told twice. One that is held from the first part to the last is told.
    pub(crate) resources: Vec<Resource>,
}

impl Operate for List {
    fn resources(&self) -> &[Resource] {
        &[]
    }

    fn encode(&self, arguments: &mut Arguments<'_>, _: &QuorumParameters) {
        arguments.name("list", 0).number(self.cursor);
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        match reply {
            ScriptReply::Tagged(b"listed", [cursor, resources @ ..]) => {
                let resource = |value: &wire::Value| wire::bytes(value).map(Resource::internal);
                let resources = resources.iter().map(resource).collect::<Option<_>>()?;
                Some(Answer::Listed(ListPage { cursor: wire::number(cursor)?, resources }))
            }
            ScriptReply::Tagged(b"no_scan", []) => Some(Answer::Error(NodeError::ScanForbidden)),
            _ => None,
        }
    }

    /// A server may tell more at once than it was asked for.
    fn has_long_answer(&self) -> bool {
        true
    }
}
