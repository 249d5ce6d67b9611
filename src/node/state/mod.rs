//! The whole behaviour of a node, as one pure function.
//!
//! ```text
//! (state, operation, node time)  ->  (state, answer, notices)
//! ```
//!
//! In-memory nodes execute this function behind a mutex, the simulator adds faults, and the model checker explores
//! all orders of operations. Tests compare the function with the scripts on real servers, operation by operation.

use std::{collections::BTreeMap, sync::Arc};

#[cfg(test)]
use crate::mutation;
use crate::{
    node::{
        names,
        operation::{Answer, Operation, Proclamation},
        parameters::{Incarnation, QuarantineParameters, QuorumParameters},
    },
    values::{Fingerprint, LeaseId, Resource},
};

#[cfg(test)]
mod broken;
mod count_permits;
mod counters;
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
mod record_replacements;
mod register;
mod renew;
#[cfg(test)]
mod tests;
mod time;
mod transfer;
mod unlock;
mod vacant;
mod wait_queue;
mod withdraw;
mod write_back;

pub(crate) use self::{
    count_permits::PermitCount,
    latch::LatchRecord,
    readers::ReaderRun,
    time::NodeTime,
    wait_queue::{Subscribers, WaitQueue},
};
#[cfg(test)]
pub(crate) use self::{counters::LARGEST_COUNTER, wait_queue::QueueEntry};

/// The data of a node.
///
/// Expiry is evaluated at each access, as in Redis: a key has expired when `now > expires_at`. Therefore a step of the
/// node's clock takes effect at once, in either direction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeState {
    /// The keys of held resources, each with one lease id. The key of a shared resource has the lease id that stands
    /// for all readers. A real server may also have hashes with several fields, which are no locks of this library.
    locks: BTreeMap<Resource, HeldKey>,
    /// The readers, by the resource itself. If only the key of the readers is lost, or another lease gets the key, the
    /// record of the readers stays until it expires.
    readers: BTreeMap<Resource, ReaderRun>,
    /// The fencing counters, by the shared-key alias, because resources with the same alias share this key.
    counters: BTreeMap<Resource, Counter>,
    /// The ends of the tombstones, by the shared-key alias and the lease id.
    tombstones: BTreeMap<(Resource, LeaseId), NodeTime>,
    /// The proclamations, by the resource itself.
    leaders: BTreeMap<Resource, LeaderRecord>,
    /// The latches, by the resource itself.
    latches: BTreeMap<Resource, LatchRecord>,
    /// The recorded numbers of permits, by the semaphore.
    permit_counts: BTreeMap<Resource, PermitCount>,
    /// The wait queues, by the resource itself.
    wait_queues: BTreeMap<Resource, WaitQueue>,
    /// The ends of the yield marks, by the resource itself.
    yield_marks: BTreeMap<Resource, NodeTime>,
    /// The ends of the writer marks, by the resource itself.
    writer_marks: BTreeMap<Resource, NodeTime>,
    metadata: Option<NodeMetadata>,
    quarantine: Option<Quarantine>,
    /// Whether the node began as a new node: `None` before the first registration, `true` after a registration that
    /// began the first quarantine, `false` after any other registration, or once a quorum is shown to have existed
    /// before.
    is_new: Option<bool>,
    incarnation: Incarnation,
}

/// The key of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HeldKey {
    pub(crate) lease_id: LeaseId,
    pub(crate) holds: u32,
    pub(crate) expires_at: NodeTime,
}

/// A fencing counter. Until it expires, every vote exceeds `value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Counter {
    pub(crate) value: u64,
    pub(crate) expires_at: NodeTime,
}

/// The last proclamation of a leader on this node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LeaderRecord {
    pub(crate) proclamation: Proclamation,
    pub(crate) expires_at: NodeTime,
}

/// The node metadata.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeMetadata {
    /// The incarnation in which the metadata was written. Another incarnation may have forgotten votes.
    pub(crate) incarnation: Incarnation,
    /// The minimum token, which every vote exceeds, even if the counters are lower.
    pub(crate) minimum_token: u64,
    pub(crate) fingerprint: Fingerprint,
    /// The record of the replaced nodes of the quorum.
    pub(crate) replacements: Arc<str>,
}

/// The time in which a node must not vote, because the node may have forgotten votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Quarantine {
    pub(crate) until: NodeTime,
    /// The time after which renewals count as votes.
    pub(crate) renewals_from: NodeTime,
}

