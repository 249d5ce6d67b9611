//! To enqueue: take all resources if it is this waiter's turn, or wait for it in the queue of one
//! of them.

use std::time::Duration;

use crate::{
    node::{
        operation::{Answer, Arguments, Holder, Lock, Operate, ScriptReply, wire},
        parameters::QuorumParameters,
        ttl::whole_milliseconds,
    },
    values::{LeaseId, Resource},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Enqueue {
    /// What to do when it is this waiter's turn.
    pub(crate) lock: Lock,
    /// In which resource's queue, by index: that of the resource that it was refused for.
    pub(crate) resource: usize,
    /// Who waits: the tasks of a client that wait for the same resources, one after the other.
    pub(crate) waiter: LeaseId,
    /// The arrival that it was given before, here or by another node; 0 for the end of the queue.
    pub(crate) arrival: u64,
    /// How long its entry is kept unless it asks again. `None`: it does not enter the queue.
    pub(crate) entry_ttl: Option<Duration>,
    /// Whether it only keeps its entry, and takes nothing: the node knows nothing of the lease that
    /// a quorum holds.
    pub(crate) enqueue_only: bool,
}

/// The entry of a waiter in the wait queue of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queued {
    /// Which of the asked resources, by index: the one that is held, or in whose queue others are.
    pub(crate) resource: usize,
    /// The larger, the later its turn; 0 if it did not enter the queue.
    pub(crate) arrival: u64,
    /// How many are before it in the queue. For a lock: 1 if anybody is queued, 0 if nobody is and
    /// it is to let others go first all the same.
    pub(crate) rank: u32,
    /// When to come back if it is not woken: when the holder's ttl ends if it is the first in the
    /// queue, otherwise when the entry before its own does.
    pub(crate) patience: Duration,
    /// Who holds the resource; `None` if nothing but the queue is in the way.
    pub(crate) holder: Option<Holder>,
}

impl Operate for Enqueue {
    fn resources(&self) -> &[Resource] {
        &self.lock.resources
    }

    fn encode(&self, arguments: &mut Arguments<'_>, _: &QuorumParameters) {
        let Self { lock, resource, waiter, arrival, entry_ttl, enqueue_only } = self;
        let is_short = lock.is_of_one() && !enqueue_only;
        let arguments = match is_short {
            true => arguments.short_name("head"),
            false => arguments.name_for("enqueue", &lock.resources),
        };
        arguments.owner(&lock.owner).ttl(lock.ttl).number(lock.hint);
        arguments.owner(waiter).number(*arrival).number(entry_ttl.map_or(0, whole_milliseconds));
        if !is_short {
            arguments.index(*resource).number(u8::from(*enqueue_only));
        }
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        match reply {
            // A waiter that is refused has an entry, or may not enter: never "held" alone.
            ScriptReply::Tagged(b"held", _) => None,
            reply => self.lock.decode(reply),
        }
    }

    fn acquiring_owner(&self) -> Option<&LeaseId> {
        Some(&self.lock.owner)
    }
}

impl Queued {
    pub(super) fn read(resources: &[Resource], fields: &[wire::Value]) -> Option<Self> {
        let [resource, arrival, rank, patience, holder @ ..] = fields else { return None };
        Some(Self {
            resource: wire::index(resources, resource)?,
            arrival: wire::number(arrival)?,
            rank: u32::try_from(wire::number(rank)?).ok()?,
            patience: wire::milliseconds(patience)?,
            holder: if holder.is_empty() { None } else { Some(Holder::read(resources, holder)?) },
        })
    }
}
