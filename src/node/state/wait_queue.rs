//! The wait queue of a resource.
//!
//! Waiters are woken one at a time, in order of arrival.
//!
//! ```text
//! the resource is released, or an entry ahead ends  ──▶ wake the first waiter
//! the first waiter does not listen, or has expired  ──▶ remove its entry, wake the next
//! the first was woken 3/4 of a hand-over ago        ──▶ the second may lock, and is woken, too
//! a waiter becomes first or second                  ──▶ publish its head notice: it subscribes to releases
//! the first waiter is a writer, and readers hold    ──▶ no wake
//! ```

use crate::{
    node::{
        names,
        parameters::QuorumParameters,
        state::{NodeState, NodeTime},
    },
    values::{LeaseId, Resource},
};

/// The number of waiters at the head of the queue that also subscribe to release notices.
const HEAD_WAITERS: usize = 2;

/// The waiters for a resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WaitQueue {
    /// The entries in order of arrival, and of names at equal arrivals.
    pub(super) entries: Vec<QueueEntry>,
    /// The waiter that was woken last, and the time of its first wake.
    pub(super) woken: Option<(LeaseId, NodeTime)>,
    pub(super) expires_at: NodeTime,
}

/// The entry of one waiter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct QueueEntry {
    pub(crate) arrival: u64,
    pub(crate) waiter: LeaseId,
    /// The end of the entry.
    pub(crate) ends: NodeTime,
}

/// The waiter that executes an operation, and locks if it may.
#[derive(Clone, Copy)]
pub(super) struct Requester<'a> {
    pub(super) waiter: &'a LeaseId,
    pub(super) arrival: u64,
}

/// The subscribers to the topics of a node, and the notices of one operation.
pub(crate) struct Subscribers<'a> {
    /// Returns the number of subscribers to a topic.
    count: &'a dyn Fn(&Resource) -> u32,
    pub(crate) notices: Vec<Resource>,
}

impl<'a> Subscribers<'a> {
    pub(crate) fn new(count: &'a dyn Fn(&Resource) -> u32) -> Self {
        Self { count, notices: Vec::new() }
    }

    pub(super) fn publish(&mut self, topic: Resource) {
        self.notices.push(topic);
    }

    /// Publishes a notice if the topic has subscribers. Returns whether the topic has subscribers.
    fn publish_if_subscribed(&mut self, topic: Resource) -> bool {
        let has_subscribers = (self.count)(&topic) > 0;
        if has_subscribers {
            self.notices.push(topic);
        }
        has_subscribers
    }
}

impl NodeState {
    /// Wakes the first waiter if it can lock the resource.
    pub(super) fn wake_next(
        &mut self,
        parameters: &QuorumParameters,
        resource: &Resource,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) {
        if self.held(resource, now).is_none() || self.readers(resource, now).is_some() {
            self.next_in_queue(parameters, resource, None, now, subscribers);
        }
    }

    /// Returns the waiter that may lock, after waking it.
    ///
    /// * **The requesting waiter is first:** no wake is needed.
    /// * **The requesting waiter has left the queue,** because the waiter had a vote and rolled back: its arrival,
    ///   compared with the arrival of the first waiter, decides which of both may lock.
    /// * **The first waiter is a writer, and readers hold the resource:** there is no wake. If another waiter
    ///   requests, the node publishes the head notice again.
    /// * **The first waiter does not listen, or its entry has ended:** the node removes the entry.
    /// * **The first waiter has not attempted within 3/4 of a hand-over after its wake:** the second waiter
    ///   may lock, and from then on both are woken together.
    pub(super) fn next_in_queue(
        &mut self,
        parameters: &QuorumParameters,
        resource: &Resource,
        requester: Option<Requester<'_>>,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Option<LeaseId> {
        loop {
            let queue = self.wait_queue(resource, now)?;
            let head = queue.entries.first()?.clone();
            let second = queue.entries.get(1).map(|entry| entry.waiter.clone());
            let woken = queue.woken.as_ref().filter(|(waiter, _)| *waiter == head.waiter).map(|(_, at)| *at);
            // A writer is not woken while readers hold the resource.
            let is_blocked = self.held(resource, now).is_some() && !names::is_reader(&head.waiter);
            let is_overdue =
                !is_blocked && woken.is_some_and(|at| (at + parameters.hand_over * 3 / 4).is_past(now));
            if let Some(Requester { waiter, arrival }) = requester {
                let is_second = second.as_ref().is_none_or(|second| second == waiter);
                if head.waiter == *waiter
                    || (arrival > 0 && arrival < head.arrival)
                    || (is_overdue && is_second)
                {
                    return Some(waiter.clone());
                }
            }
            let topic = if is_blocked { names::head } else { names::wake };
            let is_there = !head.ends.is_past(now)
                && ((is_blocked && requester.is_none())
                    || subscribers.publish_if_subscribed(topic(resource, &head.waiter)));
            if is_there && is_blocked {
                return Some(head.waiter);
            }
            if is_there {
                if woken.is_none()
                    && let Some(queue) = self.wait_queues.get_mut(resource)
                {
                    queue.woken = Some((head.waiter.clone(), now));
                }
                if let Some(second) = second.filter(|_| is_overdue) {
                    subscribers.publish_if_subscribed(names::wake(resource, &second));
                }
                return Some(head.waiter);
            }
            self.leave_queue(resource, &head.waiter, now, subscribers);
        }
    }

