//! The script that executes entries on a server: its text, its arguments, its reply.
//!
//! One script for all operations: with one for each, a lock could miss the server's script cache
//! while the unlock behind it hits.

use std::{fmt, sync::LazyLock, time::Duration};

use redis::{Cmd, RedisWrite, ToRedisArgs, Value};

use crate::{
    node::{
        answer::{Abstention, Answer, HeldBy, Holder, Inspection, Observation, Queued, Registration},
        parameters::{Incarnation, QuarantineParameters, QuorumParameters, RestartGuard},
        proclamation::Proclamation,
        redis::classify::{classify_caught, classify_code},
        request::{Enqueue, Entry, NewNodes, Proclaim, Tombstone, Unlock},
        ttl::whole_milliseconds,
    },
    values::{Fingerprint, NodeError, OwnerId, Resource},
};

#[cfg(test)]
mod tests;

/// What is asked for most is done by `dispatch.lua` alone, and everything else is defined only when
/// it is needed: `node.lua` says why.
const TEXT: &str = concat!(
    "local function define()\n",
    include_str!("scripts/node.lua"),
    include_str!("scripts/reading.lua"),
    include_str!("scripts/guard.lua"),
    include_str!("scripts/writing.lua"),
    include_str!("scripts/lock_any.lua"),
    include_str!("scripts/write_back.lua"),
    include_str!("scripts/renew_any.lua"),
    include_str!("scripts/unlock_any.lua"),
    "function node.define_others()\n",
    include_str!("scripts/queue.lua"),
    include_str!("scripts/enqueue.lua"),
    include_str!("scripts/withdraw.lua"),
    include_str!("scripts/force_unlock.lua"),
    include_str!("scripts/inspect.lua"),
    include_str!("scripts/leading.lua"),
    include_str!("scripts/proclaim.lua"),
    include_str!("scripts/observe.lua"),
    include_str!("scripts/registration.lua"),
    include_str!("scripts/register.lua"),
    include_str!("scripts/init.lua"),
    include_str!("scripts/reconfigure.lua"),
    "end\nreturn node\nend\n",
    include_str!("scripts/dispatch.lua"),
);

static SHA: LazyLock<String> = LazyLock::new(|| sha1_smol::Sha1::from(TEXT).digest().to_string());

/// The script, as `SCRIPT LOAD` takes it.
pub(crate) fn text() -> &'static str {
    TEXT
}

/// The script's name in the server's cache.
pub(crate) fn sha() -> &'static str {
    &SHA
}

/// The call that executes `entries` in order.
///
/// ```text
/// EVALSHA sha | EVAL text  numkeys  resources of all entries ...
///         fingerprint incarnation counter_ttl guard+max_ttl+hand_over  { lock | unlock | release | release_late | renew arguments ... |
///         operation resources-count arguments ... } ...
/// ```
///
/// Every argument costs a server about half as much as to read a key, so there are as few as can
/// be.
pub(crate) fn command(parameters: &QuorumParameters, entries: &[Entry]) -> Cmd {
    // Room for what is asked for most, so that it need not grow.
    let mut command = Cmd::with_capacity(7 + 8 * entries.len(), 256 + 128 * entries.len());
    // A registration brings the script along: between loading it and registering, a call of another
    // client that shares the server connection could be executed by a server that has not been
    // asked yet whether it forgot.
    if entries.iter().any(|entry| matches!(entry, Entry::Register(_))) {
        command.arg("EVAL").arg(text());
    } else {
        command.arg("EVALSHA").arg(sha());
    }
    command.arg(entries.iter().map(|entry| entry.resources().len()).sum::<usize>());
    for resource in entries.iter().flat_map(Entry::resources) {
        command.arg(resource.as_bytes());
    }
    let QuorumParameters { fingerprint, guard, max_ttl, counter_ttl, quarantine, hand_over, incarnation } =
        parameters;
    let (guard, incarnation) = match guard {
        RestartGuard::PerConnection => ("per_connection", incarnation.as_deref().unwrap_or_default()),
        // The metadata of no node is of this incarnation, and no lock or renewal takes a short way:
        // each asks the server for its incarnation.
        RestartGuard::PerVote => ("per_vote", "-"),
        RestartGuard::Off => ("off", incarnation.as_deref().unwrap_or_default()),
    };
    command.arg(fingerprint.as_str()).arg(incarnation).arg(whole_milliseconds(*counter_ttl));
    let (max_ttl, hand_over) = (whole_milliseconds(*max_ttl), whole_milliseconds(*hand_over));
    command.arg(Joined(format_args!("{guard} {max_ttl} {hand_over}")));
    for entry in entries {
        encode(&mut command, entry, *quarantine);
    }
    command
}

