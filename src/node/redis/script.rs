//! The script that a node runs: its text, its arguments and its answers. It knows locks and unlocks of one resource.

use std::time::Duration;

use redis::{Cmd, Value};

use crate::node::{Answer, Entry, Fault, Holder, Terms, names};

/// The script.
pub(crate) fn text() -> &'static str {
    include_str!("lock.lua")
}

/// The name under which a server keeps it.
pub(crate) fn sha() -> &'static str {
    "e50bb476c594986f799049a83fa95ee74268d6ba"
}

/// Runs the script for these entries.
pub(crate) fn command(_: &Terms, entries: &[Entry]) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(sha()).arg(0);
    for entry in entries {
        let (operation, owner, ttl, resources) = match entry {
            Entry::Lock(lock) => ("lock", &lock.owner, lock.ttl, &lock.resources),
            Entry::Unlock(unlock) => {
                let operation = if unlock.real { "real" } else { "rollback" };
                (operation, &unlock.owner, Duration::ZERO, &unlock.resources)
            }
            _ => continue,
        };
        for resource in resources.iter().take(1) {
            let counter = [b"redisson_lock_token:{", resource.as_bytes(), b"}"].concat();
            command.arg(operation).arg(owner.as_bytes()).arg(ttl.as_millis() as u64);
            command.arg(resource.as_bytes()).arg(counter).arg(names::notice_channel(resource));
        }
    }
    command
}

/// What the reply says to each entry.
pub(crate) fn decode(entries: &[Entry], reply: Value) -> Vec<Answer> {
    let Value::Array(values) = reply else {
        return vec![Answer::Fault(Fault::Protocol("no array".into())); entries.len()];
    };
    let answer = |value: Value| match value {
        Value::Array(pair) => match &*pair {
            [Value::Int(1), Value::Int(vote)] => Answer::Granted { vote: vote.unsigned_abs() },
            [Value::Int(0), Value::Int(ttl)] => Answer::Held(Holder {
                resource: 0,
                owner: None,
                remaining: Duration::from_millis(ttl.unsigned_abs()),
                counter: 0,
            }),
            [Value::Int(2), Value::Int(deleted)] => {
                Answer::Unlocked { deleted: u32::try_from(*deleted).unwrap_or(0) }
            }
            _ => Answer::Fault(Fault::Protocol("no such answer".into())),
        },
        _ => Answer::Fault(Fault::Protocol("no answer".into())),
    };
    values.into_iter().map(answer).collect()
}