    /// Whether the resource has waiters. The first of them is woken if it can lock.
    pub(super) fn has_waiters(
        &mut self,
        parameters: &QuorumParameters,
        resource: &Resource,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> bool {
        self.wake_next(parameters, resource, now, subscribers);
        self.wait_queue(resource, now).is_some()
    }

    /// Whether any of the resources has waiters.
    pub(super) fn is_any_queued(&self, resources: &[Resource], now: NodeTime) -> bool {
        resources.iter().any(|resource| self.wait_queue(resource, now).is_some())
    }

    /// Returns the queue of a resource, unless it has expired.
    pub(crate) fn wait_queue(&self, resource: &Resource, now: NodeTime) -> Option<&WaitQueue> {
        self.wait_queues.get(resource).filter(|queue| !queue.expires_at.is_past(now))
    }

    /// Removes a waiter from the queue. A waiter that becomes second gets a head notice.
    pub(super) fn leave_queue(
        &mut self,
        resource: &Resource,
        waiter: &LeaseId,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) {
        let rank = self.wait_queue(resource, now).and_then(|queue| queue.rank(waiter));
        let Some(queue) = self.wait_queues.get_mut(resource) else { return };
        queue.entries.retain(|entry| entry.waiter != *waiter);
        if queue.woken.as_ref().is_some_and(|(woken, _)| woken == waiter) {
            queue.woken = None;
        }
        if queue.entries.is_empty() {
            self.wait_queues.remove(resource);
        } else if rank.is_some_and(|rank| rank < HEAD_WAITERS)
            && let Some(next) = queue.entries.get(HEAD_WAITERS - 1)
        {
            subscribers.publish_if_subscribed(names::head(resource, &next.waiter));
        }
    }

    /// Sets the time of the first wake of the last woken waiter, and returns this waiter.
    #[cfg(test)]
    pub(crate) fn set_last_woken_at(&mut self, resource: &Resource, at: NodeTime) -> Option<LeaseId> {
        let woken = self.wait_queues.get_mut(resource)?.woken.as_mut()?;
        woken.1 = at;
        Some(woken.0.clone())
    }

    /// Changes an entry, as expiry or an administrator may.
    #[cfg(test)]
    pub(crate) fn change_entry(
        &mut self,
        resource: &Resource,
        waiter: &LeaseId,
        change: impl FnOnce(&mut QueueEntry),
    ) {
        let Some(queue) = self.wait_queues.get_mut(resource) else { return };
        if let Some(entry) = queue.entries.iter_mut().find(|entry| entry.waiter == *waiter) {
            change(entry);
        }
        queue.entries.sort_unstable();
    }
}

impl WaitQueue {
    pub(super) fn rank(&self, waiter: &LeaseId) -> Option<usize> {
        self.entries.iter().position(|entry| entry.waiter == *waiter)
    }

    /// Returns the entries in order of arrival.
    #[cfg(test)]
    pub(crate) fn entries(&self) -> &[QueueEntry] {
        &self.entries
    }

    #[cfg(test)]
    pub(crate) fn expires_at(&self) -> NodeTime {
        self.expires_at
    }

    /// Returns the waiter that was woken last, and the time of its first wake.
    #[cfg(test)]
    pub(crate) fn woken(&self) -> Option<&(LeaseId, NodeTime)> {
        self.woken.as_ref()
    }
}
