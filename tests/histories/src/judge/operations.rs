//! The operations of a history: each beginning with its end.

use std::collections::BTreeMap;

use crate::{
    event::{Stage, Value},
    history::History,
};

/// An operation that has happened or may have happened.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) function: String,
    /// The position of its beginning in the history.
    pub(crate) begin: usize,
    pub(crate) asked: Value,
    /// The position of its end, and its answer. `None` if the end is unknown.
    pub(crate) answer: Option<(usize, Value)>,
}

/// Returns the operations of a history in the order of their beginnings, without operations that have not happened.
pub(crate) fn operations(history: &History) -> Vec<Operation> {
    let mut open: BTreeMap<i64, Operation> = BTreeMap::new();
    let mut operations = Vec::new();
    for (position, event) in history.events().iter().enumerate() {
        let Some(mut operation) = (match event.stage {
            Stage::Invoke => {
                let (function, asked) = (event.function.clone(), event.value.clone());
                open.insert(event.process, Operation { function, begin: position, asked, answer: None })
            }
            Stage::Fail => {
                open.remove(&event.process);
                None
            }
            Stage::Ok | Stage::Info | Stage::Until => open.remove(&event.process),
        }) else {
            continue;
        };
        if event.stage == Stage::Ok {
            operation.answer = Some((position, event.value.clone()));
        }
        operations.push(operation);
    }
    operations.extend(open.into_values());
    operations.sort_by_key(|operation| operation.begin);
    operations
}
