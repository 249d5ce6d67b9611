//! List: returns the held resources and the latches of a node, page by page.

use crate::{
    node::{
        operation::{Answer, AnswerSize, Arguments, Operate, ScriptReply, wire},
        parameters::QuorumParameters,
    },
    values::{NodeError, Resource},
};

/// The largest number of names on a page, and of their bytes. A server may return more names than the requested number,
/// which is 100.
const MAX_PAGE_NAMES: usize = 1024;
const MAX_PAGE_BYTES: usize = 65 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct List {
    /// The cursor of the page before; 0 for the first page.
    pub(crate) cursor: u64,
}

/// One page of the resources held at a node, and of the keys of latches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListPage {
    /// The cursor of the next page; 0 after the last page.
    pub(crate) cursor: u64,
    /// The resources and keys of the page. A resource may appear twice; a resource that is held from the first
    /// page to the last is never missing.
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

    fn longest_answer(&self) -> AnswerSize {
        AnswerSize { bytes: MAX_PAGE_BYTES, values: MAX_PAGE_NAMES }
    }
}
