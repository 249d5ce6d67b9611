//! The wait queue of a resource.
//!
//! Waiters are woken one at a time, in order of arrival.
//!
//! ```text
//! the resource is released, or an entry ahead ends  ──▶ wake the first waiter
//! the first waiter is not subscribed, or expired    ──▶ remove its entry, wake the next
//! the wake of the first cannot be published         ──▶ keep its entry, wake no other waiter
//! the first was woken 3/4 of a hand-over ago        ──▶ the second may lock, and is woken, too
//! a waiter becomes the second                       ──▶ publish its head notice: it subscribes to releases
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

/// The waiter whose enqueue the node executes.
#[derive(Clone, Copy)]
pub(super) struct Requester<'a> {
    pub(super) waiter: &'a LeaseId,
    pub(super) arrival: u64,
}

/// The subscribers to the topics of a node, and the notices of one operation.
///
/// Notices are best effort: if a notice cannot be published, every answer is the same as if the notice had been
/// published and lost.
pub(crate) struct Subscribers<'a> {
    /// Returns the number of subscribers to a topic; `None` if the client may not publish on the topic.
    count: &'a dyn Fn(&Resource) -> Option<u32>,
    pub(crate) notices: Vec<Resource>,
    /// Whether a notice could not be published.
    #[cfg(test)]
    pub(super) is_any_unpublished: bool,
}

impl<'a> Subscribers<'a> {
    pub(crate) fn new(count: &'a dyn Fn(&Resource) -> Option<u32>) -> Self {
        Self {
            count,
            notices: Vec::new(),
            #[cfg(test)]
            is_any_unpublished: false,
        }
    }

    /// Publishes a notice. Returns the number of subscribers to the topic; `None` if the notice cannot be published.
    pub(super) fn publish(&mut self, topic: Resource) -> Option<u32> {
        let subscribers = (self.count)(&topic);
        if subscribers.is_some_and(|subscribers| subscribers > 0) {
            self.notices.push(topic);
        }
        #[cfg(test)]
        {
            self.is_any_unpublished |= subscribers.is_none();
        }
        subscribers
    }
}

impl NodeState {
    /// Wakes the first waiter if the waiter can lock the resource.
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

    /// Returns the waiter that may lock, and wakes this waiter unless it is the requester. `None` if there is no queue.
    ///
    /// * **The requester is first:** no wake is needed.
    /// * **The requester has left the queue,** because the node had granted a lock that was rolled back since: the
    ///   requester may lock if its arrival is before the arrival of the first waiter.
    /// * **The first waiter is a writer, and readers hold the resource:** there is no wake. If there is a requester,
    ///   the node publishes the head notice again.
    /// * **The first waiter is not subscribed, or its entry has ended:** the node removes the entry.
    /// * **The notice cannot be published:** the first waiter keeps its place, and attempts by its fallback
    ///   poll.
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
            let is_present = !head.ends.is_past(now)
                && ((is_blocked && requester.is_none())
                    || subscribers.publish(topic(resource, &head.waiter)) != Some(0));
            if is_present && is_blocked {
                return Some(head.waiter);
            }
            if is_present {
                if woken.is_none()
                    && let Some(queue) = self.wait_queues.get_mut(resource)
                {
                    queue.woken = Some((head.waiter.clone(), now));
                }
                if let Some(second) = second.filter(|_| is_overdue) {
                    subscribers.publish(names::wake(resource, &second));
                }
                return Some(head.waiter);
            }
            self.leave_queue(resource, &head.waiter, now, subscribers);
        }
    }

    /// Wakes the first waiter if the waiter can lock the resource. Returns whether the resource has waiters after that.
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
            subscribers.publish(names::head(resource, &next.waiter));
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