impl Quarantine {
    fn begun_at(now: NodeTime, quarantine: QuarantineParameters) -> Self {
        Self { until: now + quarantine.lasts, renewals_from: now + quarantine.renewals_after }
    }
}

/// The result of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) answer: Answer,
    /// The topics of the published notices. The topic of a release notice is the resource.
    pub(crate) notices: Vec<Resource>,
    /// Whether a notice could not be published.
    #[cfg(test)]
    pub(crate) is_any_unpublished: bool,
}

impl NodeState {
    /// Returns an empty node, in this incarnation of its server.
    pub(crate) fn new(incarnation: &str) -> Self {
        Self {
            locks: BTreeMap::new(),
            readers: BTreeMap::new(),
            counters: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            leaders: BTreeMap::new(),
            latches: BTreeMap::new(),
            permit_counts: BTreeMap::new(),
            wait_queues: BTreeMap::new(),
            yield_marks: BTreeMap::new(),
            writer_marks: BTreeMap::new(),
            metadata: None,
            quarantine: None,
            is_new: None,
            incarnation: incarnation.into(),
        }
    }

    /// Begins another incarnation of the server, with the same data.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn restart(&mut self, incarnation: &str) {
        self.incarnation = incarnation.into();
    }

    /// Deletes all data, in the same incarnation.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn flush(&mut self) {
        *self = Self::new(&self.incarnation);
    }

    /// Deletes all locks, as a server may do that evicts keys with a ttl when its memory is full.
    #[cfg(feature = "sim")]
    pub(crate) fn evict_locks(&mut self) {
        self.locks.clear();
    }

    /// Returns the lease id and the end of every key and reader, including expired keys that no client has unlocked.
    #[cfg(feature = "sim")]
    pub(crate) fn stored_leases(&self) -> impl Iterator<Item = (&LeaseId, NodeTime)> {
        let keys = self.locks.values().map(|held| (&held.lease_id, held.expires_at));
        let readers = self.readers.values().flat_map(|readers| &readers.ends);
        keys.chain(readers.map(|(lease_id, end)| (lease_id, *end)))
    }

    /// Executes one operation, with one subscriber to each topic.
    pub(crate) fn apply(
        &mut self,
        parameters: &QuorumParameters,
        operation: &Operation,
        now: NodeTime,
    ) -> Outcome {
        self.apply_with_listeners(&|_| Some(1), parameters, operation, now)
    }

    /// Executes one operation. `listeners` returns the number of subscribers to a topic; `None` if the client
    /// may not publish on the topic.
    pub(crate) fn apply_with_listeners(
        &mut self,
        listeners: &dyn Fn(&Resource) -> Option<u32>,
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
        Outcome {
            answer,
            notices: subscribers.notices,
            #[cfg(test)]
            is_any_unpublished: subscribers.is_any_unpublished,
        }
    }

    /// Returns the answer, or the refusal that ended the operation.
    fn execute(
        &mut self,
        parameters: &QuorumParameters,
        operation: &Operation,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Result<Answer, Answer> {
        match operation {
            Operation::Lock(lock) => self
                .ensure_may_vote(parameters, now)
                .and_then(|()| self.lock(parameters, lock, now, subscribers)),
            Operation::Enqueue(enqueue) => self
                .ensure_may_vote(parameters, now)
                .and_then(|()| self.enqueue(parameters, enqueue, now, subscribers)),
            Operation::Transfer(transfer) => self
                .ensure_may_vote(parameters, now)
                .and_then(|()| self.transfer(parameters, transfer, now, subscribers)),
            Operation::Withdraw(withdraw) => Ok(self.withdraw(parameters, withdraw, now, subscribers)),
            Operation::WriteBack(write_back) => self
                .ensure_may_vote(parameters, now)
                .and_then(|()| self.write_back(parameters, write_back, now)),
            Operation::Renew(renew) => {
                self.admit_renewal(parameters, now).and_then(|()| self.renew(parameters, renew, now))
            }
            Operation::Unlock(unlock) => Ok(self.unlock(parameters, unlock, now, subscribers)),
            Operation::ForceUnlock(unlock) => Ok(self.force_unlock(parameters, unlock, now, subscribers)),
            Operation::Inspect(inspect) => self.inspect(parameters, inspect, now),
            Operation::Proclaim(proclaim) => {
                self.admit(parameters).map(|()| self.proclaim(proclaim, now, subscribers))
            }
            Operation::Observe(observe) => Ok(self.observe(observe, now)),
            Operation::Vacant(vacant) => {
                self.ensure_may_vote(parameters, now).map(|()| self.vacant(vacant, now))
            }
            Operation::Latch(latch) => {
                self.ensure_may_vote(parameters, now).map(|()| self.latch(latch, now, subscribers))
            }
            Operation::CountPermits(count) => self.admit(parameters).map(|()| self.count_permits(count, now)),
            Operation::List(_) => Ok(self.list(now)),
            Operation::Register(register) => self.register(parameters, register, now),
            Operation::Init(init) => self.init(parameters, init, now),
            Operation::Reconfigure(reconfigure) => self.reconfigure(parameters, reconfigure, now),
            Operation::RecordReplacements(record) => self.record_replacements(parameters, record),
            Operation::ReadClock(_) => Ok(Answer::Clock { time: now.since_epoch() }),
        }
    }

    /// Deletes expired data. Later answers do not depend on expired data, with two exceptions:
    ///
    /// * **The clock steps back.** Without the sweep, the data would be valid again.
    /// * **An expired reader unlocks while other readers hold the resource.** After the sweep, the unlock finds no
    ///   key.
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
        self.permit_counts.retain(|_, count| !count.expires_at.is_past(now));
        self.wait_queues.retain(|_, wait_queue| !wait_queue.expires_at.is_past(now));
        self.yield_marks.retain(|_, until| !until.is_past(now));
        self.writer_marks.retain(|_, until| !until.is_past(now));
        self.quarantine = self.quarantine(now);
    }

    /// Returns the lock on a resource, unless it has expired.
    pub(crate) fn held(&self, resource: &Resource, now: NodeTime) -> Option<&HeldKey> {
        self.locks.get(resource).filter(|held| !held.expires_at.is_past(now))
    }

    /// Returns the fencing counter of a resource, unless it has expired.
    pub(crate) fn counter(&self, resource: &Resource, now: NodeTime) -> Option<Counter> {
        let counter = self.counters.get(&names::shared_key_alias(resource)).copied();
        counter.filter(|counter| !counter.expires_at.is_past(now))
    }

    /// Returns the end of the tombstone that refuses late requests of a lease, unless the tombstone has expired.
    pub(crate) fn tombstone(
        &self,
        resource: &Resource,
        lease_id: &LeaseId,
        now: NodeTime,
    ) -> Option<NodeTime> {
        let expires_at = self.tombstones.get(&(names::shared_key_alias(resource), lease_id.clone())).copied();
        expires_at.filter(|expires_at| !expires_at.is_past(now))
    }

    /// Returns the last proclamation on this node, unless it has expired.
    pub(crate) fn leader(&self, resource: &Resource, now: NodeTime) -> Option<&LeaderRecord> {
        self.leaders.get(resource).filter(|leader| !leader.expires_at.is_past(now))
    }

    /// Returns the node metadata; `None` if no client has registered, or after a flush.
    pub(crate) fn metadata(&self) -> Option<&NodeMetadata> {
        self.metadata.as_ref()
    }

    /// Sets or deletes a counter.
    pub(crate) fn set_counter(&mut self, resource: &Resource, counter: Option<Counter>) {
        let alias = names::shared_key_alias(resource);
        match counter {
            Some(counter) => self.counters.insert(alias, counter),
            None => self.counters.remove(&alias),
        };
    }

    /// Sets or deletes the lock on a resource.
    pub(crate) fn set_lock(&mut self, resource: &Resource, held: Option<HeldKey>) {
        match held {
            Some(held) => self.locks.insert(resource.clone(), held),
            None => self.locks.remove(resource),
        };
    }

    /// Returns an error if the node must not vote: the refusal of a client of another quorum, or the abstention.
    fn ensure_may_vote(&self, parameters: &QuorumParameters, now: NodeTime) -> Result<(), Answer> {
        self.admit(parameters)?;
        self.abstention(parameters, now).map_or(Ok(()), |abstention| Err(Answer::Abstains(abstention)))
    }

    fn write_tombstone(
        &mut self,
        parameters: &QuorumParameters,
        resource: &Resource,
        lease_id: &LeaseId,
        now: NodeTime,
    ) {
        self.tombstones
            .insert((names::shared_key_alias(resource), lease_id.clone()), now + parameters.max_ttl);
    }

    fn has_tombstone(&self, resources: &[Resource], lease_id: &LeaseId, now: NodeTime) -> bool {
        resources.iter().any(|resource| self.tombstone(resource, lease_id, now).is_some())
    }
}
