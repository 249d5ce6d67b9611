//! Enqueue in the pure node: a waiter locks, or enters a queue.

use std::time::Duration;

use crate::{
    node::{
        operation::{Answer, Enqueue, Holder, Queued},
        parameters::QuorumParameters,
        state::{
            NodeState, NodeTime, Subscribers, WaitQueue,
            wait_queue::{QueueEntry, Requester},
        },
        ttl::whole_milliseconds,
    },
    values::{LeaseId, Resource},
};

/// The maximum time by which an arrival may exceed this node's time. The clock of the node that assigned the arrival
/// may be ahead. The limit is needed because every later waiter gets a larger arrival.
const MAX_ARRIVAL_AHEAD: Duration = Duration::from_secs(3600);

impl NodeState {
    /// Locks if the resources are free and no waiter is ahead. Otherwise, the waiter enters the queue if the request
    /// has an entry ttl. A request with `enqueue_only` does not lock.
    ///
    /// A lock that the node has granted before is granted again, even if a waiter is ahead.
    ///
    /// The wait queue does not decide whether a resource is held or free. A change of a queue cannot fail here, so there
    /// is no answer for a failure. If the queue fails on a server, a free resource is locked, and the waiter of a held
    /// resource gets the arrival 0, as without an entry ttl.
    pub(super) fn enqueue(
        &mut self,
        parameters: &QuorumParameters,
        enqueue: &Enqueue,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Result<Answer, Answer> {
        let Enqueue { lock, resource: index, waiter, arrival, entry_ttl, enqueue_only } = enqueue;
        if self.has_tombstone(&lock.resources, &lock.lease_id, now) {
            return Ok(Answer::Tombstone);
        }
        let Some(resource) = lock.resources.get(*index) else {
            return self.lock(parameters, lock, now, subscribers);
        };
        let lookup = self.look_up(&lock.resources, &lock.lease_id, now);
        let counter = self.counters(&lock.resources, now)?.largest;
        let other = lookup.other.or_else(|| self.yield_to_writer(&lock.resources, &lock.lease_id, now));
        let is_free = other.is_none() && !enqueue_only;
        let asks_queue = is_free && !lookup.is_all_ours;
        let requester = Some(Requester { waiter, arrival: *arrival });
        let head = asks_queue
            .then(|| self.next_in_queue(parameters, resource, requester, now, subscribers))
            .flatten();
        if is_free && head.as_ref().is_none_or(|head| head == waiter) {
            let granted = self.grant(parameters, lock, now)?;
            if head.is_some() {
                self.leave_queue(resource, waiter, now, subscribers);
            }
            if lock.resources.is_shared(*index) {
                // After a reader has locked, the next waiter is woken if it is a reader, because both may hold
                // the resource at once.
                self.wake_next(parameters, resource, now, subscribers);
            }
            return Ok(granted.with_waiters(self.wait_queue(resource, now).is_some()));
        }
        let holder = other.map(|holder| Holder { counter, ..holder });
        let arrival = entry_ttl.map_or(0, |entry_ttl| self.enter(resource, waiter, *arrival, entry_ttl, now));
        let patience = self
            .ttl_before(resource, waiter, now, subscribers)
            .or_else(|| holder.as_ref().map(|holder| holder.remaining))
            .unwrap_or_default();
        let blocked = holder.as_ref().map_or(*index, |holder| holder.resource);
        Ok(Answer::Queued(Queued {
            resource: blocked,
            arrival,
            rank: self.rank(resource, waiter, now),
            patience,
            holder,
        }))
    }

    /// Writes a queue entry with a ttl, and returns its arrival.
    fn enter(
        &mut self,
        resource: &Resource,
        waiter: &LeaseId,
        arrival: u64,
        entry_ttl: Duration,
        now: NodeTime,
    ) -> u64 {
        let entry_ttl = Duration::from_millis(whole_milliseconds(entry_ttl));
        let mut queue = self.wait_queue(resource, now).cloned().unwrap_or_else(|| WaitQueue {
            entries: Vec::new(),
            woken: None,
            expires_at: now + entry_ttl,
        });
        let arrival = if arrival == 0 {
            let last = queue.entries.last().map_or(0, |entry| entry.arrival);
            micros(now).max(last.saturating_add(1))
        } else {
            // The waiter attempts after its wake, so the second waiter need not be woken in its place.
            queue.woken = queue.woken.filter(|(woken, _)| woken != waiter);
            arrival.min(micros(now + MAX_ARRIVAL_AHEAD))
        };
        queue.entries.retain(|entry| entry.waiter != *waiter);
        queue.entries.push(QueueEntry { arrival, waiter: waiter.clone(), ends: now + entry_ttl });
        queue.entries.sort_unstable();
        queue.expires_at = queue.expires_at.max(now + entry_ttl);
        self.wait_queues.insert(resource.clone(), queue);
        arrival
    }

    /// Returns the number of waiters ahead of a waiter. Without an entry of the waiter, all waiters are ahead.
    fn rank(&self, resource: &Resource, waiter: &LeaseId, now: NodeTime) -> u32 {
        let rank = self
            .wait_queue(resource, now)
            .map_or(0, |queue| queue.rank(waiter).unwrap_or(queue.entries.len()));
        u32::try_from(rank).unwrap_or(u32::MAX)
    }

    /// Removes expired entries directly ahead of a waiter, and returns the rest of the ttl of the entry that is ahead
    /// then. Without an entry of the waiter, the last entry is ahead.
    fn ttl_before(
        &mut self,
        resource: &Resource,
        waiter: &LeaseId,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Option<Duration> {
        loop {
            let queue = self.wait_queue(resource, now)?;
            let rank = queue.rank(waiter).unwrap_or(queue.entries.len());
            let before = queue.entries.get(rank.checked_sub(1)?)?.clone();
            if !before.ends.is_past(now) {
                return Some(before.ends.remaining(now));
            }
            self.leave_queue(resource, &before.waiter, now, subscribers);
        }
    }
}

fn micros(time: NodeTime) -> u64 {
    u64::try_from(time.since_epoch().as_micros()).unwrap_or(u64::MAX)
}
