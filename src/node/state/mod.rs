//! The whole behaviour of a node, as one pure function.
//!
//! ```text
//! (state, operation, node time)  ->  (state, answer, notices)
//! ```
//!
//! In-memory nodes wrap it, the simulator puts errors round it, the model checker explores it, and
//! the scripts that run on real servers are compared with it command by command.

use std::collections::BTreeMap;

#[cfg(test)]
use crate::mutation;
use crate::{
    node::{
        names,
        operation::{Answer, Operation, Proclamation},
        parameters::{Incarnation, QuorumParameters},
    },
    values::{Fingerprint, LeaseId, Resource},
};

#[cfg(test)]
mod broken;
mod counters;
mod downgrade;
mod enqueue;
mod force_unlock;
mod guard;
mod holder_lookup;
mod init;
mod inspect;
mod latch;
mod list;
mod lock;
mod marks;
mod observe;
#[cfg(test)]
mod probing;
mod proclaim;
mod readers;
mod reconfigure;
mod register;
mod renew;
#[cfg(test)]
mod tests;
mod time;
mod unlock;
mod vacant;
mod wait_queue;
mod withdraw;
mod write_back;

#[cfg(test)]
pub(crate) use self::{counters::LARGEST_COUNTER, wait_queue::QueueEntry};
pub(crate) use self::{
    latch::LatchRecord,
    readers::ReaderRun,
    time::NodeTime,
    wait_queue::{Subscribers, WaitQueue},
};

/// All that a node remembers.
///
/// Expiry is evaluated when something is looked at, as Redis does it: gone when `now > expires_at`.
/// So a step of the node's clock needs no timers to be moved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeState {
    /// A key has one owner here; the hashes of several fields that real servers may have are
    /// nobody's of ours.
    locks: BTreeMap<Resource, HeldKey>,
    /// By the resource itself. Of those whose key is not theirs, what is left of them.
    readers: BTreeMap<Resource, ReaderRun>,
    /// By the shared-key alias of the resources, as their derived names are shared.
    counters: BTreeMap<Resource, Counter>,
    /// By the shared-key alias, too.
    tombstones: BTreeMap<(Resource, LeaseId), NodeTime>,
    /// By the resource itself.
    leaders: BTreeMap<Resource, LeaderRecord>,
    /// By the resource itself.
    latches: BTreeMap<Resource, LatchRecord>,
    /// By the resource itself, too.
    wait_queues: BTreeMap<Resource, WaitQueue>,
    /// Until when newcomers let those go first who wait; by the resource itself.
    yield_marks: BTreeMap<Resource, NodeTime>,
    /// Until when readers let a writer go first whose turn it is; by the resource itself.
    writer_marks: BTreeMap<Resource, NodeTime>,
    metadata: Option<NodeMetadata>,
    quarantine: Option<Quarantine>,
    /// Whether nobody has ever seen the node in a quorum: `true` from its first registration,
    /// `false` once that is known to be otherwise; `None` before either.
    is_new: Option<bool>,
    incarnation: Incarnation,
}

/// The key of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HeldKey {
    pub(crate) owner: LeaseId,
    pub(crate) holds: u32,
    pub(crate) expires_at: NodeTime,
}

/// A fencing counter: no vote at or below `value` will be given again while it is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Counter {
    pub(crate) value: u64,
    pub(crate) expires_at: NodeTime,
}

/// The last proclamation of a leader on this node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LeaderRecord {
    pub(crate) said: Proclamation,
    pub(crate) expires_at: NodeTime,
}

/// What a node knows about itself and its quorum.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeMetadata {
    /// The incarnation of the server that wrote the metadata: another one may have forgotten votes.
    pub(crate) incarnation: Incarnation,
    /// Votes are above it, whatever the counters say.
    pub(crate) minimum_token: u64,
    pub(crate) fingerprint: Fingerprint,
}

/// The time in which a node must not vote, since it may have forgotten votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Quarantine {
    pub(crate) until: NodeTime,
    /// After this, it counts for renewals.
    pub(crate) renewals_from: NodeTime,
}

/// What came of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) answer: Answer,
    /// The resources whose waiters are told of a release, and the topics on which observers are
    /// told of a change, or a waiter of its turn.
    pub(crate) notices: Vec<Resource>,
}

