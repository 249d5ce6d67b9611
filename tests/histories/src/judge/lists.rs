//! The lists in the store: a transaction reads a list and appends an element to it, or reads a list twice.

use std::collections::BTreeMap;

use anyhow::{Context, bail};

use super::{operations::Operation, rules::Rules};
use crate::event::Value;

#[derive(Clone, Debug)]
pub(super) enum Lists {}

#[derive(Clone, Debug)]
pub(super) enum Act {
    Append { list: i64, read: Vec<i64>, element: i64 },
    ReadTwice { list: i64, first: Vec<i64>, second: Vec<i64> },
}

impl Rules for Lists {
    type State = BTreeMap<i64, Vec<i64>>;
    type Act = Act;

    fn act(operation: &Operation, all: &[Operation]) -> anyhow::Result<Option<Act>> {
        let parts = match &operation.answer {
            Some((_, answer)) => answer,
            None => &operation.asked,
        };
        let [first, second] = parts.vector() else { bail!("a transaction has two parts, and not {parts}") };
        let (first, second) = (Part::parse(first)?, Part::parse(second)?);
        let list = first.list;
        match (&operation.answer, second.is_append) {
            (Some(_), true) => {
                let element = second.value.number().context("no element")?;
                Ok(Some(Act::Append { list, read: numbers(first.value), element }))
            }
            (Some(_), false) => {
                let (first, second) = (numbers(first.value), numbers(second.value));
                Ok(Some(Act::ReadTwice { list, first, second }))
            }
            (None, true) => {
                let element = second.value.number().context("no element")?;
                let read = before_first_read(list, element, all)?;
                Ok(read.map(|read| Act::Append { list, read, element }))
            }
            (None, false) => Ok(None),
        }
    }

    fn apply(lists: &Self::State, act: &Act) -> Option<Self::State> {
        match act {
            Act::Append { list, read, element } => {
                let mut lists = lists.clone();
                let present = lists.entry(*list).or_default();
                (present == read).then(|| present.push(*element))?;
                Some(lists)
            }
            Act::ReadTwice { list, first, second } => {
                let present = lists.get(list).map_or(&[][..], Vec::as_slice);
                (present == first && present == second).then(|| lists.clone())
            }
        }
    }
}

/// One part of a transaction: `[:r list elements]` or `[:append list element]`.
struct Part<'v> {
    is_append: bool,
    list: i64,
    value: &'v Value,
}

impl<'v> Part<'v> {
    fn parse(part: &'v Value) -> anyhow::Result<Self> {
        let [Value::Keyword(name), list, value] = part.vector() else {
            bail!("no part of a transaction: {part}")
        };
        let is_append = match name.as_str() {
            "append" => true,
            "r" => false,
            other => bail!("an unknown part of a transaction: {other}"),
        };
        Ok(Self { is_append, list: list.number().context("no list")?, value })
    }
}

fn numbers(elements: &Value) -> Vec<i64> {
    elements.vector().iter().filter_map(Value::number).collect()
}

/// Returns the elements before this element in the first read of the list that has the element. Elements are unique, and
/// a list only grows, so the list was equal to these elements before the append. Returns `None` if no operation has read
/// the element: then no operation depends on the append.
fn before_first_read(list: i64, element: i64, all: &[Operation]) -> anyhow::Result<Option<Vec<i64>>> {
    for (_, answer) in all.iter().filter_map(|operation| operation.answer.as_ref()) {
        for part in answer.vector() {
            let part = Part::parse(part)?;
            if part.is_append || part.list != list {
                continue;
            }
            let mut read = numbers(part.value);
            if let Some(position) = read.iter().position(|e| *e == element) {
                read.truncate(position);
                return Ok(Some(read));
            }
        }
    }
    Ok(None)
}
