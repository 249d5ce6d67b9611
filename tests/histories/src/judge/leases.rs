//! The leases on a resource, or on each slot of a semaphore: at most one lease that writes, or any leases that read, or
//! a ticket.
//!
//! Each lease has a number. Operations name leases by their numbers, so the end of one lease ends no other lease.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};

use super::{operations::Operation, rules::Rules};
use crate::event::Value;

#[derive(Clone, Debug)]
pub(super) enum Leases {}

/// The holder of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Holder {
    Writer(i64),
    Readers(BTreeSet<i64>),
    Ticket(i64),
}

#[derive(Clone, Debug)]
pub(super) enum Act {
    Acquire {
        slot: i64,
        lease: i64,
    },
    AcquireToRead {
        lease: i64,
    },
    /// The end of the lease.
    Release {
        lease: i64,
    },
    /// The exchange of the lease for a lease that reads.
    Downgrade {
        lease: i64,
        reader: i64,
    },
    /// The exchange of the lease for a ticket.
    Issue {
        lease: i64,
        ticket: i64,
    },
    /// The exchange of the ticket for a lease.
    Redeem {
        ticket: i64,
        lease: i64,
    },
    /// The end of the ticket by its ttl, or by a redemption in vain.
    Spend {
        ticket: i64,
    },
    /// The release of the ticket, which may have ended before.
    ReleaseTicket {
        ticket: i64,
    },
}

impl Rules for Leases {
    type State = BTreeMap<i64, Holder>;
    type Act = Act;

    fn act(operation: &Operation, _all: &[Operation]) -> anyhow::Result<Option<Act>> {
        let asked = || operation.asked.number().context("no number of a lease or ticket");
        let answer = operation.answer.as_ref().map(|(_, answer)| answer);
        let Some(answer) = answer else {
            return Ok(match operation.function.as_str() {
                // No process knows of the lease, so no operation depends on it.
                "acquire" | "acquire-read" | "acquire-write" => None,
                // The lease is over, and no process knows of a reader or a ticket.
                "release" | "downgrade" | "issue" => Some(Act::Release { lease: asked()? }),
                // The lease that redeemed the ticket, if any, ends unknown.
                "redeem" | "expire" | "release-ticket" => Some(Act::Spend { ticket: asked()? }),
                other => bail!("an unknown operation on leases: {other}"),
            });
        };
        let second = || answer.vector().get(1).and_then(Value::number);
        Ok(Some(match operation.function.as_str() {
            "acquire" | "acquire-write" => match answer.vector() {
                [slot, lease] => Act::Acquire {
                    slot: slot.number().context("no slot")?,
                    lease: lease.number().context("no lease")?,
                },
                _ => Act::Acquire { slot: 0, lease: answer.number().context("no lease")? },
            },
            "acquire-read" => Act::AcquireToRead { lease: answer.number().context("no lease")? },
            "release" => Act::Release { lease: asked()? },
            "downgrade" => match second() {
                Some(reader) => Act::Downgrade { lease: asked()?, reader },
                None => Act::Release { lease: asked()? },
            },
            "issue" => match second() {
                Some(ticket) => Act::Issue { lease: asked()?, ticket },
                None => Act::Release { lease: asked()? },
            },
            "redeem" => Act::Redeem { ticket: asked()?, lease: answer.number().context("no lease")? },
            "release-ticket" => Act::ReleaseTicket { ticket: asked()? },
            other => bail!("an unknown operation on leases: {other}"),
        }))
    }

    fn apply(held: &Self::State, act: &Act) -> Option<Self::State> {
        let mut held = held.clone();
        match act {
            Act::Acquire { slot, lease } => {
                if held.insert(*slot, Holder::Writer(*lease)).is_some() {
                    return None;
                }
            }
            Act::AcquireToRead { lease } => {
                match held.entry(0).or_insert_with(|| Holder::Readers(BTreeSet::new())) {
                    Holder::Readers(readers) => readers.insert(*lease),
                    Holder::Writer(_) | Holder::Ticket(_) => return None,
                };
            }
            Act::Release { lease } => release(&mut held, *lease)?,
            Act::Downgrade { lease, reader } => {
                exchange(&mut held, &Holder::Writer(*lease), Holder::Readers(BTreeSet::from([*reader])))?;
            }
            Act::Issue { lease, ticket } => {
                exchange(&mut held, &Holder::Writer(*lease), Holder::Ticket(*ticket))?;
            }
            Act::Redeem { ticket, lease } => {
                exchange(&mut held, &Holder::Ticket(*ticket), Holder::Writer(*lease))?;
            }
            Act::Spend { ticket } => {
                let slot = slot_of(&held, |holder| *holder == Holder::Ticket(*ticket))?;
                held.remove(&slot);
            }
            Act::ReleaseTicket { ticket } => held.retain(|_, holder| *holder != Holder::Ticket(*ticket)),
        }
        Some(held)
    }
}

type Held = BTreeMap<i64, Holder>;

fn slot_of(held: &Held, is_wanted: impl Fn(&Holder) -> bool) -> Option<i64> {
    held.iter().find(|(_, holder)| is_wanted(holder)).map(|(slot, _)| *slot)
}

fn exchange(held: &mut Held, from: &Holder, to: Holder) -> Option<()> {
    let slot = slot_of(held, |holder| holder == from)?;
    held.insert(slot, to);
    Some(())
}

fn release(held: &mut Held, lease: i64) -> Option<()> {
    let slot = slot_of(held, |holder| match holder {
        Holder::Writer(writer) => *writer == lease,
        Holder::Readers(readers) => readers.contains(&lease),
        Holder::Ticket(_) => false,
    })?;
    if let Some(Holder::Readers(readers)) = held.get_mut(&slot) {
        readers.remove(&lease);
        if !readers.is_empty() {
            return Some(());
        }
    }
    held.remove(&slot);
    Some(())
}