impl NodeState {
    /// An empty node, in this incarnation of its server.
    pub(crate) fn new(incarnation: &str) -> Self {
        Self {
            locks: BTreeMap::new(),
            readers: BTreeMap::new(),
            counters: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            leaders: BTreeMap::new(),
            latches: BTreeMap::new(),
            wait_queues: BTreeMap::new(),
            yield_marks: BTreeMap::new(),
            writer_marks: BTreeMap::new(),
            metadata: None,
            quarantine: None,
            is_new: None,
            incarnation: incarnation.into(),
        }
    }

    /// Another incarnation of the server begins, with the same data.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn restart(&mut self, incarnation: &str) {
        self.incarnation = incarnation.into();
    }

    /// Forgets everything, in the same incarnation.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn flush(&mut self) {
        *self = Self::new(&self.incarnation);
    }

    /// Forgets all locks, as a server does that runs out of memory and may evict what has a ttl.
    #[cfg(feature = "sim")]
    pub(crate) fn evict_locks(&mut self) {
        self.locks.clear();
    }

    /// Who has keys, and until when; readers too, and what is left of those that were over before
    /// anybody unlocked them.
    #[cfg(feature = "sim")]
    pub(crate) fn keys_and_relics(&self) -> impl Iterator<Item = (&LeaseId, NodeTime)> {
        let keys = self.locks.values().map(|held| (&held.owner, held.expires_at));
        let readers = self.readers.values().flat_map(|readers| &readers.ends);
        keys.chain(readers.map(|(owner, end)| (owner, *end)))
    }

    /// Executes one operation, with somebody listening to everything.
    pub(crate) fn apply(
        &mut self,
        parameters: &QuorumParameters,
        operation: &Operation,
        now: NodeTime,
    ) -> Outcome {
        self.apply_with_listeners(&|_| 1, parameters, operation, now)
    }

    /// Executes one operation; `listeners` says how many listen to a topic.
    pub(crate) fn apply_with_listeners(
        &mut self,
        listeners: &dyn Fn(&Resource) -> u32,
        parameters: &QuorumParameters,
        operation: &Operation,
        now: NodeTime,
    ) -> Outcome {
        let mut subscribers = Subscribers::new(listeners);
        #[cfg(test)]
        let result = match mutation::broken() {
            Some(rule) => self.execute_broken(rule, parameters, operation, now, &mut subscribers),
            None => self.execute(parameters, operation, now, &mut subscribers),
        };
        #[cfg(not(test))]
        let result = self.execute(parameters, operation, now, &mut subscribers);
        let answer = result.unwrap_or_else(|refusal| refusal);
        Outcome { answer, notices: subscribers.notices }
    }

    /// What the node answers, or by what it is kept from that.
    fn execute(
        &mut self,
        parameters: &QuorumParameters,
        operation: &Operation,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Result<Answer, Answer> {
        match operation {
            Operation::Lock(lock) => {
                self.may_vote(parameters, now).and_then(|()| self.lock(parameters, lock, now, subscribers))
            }
            Operation::Enqueue(enqueue) => self
                .may_vote(parameters, now)
                .and_then(|()| self.enqueue(parameters, enqueue, now, subscribers)),
            Operation::Downgrade(downgrade) => self
                .may_vote(parameters, now)
                .and_then(|()| self.downgrade(parameters, downgrade, now, subscribers)),
            Operation::Withdraw(withdraw) => Ok(self.withdraw(parameters, withdraw, now, subscribers)),
            Operation::WriteBack(write_back) => {
                self.may_vote(parameters, now).and_then(|()| self.write_back(parameters, write_back, now))
            }
            Operation::Renew(renew) => {
                self.admit(parameters).and_then(|()| self.renew(parameters, renew, now))
            }
            Operation::Unlock(unlock) => Ok(self.unlock(parameters, unlock, now, subscribers)),
            Operation::ForceUnlock(unlock) => Ok(self.force_unlock(parameters, unlock, now, subscribers)),
            Operation::Inspect(inspect) => self.inspect(parameters, inspect, now),
            Operation::Proclaim(proclaim) => {
                self.admit(parameters).map(|()| self.proclaim(proclaim, now, subscribers))
            }
            Operation::Observe(observe) => Ok(self.observe(observe, now)),
            Operation::Vacant(vacant) => self.may_vote(parameters, now).map(|()| self.vacant(vacant, now)),
            Operation::Latch(latch) => {
                self.may_vote(parameters, now).map(|()| self.latch(latch, now, subscribers))
            }
            Operation::List(_) => Ok(self.list(now)),
            Operation::Register(register) => self.register(parameters, register, now),
            Operation::Init(init) => self.init(parameters, init, now),
            Operation::Reconfigure(reconfigure) => Ok(self.reconfigure(reconfigure, now)),
        }
    }

    /// Forgets what is over. No later answer depends on it, unless the clock steps back, or a reader
    /// unlocks that is over while others read: nothing is found then, and nothing else happens.
    pub(crate) fn sweep(&mut self, now: NodeTime) {
        self.locks.retain(|_, held| !held.expires_at.is_past(now));
        self.readers.retain(|_, readers| !readers.expires_at.is_past(now));
        for readers in self.readers.values_mut() {
            readers.ends.retain(|_, end| !end.is_past(now));
        }
        self.counters.retain(|_, counter| !counter.expires_at.is_past(now));
        self.tombstones.retain(|_, expires_at| !expires_at.is_past(now));
        self.leaders.retain(|_, leader| !leader.expires_at.is_past(now));
        self.latches.retain(|_, record| !record.expires_at.is_past(now));
        self.wait_queues.retain(|_, wait_queue| !wait_queue.expires_at.is_past(now));
        self.yield_marks.retain(|_, until| !until.is_past(now));
        self.writer_marks.retain(|_, until| !until.is_past(now));
        self.quarantine = self.quarantine(now);
    }

    /// The lock on a resource, unless it is over.
    pub(crate) fn held(&self, resource: &Resource, now: NodeTime) -> Option<&HeldKey> {
        self.locks.get(resource).filter(|held| !held.expires_at.is_past(now))
    }

    /// The fencing counter of a resource, unless it is over.
    pub(crate) fn counter(&self, resource: &Resource, now: NodeTime) -> Option<Counter> {
        let counter = self.counters.get(&names::shared_key_alias(resource)).copied();
        counter.filter(|counter| !counter.expires_at.is_past(now))
    }

    /// Until when late requests of an owner are refused.
    pub(crate) fn tombstone(&self, resource: &Resource, owner: &LeaseId, now: NodeTime) -> Option<NodeTime> {
        let expires_at = self.tombstones.get(&(names::shared_key_alias(resource), owner.clone())).copied();
        expires_at.filter(|expires_at| !expires_at.is_past(now))
    }

    /// What a leader said here last, unless it is over.
    pub(crate) fn leader(&self, resource: &Resource, now: NodeTime) -> Option<&LeaderRecord> {
        self.leaders.get(resource).filter(|leader| !leader.expires_at.is_past(now))
    }

    /// What the node knows about itself; `None` if nothing was written, or all was flushed.
    pub(crate) fn metadata(&self) -> Option<&NodeMetadata> {
        self.metadata.as_ref()
    }

    /// Sets a counter, as an administrator or another library may.
    pub(crate) fn set_counter(&mut self, resource: &Resource, counter: Option<Counter>) {
        let alias = names::shared_key_alias(resource);
        match counter {
            Some(counter) => self.counters.insert(alias, counter),
            None => self.counters.remove(&alias),
        };
    }

    /// Sets a lock, as an administrator or another library may.
    pub(crate) fn set_lock(&mut self, resource: &Resource, held: Option<HeldKey>) {
        match held {
            Some(held) => self.locks.insert(resource.clone(), held),
            None => self.locks.remove(resource),
        };
    }

    fn may_vote(&self, parameters: &QuorumParameters, now: NodeTime) -> Result<(), Answer> {
        self.admit(parameters)?;
        self.abstention(parameters, now).map_or(Ok(()), |abstention| Err(Answer::Abstains(abstention)))
    }

    fn write_tombstone(
        &mut self,
        parameters: &QuorumParameters,
        resource: &Resource,
        owner: &LeaseId,
        now: NodeTime,
    ) {
        self.tombstones.insert((names::shared_key_alias(resource), owner.clone()), now + parameters.max_ttl);
    }

    fn has_tombstone(&self, resources: &[Resource], owner: &LeaseId, now: NodeTime) -> bool {
        resources.iter().any(|resource| self.tombstone(resource, owner, now).is_some())
    }
}
