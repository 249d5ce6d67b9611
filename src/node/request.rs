//! What a client asks of one node.

use std::{sync::Arc, time::Duration};

use crate::{
    clock::Instant,
    node::proclamation::Proclamation,
    values::{Fingerprint, OwnerId, Resource},
};

/// Resources that are taken all or none: sorted, without repetition, never empty.
pub(crate) type Resources = Arc<[Resource]>;

/// The most entries that travel in one call, so that no call keeps a server busy for more than a
/// few milliseconds.
pub(crate) const MOST_ENTRIES: usize = 64;

/// The most resources that the entries of one call name, for the same reason: each takes a server
/// some 10 to 30 microseconds.
pub(crate) const MOST_RESOURCES: usize = 256;

/// The most resources that one entry names. More than travel together otherwise, so that it travels
/// alone; and few enough for each node to be done with it far within a node timeout.
pub(crate) const LARGEST_GROUP: usize = 1000;

/// What is to travel in one call.
#[derive(Debug, Default)]
pub(crate) struct Load {
    entries: usize,
    resources: usize,
}

impl Load {
    /// Takes so much more if that fits into the call, as whatever is the first always does.
    pub(crate) fn take(&mut self, entries: usize, resources: usize) -> bool {
        let taken = Self { entries: self.entries + entries, resources: self.resources + resources };
        let fits = self.entries == 0 || (taken.entries <= MOST_ENTRIES && taken.resources <= MOST_RESOURCES);
        if fits {
            *self = taken;
        }
        fits
    }
}

/// Some entries for one node, executed in order, each with its own answer.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Shared by all nodes that are asked the same. One to [`MOST_ENTRIES`].
    pub(crate) entries: Arc<[Entry]>,
    /// Until when the request is of use. What is still unsent by then is dropped; an unlock must be
    /// delivered (kept over reconnections) until then.
    pub(crate) until: Instant,
    /// Until when that which an unlock deletes may be there without it, by its own ttl: a shutdown
    /// waits so long where a quorum is not free of it. `None` if no shutdown need wait.
    pub(crate) blocks_until: Option<Instant>,
}

/// What a node has not confirmed yet, of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Undelivered {
    pub(crate) resources: Resources,
    /// As in the [`Request`].
    pub(crate) blocks_until: Option<Instant>,
}

impl Request {
    pub(crate) fn one(entry: Entry, until: Instant) -> Self {
        Self::new([entry], until)
    }

    pub(crate) fn new(entries: impl Into<Arc<[Entry]>>, until: Instant) -> Self {
        Self { entries: entries.into(), until, blocks_until: None }
    }

    /// For an unlock: when its keys are over without it.
    #[must_use]
    pub(crate) fn blocks_until(self, end: Instant) -> Self {
        Self { blocks_until: Some(end), ..self }
    }
}