fn encode(command: &mut Cmd, entry: &Entry, quarantine: QuarantineParameters) {
    let count = entry.resources().len();
    match entry {
        Entry::Lock(lock) => {
            let (owner, ttl) = (lock.owner.as_bytes(), whole_milliseconds(lock.ttl));
            if !lock.has_turn && lock.hint == 0 && count == 1 {
                command.arg("lock").arg(owner).arg(ttl)
            } else {
                let lock_or_take = if lock.has_turn { "take" } else { "lock_any" };
                command.arg(lock_or_take).arg(count).arg(owner).arg(ttl).arg(lock.hint)
            }
        }
        Entry::WriteBack(write_back) => {
            command.arg("write_back").arg(count).arg(write_back.owner.as_bytes()).arg(write_back.token)
        }
        Entry::Renew(renew) => {
            operation(command, "renew", "renew_any", count).arg(renew.owner.as_bytes()).arg(renew.holds);
            command.arg(whole_milliseconds(renew.ttl)).arg(renew.token)
        }
        Entry::Unlock(unlock) => encode_unlock(command, unlock),
        Entry::Enqueue(Enqueue { lock, resource, waiter, ticket, entry_ttl, only_waits }) => {
            command.arg("enqueue").arg(count).arg(lock.owner.as_bytes());
            command.arg(whole_milliseconds(lock.ttl)).arg(lock.hint);
            command.arg(waiter.as_bytes()).arg(*ticket).arg(entry_ttl.map_or(0, whole_milliseconds));
            command.arg(*resource).arg(u8::from(*only_waits))
        }
        Entry::Withdraw(withdraw) => command.arg("withdraw").arg(count).arg(withdraw.waiter.as_bytes()),
        Entry::ForceUnlock(_) => command.arg("force_unlock").arg(count),
        Entry::Inspect(_) => command.arg("inspect").arg(count),
        Entry::Proclaim(Proclaim { said, ttl, .. }) => {
            command.arg("proclaim").arg(count).arg(said.owner.as_bytes()).arg(said.term).arg(said.number);
            command.arg(&*said.value).arg(whole_milliseconds(said.since)).arg(whole_milliseconds(*ttl))
        }
        Entry::Observe(_) => command.arg("observe").arg(count),
        Entry::Register(register) => {
            command.arg("register").arg(count).arg(match register.new_nodes {
                NewNodes::Quarantine => "quarantine",
                NewNodes::Admit => "admit",
                NewNodes::Leave => "leave",
            });
            command.arg(register.time.as_millis().to_string());
            let QuarantineParameters { lasts, renewals_after } = quarantine;
            command.arg(whole_milliseconds(lasts)).arg(whole_milliseconds(renewals_after))
        }
        Entry::Init(init) => {
            command.arg("init").arg(count).arg(u8::from(!init.is_rehearsal));
            command.arg(init.time.as_millis().to_string())
        }
        Entry::Reconfigure(change) => {
            command.arg("reconfigure").arg(count).arg(change.from.as_str()).arg(change.to.as_str())
        }
    };
}

fn encode_unlock<'a>(command: &'a mut Cmd, unlock: &Unlock) -> &'a mut Cmd {
    let Unlock { resources, owner, notify, tombstone, is_awaited } = unlock;
    let owner = owner.as_bytes();
    if *notify && !is_awaited && has_shortest(resources) {
        match tombstone {
            Tombstone::Never => return command.arg("release").arg(owner),
            Tombstone::IfMissing => return command.arg("release_late").arg(owner),
            Tombstone::Always => {}
        }
    }
    operation(command, "unlock", "unlock_any", resources.len()).arg(owner);
    let mark = if *is_awaited { "1" } else { "" };
    command.arg(Joined(format_args!("{}{}{mark}", u8::from(*notify), *tombstone as u8)))
}

/// Whether there are operations that derive other names from this one in the simplest way.
fn has_shortest(resources: &[Resource]) -> bool {
    matches!(resources, [resource] if !resource.as_bytes().contains(&b'{'))
}

/// The name of the short way of one resource alone, or of the long one with the number of
/// resources.
fn operation<'a>(command: &'a mut Cmd, short: &str, long: &str, count: usize) -> &'a mut Cmd {
    if count == 1 { command.arg(short) } else { command.arg(long).arg(count) }
}

