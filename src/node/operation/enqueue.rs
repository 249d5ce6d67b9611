//! Enqueue: locks all resources if this waiter is first, else enters the queue of one of them.

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
    /// The lock that is executed if the waiter is first in the queue.
    pub(crate) lock: Lock,
    /// The index of the resource whose queue the waiter enters: the resource for which the waiter was refused.
    pub(crate) resource: usize,
    /// The name of the waiter in the queue. The tasks of a client that wait for the same resources take turns under
    /// this name.
    pub(crate) waiter: LeaseId,
    /// The arrival that this or another node assigned before; 0 to enter at the end of the queue.
    pub(crate) arrival: u64,
    /// The ttl of the queue entry, which each request renews. `None`: the waiter does not enter the queue.
    pub(crate) entry_ttl: Option<Duration>,
    /// Whether the node only writes the queue entry, and does not lock. Set for a stale queue node. A grant of this
    /// node would be in vain, because the node does not have the key of the lease that has a quorum.
    pub(crate) enqueue_only: bool,
}

/// The deferral of a waiter or newcomer by a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queued {
    /// The index of the resource that is held, or that has waiters or a mark.
    pub(crate) resource: usize,
    /// The arrival, by which the queue is sorted; 0 if the waiter did not enter the queue.
    pub(crate) arrival: u64,
    /// The number of waiters ahead. In the answer to a lock: 1 if the resource has waiters, 0 if only a mark
    /// makes the newcomer yield.
    pub(crate) rank: u32,
    /// The time until the next attempt if no wake arrives: for the first waiter, the rest of the holder's ttl; for a
    /// later waiter, the rest of the ttl of the entry ahead. The patience is 0 in the answer to a lock.
    pub(crate) patience: Duration,
    /// The holder of the resource; `None` if the resource is free.
    pub(crate) holder: Option<Holder>,
}

impl Operate for Enqueue {
    fn resources(&self) -> &[Resource] {
        &self.lock.resources
    }

    fn encode(&self, arguments: &mut Arguments<'_>, _: &QuorumParameters) {
        let Self { lock, resource, waiter, arrival, entry_ttl, enqueue_only } = self;
        let is_short = lock.is_exclusive_of_one() && !enqueue_only;
        let arguments = match is_short {
            true => arguments.short_name("head"),
            false => arguments.name_for("enqueue", &lock.resources),
        };
        arguments.lease_id(&lock.lease_id).ttl(lock.ttl).number(lock.hint);
        arguments.lease_id(waiter).number(*arrival).number(entry_ttl.map_or(0, whole_milliseconds));
        if !is_short {
            arguments.index(*resource).number(u8::from(*enqueue_only));
        }
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        match reply {
            // Enqueue never answers "held": a refused waiter is queued, or may not enter.
            ScriptReply::Tagged(b"held", _) => None,
            reply => self.lock.decode(reply),
        }
    }

    fn acquired_lease(&self) -> Option<&LeaseId> {
        Some(&self.lock.lease_id)
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