/// One question to a node. Ttls are whole milliseconds once on the wire, rounded up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Take all resources for the first time, or none.
    Lock(Lock),
    /// Raise the counters of all resources to `token` if they are `owner`'s and none is above it,
    /// or of none.
    WriteBack(WriteBack),
    /// Keep all resources, taking again those that the node lost, or none.
    Renew(Renew),
    /// Delete what is still `owner`'s.
    Unlock(Unlock),
    /// Take all resources if it is this waiter's turn, or wait for it in the queue of one of them.
    Enqueue(Enqueue),
    /// Leave the queue of a resource.
    Withdraw(Withdraw),
    /// Delete the lock of any owner, and refuse its renewals.
    ForceUnlock(ForceUnlock),
    /// Tell who holds a resource.
    Inspect(Inspect),
    /// Keep what a leader says of itself beside its lock, unless it is not its lock.
    Proclaim(Proclaim),
    /// Tell who holds a resource, and what a leader has said there.
    Observe(Observe),
    /// Tell which incarnation of the server this is; if it is not the one of the metadata, begin a
    /// quarantine.
    Register(Register),
    /// Become a node of a new quorum, unless the node belongs to one or may have forgotten one.
    Init(Init),
    /// Become a node of another configuration.
    Reconfigure(Reconfigure),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lock {
    pub(crate) resources: Resources,
    pub(crate) owner: OwnerId,
    pub(crate) ttl: Duration,
    /// One more than the largest counter the waiter has seen, or 0: brings counters back in step.
    pub(crate) hint: u64,
    /// Whether it is this owner's turn, as the queue node says: then it need not let the waiters go
    /// first.
    pub(crate) has_turn: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WriteBack {
    pub(crate) resources: Resources,
    pub(crate) owner: OwnerId,
    pub(crate) token: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Renew {
    pub(crate) resources: Resources,
    pub(crate) owner: OwnerId,
    /// Absolute, never an increment: a duplicate or a resend changes nothing.
    pub(crate) holds: u32,
    pub(crate) ttl: Duration,
    pub(crate) token: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unlock {
    pub(crate) resources: Resources,
    pub(crate) owner: OwnerId,
    /// Whether the attempt had its quorum. Only then is the release told to those who listen for
    /// it, and passed on as a mark; the first in the queue is woken in any case.
    pub(crate) notify: bool,
    pub(crate) tombstone: Tombstone,
    /// Whether the queue node has said that others wait: newcomers are to let them go first.
    pub(crate) is_awaited: bool,
}

/// Whether an unlock leaves a tombstone, which refuses what lands later: the owner's requests that
/// this node has not answered.
///
/// The script knows them by their numbers; of two that are merged, the larger counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Tombstone {
    /// Nothing is unanswered.
    Never = 0,
    /// A lock is, and nothing else of the owner was ever sent there: where the unlock finds all
    /// that it is to delete, it has landed already. That is the usual case, of a short critical
    /// section at one of the slower nodes.
    IfMissing = 1,
    /// A renewal may be: what the unlock deletes may have come of an earlier request.
    Always = 2,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Enqueue {
    /// What to do when it is this waiter's turn.
    pub(crate) lock: Lock,
    /// In which resource's queue, by index: that of the resource that it was refused for.
    pub(crate) resource: usize,
    /// Who waits: the tasks of a client that wait for the same resources, one after the other.
    pub(crate) waiter: OwnerId,
    /// The ticket that it was given before, here or by another node; 0 for the end of the queue.
    pub(crate) ticket: u64,
    /// How long its entry is kept unless it asks again. `None`: it does not enter the queue.
    pub(crate) entry_ttl: Option<Duration>,
    /// Whether it only keeps its entry, and takes nothing: the node knows nothing of the lease that
    /// a quorum holds.
    pub(crate) only_waits: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Withdraw {
    pub(crate) resource: Resource,
    pub(crate) waiter: OwnerId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForceUnlock {
    pub(crate) resources: Resources,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inspect {
    pub(crate) resource: Resource,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proclaim {
    pub(crate) resource: Resource,
    pub(crate) said: Proclamation,
    pub(crate) ttl: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Observe {
    pub(crate) resource: Resource,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Register {
    pub(crate) new_nodes: NewNodes,
    /// The client's time of day, since the epoch. A node that is far off would spoil minimum tokens
    /// and counters.
    pub(crate) time: Duration,
}

/// What is thought of a node without metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewNodes {
    /// It is new, and votes at once.
    Admit,
    /// It may have been flushed.
    Quarantine,
    /// Nothing: it is only looked at, and nothing is written.
    Leave,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Init {
    /// Whether to say what would come of it, and change nothing.
    pub(crate) is_rehearsal: bool,
    /// The client's time of day, since the epoch: counters begin at the node's.
    pub(crate) time: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reconfigure {
    pub(crate) from: Fingerprint,
    pub(crate) to: Fingerprint,
}

impl Entry {
    /// The resources that it names.
    pub(crate) fn resources(&self) -> &[Resource] {
        match self {
            Self::Lock(lock) => &lock.resources,
            Self::Enqueue(enqueue) => &enqueue.lock.resources,
            Self::Withdraw(withdraw) => std::slice::from_ref(&withdraw.resource),
            Self::WriteBack(write_back) => &write_back.resources,
            Self::Renew(renew) => &renew.resources,
            Self::Unlock(unlock) => &unlock.resources,
            Self::ForceUnlock(unlock) => &unlock.resources,
            Self::Inspect(inspect) => std::slice::from_ref(&inspect.resource),
            Self::Proclaim(proclaim) => std::slice::from_ref(&proclaim.resource),
            Self::Observe(observe) => std::slice::from_ref(&observe.resource),
            Self::Register(_) | Self::Init(_) | Self::Reconfigure(_) => &[],
        }
    }

    /// Whether this entry must be delivered even if its connection breaks.
    pub(crate) fn must_deliver(&self) -> bool {
        matches!(self, Self::Unlock(_) | Self::Withdraw(_))
    }
}