/// Several values as one argument.
struct Joined<'a>(fmt::Arguments<'a>);

impl ToRedisArgs for Joined<'_> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        out.write_arg_fmt(self.0);
    }
}

/// The answers to `entries`; whatever does not have the shape of one is a protocol error of its
/// entry.
pub(crate) fn decode(entries: &[Entry], reply: Value) -> Vec<Answer> {
    let all = |node_error: NodeError| vec![Answer::Error(node_error); entries.len()];
    match reply {
        Value::Array(answers) if answers.len() == entries.len() => {
            entries.iter().zip(&answers).map(|(entry, answer)| decode_one(entry, answer)).collect()
        }
        Value::ServerError(error) => all(classify_code(error.code(), error.details().unwrap_or_default())),
        other => all(misshapen(&other)),
    }
}

fn decode_one(entry: &Entry, answer: &Value) -> Answer {
    parse(entry, answer).unwrap_or_else(|| Answer::Error(misshapen(answer)))
}

fn parse(entry: &Entry, answer: &Value) -> Option<Answer> {
    let parts = match (entry, answer) {
        // The answers that are given most are bare numbers: a table costs the server more than the
        // number in it.
        (Entry::Lock(_) | Entry::Enqueue(_), Value::Int(vote)) => {
            return Some(Answer::Granted { vote: u64::try_from(*vote).ok()? });
        }
        (Entry::Renew(_), Value::Int(1)) => return Some(Answer::Renewed { proves: true }),
        (Entry::Unlock(_) | Entry::ForceUnlock(_), Value::Int(deleted)) => {
            return Some(Answer::Unlocked { deleted: u32::try_from(*deleted).ok()? });
        }
        (_, Value::Array(parts)) => parts,
        _ => return None,
    };
    let (tag, fields) = parts.split_first()?;
    let parsed = match (entry, bytes(tag)?, fields) {
        (_, b"error", [text]) => Answer::Error(classify_caught(&String::from_utf8_lossy(bytes(text)?))),
        (_, b"counter", [text]) => {
            Answer::Error(NodeError::Counter(String::from_utf8_lossy(bytes(text)?).into()))
        }
        (_, b"awaited", [inner]) => return parse(entry, inner).map(|answer| answer.awaited(true)),
        (_, b"wrong_quorum", [fingerprint]) => {
            Answer::WrongQuorum { fingerprint: fingerprint_of(fingerprint)? }
        }
        (
            Entry::Lock(_) | Entry::Enqueue(_) | Entry::WriteBack(_) | Entry::Reconfigure(_),
            b"abstains",
            [],
        ) => Answer::Abstains(Abstention::NotRegistered),
        (Entry::Lock(_) | Entry::Enqueue(_) | Entry::WriteBack(_), b"abstains", [remaining]) => {
            Answer::Abstains(Abstention::Quarantined(Duration::from_millis(number(remaining)?)))
        }
        (Entry::Renew(_), b"renewed_in_quarantine", []) => {
            Answer::RenewedInQuarantine(Abstention::NotRegistered)
        }
        (Entry::Renew(_), b"renewed_in_quarantine", [remaining]) => {
            Answer::RenewedInQuarantine(Abstention::Quarantined(Duration::from_millis(number(remaining)?)))
        }
        (Entry::Register(_) | Entry::Init(_), b"clock_off", [gap]) => {
            Answer::Error(NodeError::ClockOff(Duration::from_millis(number(gap)?)))
        }
        (Entry::Register(_) | Entry::Init(_), b"no_run_id", []) => Answer::Error(NodeError::RunIdForbidden),
        (Entry::Init(_), b"already_registered", [fingerprint]) => {
            Answer::AlreadyRegistered { fingerprint: fingerprint_of(fingerprint)? }
        }
        (
            Entry::Register(_) | Entry::Init(_) | Entry::Reconfigure(_),
            b"registered",
            [incarnation, rest @ ..],
        ) => {
            let quarantine = match rest {
                [] => None,
                [remaining] => Some(Duration::from_millis(number(remaining)?)),
                _ => return None,
            };
            Answer::Registered(Registration { incarnation: incarnation_of(incarnation), quarantine })
        }
        (Entry::Lock(_) | Entry::Renew(_), b"held", holder) => Answer::Held(holder_of(entry, holder)?),
        (Entry::Lock(_) | Entry::Enqueue(_), b"queued", [resource, ticket, rank, patience, holder @ ..]) => {
            Answer::Queued(Queued {
                resource: index_of(entry, resource)?,
                ticket: number(ticket)?,
                rank: u32::try_from(number(rank)?).ok()?,
                patience: Duration::from_millis(number(patience)?),
                holder: if holder.is_empty() { None } else { Some(holder_of(entry, holder)?) },
            })
        }
        (Entry::Withdraw(_), b"withdrawn", []) => Answer::Withdrawn,
        (Entry::Lock(_) | Entry::Enqueue(_) | Entry::Renew(_), b"gone", []) => Answer::Gone,
        (Entry::WriteBack(_), b"written_back", []) => Answer::WrittenBack,
        (Entry::WriteBack(_), b"not_written_back", [counter]) => {
            Answer::NotWrittenBack { counter: number(counter)? }
        }
        (Entry::Renew(_), b"renewed", [proves]) => Answer::Renewed { proves: number(proves)? == 1 },
        (Entry::Inspect(_), b"inspected", [counter, incarnation, fingerprint, abstains, holder @ ..]) => {
            let held = match holder {
                [] => None,
                // What others write may be no number, and a ttl that is negative is none.
                [owner, holds, remaining] => Some(HeldBy {
                    owner: owner_of(owner)?,
                    holds: number(holds).and_then(|holds| u32::try_from(holds).ok()).unwrap_or(0),
                    remaining: number(remaining).map(Duration::from_millis),
                }),
                _ => return None,
            };
            Answer::Inspected(Inspection {
                held,
                counter: number(counter)?,
                incarnation: incarnation_of(incarnation),
                fingerprint: fingerprint_of(fingerprint),
                abstention: abstention_of(abstains),
            })
        }
        (Entry::Proclaim(_), b"proclaimed", []) => Answer::Proclaimed,
        (Entry::Proclaim(_), b"not_leader", []) => Answer::NotLeader,
        (Entry::Observe(_), b"observed", [owner, remaining, said @ ..]) => Answer::Observed(Observation {
            owner: owner_of(owner)?,
            remaining: number(remaining).map(Duration::from_millis),
            said: proclamation(said),
        }),
        _ => return None,
    };
    Some(parsed)
}

