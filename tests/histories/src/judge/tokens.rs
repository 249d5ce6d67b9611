//! The fencing tokens of a resource, or of each slot of a semaphore: a counter that only grows. The token of a reader is
//! above the tokens of all earlier writers, and the token of a writer is above all earlier tokens.

use std::collections::BTreeMap;

use anyhow::{Context, bail};

use super::{operations::Operation, rules::Rules};
use crate::event::Value;

#[derive(Clone, Debug)]
pub(super) enum Tokens {}

/// The largest tokens of writers and readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Largest {
    writer: i64,
    reader: i64,
}

#[derive(Clone, Debug)]
pub(super) struct Act {
    slot: i64,
    token: i64,
    is_read: bool,
}

impl Rules for Tokens {
    type State = BTreeMap<i64, Largest>;
    type Act = Act;

    fn act(operation: &Operation, _all: &[Operation]) -> anyhow::Result<Option<Act>> {
        let is_read = match operation.function.as_str() {
            "acquire" | "acquire-write" | "issue" | "redeem" => false,
            "acquire-read" | "downgrade" => true,
            other => bail!("an unknown operation on tokens: {other}"),
        };
        // No process knows of a token without an answer, so no operation depends on it.
        let Some((_, answer)) = &operation.answer else { return Ok(None) };
        let (slot, token) = match answer.vector() {
            [slot, token] => (slot.number().context("no slot")?, token),
            _ => (0, answer),
        };
        Ok(Some(Act { slot, token: Value::number(token).context("no token")?, is_read }))
    }

    fn apply(largest: &Self::State, act: &Act) -> Option<Self::State> {
        let mut next = largest.clone();
        let slot = next.entry(act.slot).or_default();
        if act.token <= slot.writer || (!act.is_read && act.token <= slot.reader) {
            return None;
        }
        if act.is_read {
            slot.reader = slot.reader.max(act.token);
        } else {
            slot.writer = act.token;
        }
        Some(next)
    }
}
