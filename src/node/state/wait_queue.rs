//! The wait queue of a resource: waiters that are woken one at a time, in the order of their
//! arrivals.

use crate::{
    node::{
        names,
        parameters::QuorumParameters,
        state::{NodeState, NodeTime},
    },
    values::{LeaseId, Resource},
};

/// So many of the first in the queue are told so.
const TOLD: usize = 2;

/// The waiters for a resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WaitQueue {
    /// In the order of their arrivals, and of their names where these are equal.
    pub(super) entries: Vec<QueueEntry>,
    /// The waiter that was woken last, and when it was for the first time.
    pub(super) woken: Option<(LeaseId, NodeTime)>,
    pub(super) expires_at: NodeTime,
}

/// The entry of one waiter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct QueueEntry {
    pub(crate) arrival: u64,
    pub(crate) waiter: LeaseId,
    /// Until when it is kept.
    pub(crate) ends: NodeTime,
}

/// A waiter that asks whether it is its turn.
#[derive(Clone, Copy)]
pub(super) struct TurnRequest<'a> {
    pub(super) waiter: &'a LeaseId,
    pub(super) arrival: u64,
}

/// Those who hear what a node tells, and what they are told.
pub(crate) struct Subscribers<'a> {
    /// How many listen to a topic.
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

    /// Tells a topic to those who listen, if there are any.
    fn publish_if_heard(&mut self, topic: Resource) -> bool {
        let is_heard = (self.count)(&topic) > 0;
        if is_heard {
            self.notices.push(topic);
        }
        is_heard
    }
}

impl NodeState {
    /// Wakes the first in the queue if it can have the resource.
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

    /// The waiter whose turn it is. It is woken, unless it is the one that asks, or waits to write
    /// what is shared: then it is told again that it is one of the first. The one that asks may be
    /// out of the queue because it had a vote and gave it back: then its arrival counts. A waiter that
    /// does not listen is gone, and is taken out. The second goes before a first that was woken and
    /// has not come for most of a hand-over, and is woken together with it from then on.
    pub(super) fn next_in_queue(
        &mut self,
        parameters: &QuorumParameters,
        resource: &Resource,
        asking: Option<TurnRequest<'_>>,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Option<LeaseId> {
        loop {
            let queue = self.wait_queue(resource, now)?;
            let head = queue.entries.first()?.clone();
            let second = queue.entries.get(1).map(|entry| entry.waiter.clone());
            let woken = queue.woken.as_ref().filter(|(waiter, _)| *waiter == head.waiter).map(|(_, at)| *at);
            // Not where it waits for others to stop reading.
            let is_blocked = self.held(resource, now).is_some() && !names::is_reader(&head.waiter);
            let is_overdue =
                !is_blocked && woken.is_some_and(|at| (at + parameters.hand_over * 3 / 4).is_past(now));
            if let Some(TurnRequest { waiter, arrival }) = asking {
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
                && ((is_blocked && asking.is_none())
                    || subscribers.publish_if_heard(topic(resource, &head.waiter)));
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
                    subscribers.publish_if_heard(names::wake(resource, &second));
                }
                return Some(head.waiter);
            }
            self.leave_queue(resource, &head.waiter, now, subscribers);
        }
    }

    /// Whether anybody is queued; the first is woken then if the resource is free.
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

    /// Whether anybody is queued for one of the resources.
    pub(super) fn is_any_queued(&self, resources: &[Resource], now: NodeTime) -> bool {
        resources.iter().any(|resource| self.wait_queue(resource, now).is_some())
    }

    /// The queue of a resource, unless it is over.
    pub(crate) fn wait_queue(&self, resource: &Resource, now: NodeTime) -> Option<&WaitQueue> {
        self.wait_queues.get(resource).filter(|queue| !queue.expires_at.is_past(now))
    }

    /// Takes a waiter out of the queue. A waiter that becomes one of the first two by that is told.
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
        } else if rank.is_some_and(|rank| rank < TOLD)
            && let Some(next) = queue.entries.get(TOLD - 1)
        {
            subscribers.publish_if_heard(names::head(resource, &next.waiter));
        }
    }

    /// Sets when the waiter that was woken last was so for the first time, and returns that waiter.
    #[cfg(test)]
    pub(crate) fn set_last_woken_at(&mut self, resource: &Resource, at: NodeTime) -> Option<LeaseId> {
        let woken = self.wait_queues.get_mut(resource)?.woken.as_mut()?;
        woken.1 = at;
        Some(woken.0.clone())
    }

    /// Moves an entry, or ends it, as time or an administrator may.
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

    /// Who waits, first come first.
    #[cfg(test)]
    pub(crate) fn entries(&self) -> &[QueueEntry] {
        &self.entries
    }

    #[cfg(test)]
    pub(crate) fn expires_at(&self) -> NodeTime {
        self.expires_at
    }

    /// The waiter that was woken last, and when for the first time.
    #[cfg(test)]
    pub(crate) fn woken(&self) -> Option<&(LeaseId, NodeTime)> {
        self.woken.as_ref()
    }
}