/// The holder that stands in the way of a lock.
fn holder_of(entry: &Entry, fields: &[Value]) -> Option<Holder> {
    let [resource, owner, remaining, counter] = fields else { return None };
    Some(Holder {
        resource: index_of(entry, resource)?,
        owner: owner_of(owner)?,
        remaining: Duration::from_millis(number(remaining)?),
        counter: number(counter)?,
    })
}

/// One of the resources of an entry.
fn index_of(entry: &Entry, value: &Value) -> Option<usize> {
    let index = usize::try_from(number(value)?).ok()?;
    entry.resources().get(index).map(|_| index)
}

/// What others write there may be anything, and is nobody's proclamation then.
fn proclamation(fields: &[Value]) -> Option<Proclamation> {
    let [owner, term, number_of, value, since] = fields else { return None };
    Some(Proclamation {
        owner: OwnerId::from_wire(bytes(owner)?),
        term: number(term)?,
        number: number(number_of)?,
        value: bytes(value)?.into(),
        since: Duration::from_millis(number(since)?),
    })
}

fn fingerprint_of(value: &Value) -> Option<Fingerprint> {
    bytes(value).map(|bytes| Fingerprint::new(&String::from_utf8_lossy(bytes)))
}

/// Why the node would not vote: for so many milliseconds, or for a negative number, until it has
/// registered.
fn abstention_of(value: &Value) -> Option<Abstention> {
    match value {
        Value::Int(remaining) => {
            Some(u64::try_from(*remaining).map_or(Abstention::NotRegistered, |rest| {
                Abstention::Quarantined(Duration::from_millis(rest))
            }))
        }
        _ => None,
    }
}

/// The server's incarnation, unless the user may not know it.
fn incarnation_of(value: &Value) -> Option<Incarnation> {
    bytes(value).map(|bytes| String::from_utf8_lossy(bytes).into())
}

fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        value => str::from_utf8(bytes(value)?).ok()?.parse().ok(),
    }
}

fn owner_of(value: &Value) -> Option<Option<OwnerId>> {
    match value {
        Value::Nil => Some(None),
        value => bytes(value).map(|owner| Some(OwnerId::from_wire(owner))),
    }
}

/// Shows the start of what came: a reply may be megabytes long.
fn misshapen(value: &Value) -> NodeError {
    let shown: String = format!("{value:?}").chars().take(200).collect();
    NodeError::Protocol(format!("not an answer: {shown}").into())
}
