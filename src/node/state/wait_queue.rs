//! Enqueue, withdraw: waiters that are woken one at a time, in the order of their tickets.

use std::time::Duration;

use crate::{
    mutation::{self, Mutation},
    node::{
        answer::{Answer, Holder, Queued},
        names,
        parameters::QuorumParameters,
        request::{Enqueue, Withdraw},
        state::{NodeState, NodeTime},
        ttl::whole_milliseconds,
    },
    values::{OwnerId, Resource},
};

/// How far ahead of the node's time a ticket may be that another node gave, whose clock may be:
/// every later waiter has a larger one.
const TICKET_AHEAD: Duration = Duration::from_secs(3600);

/// So many of the first in the queue are told so.
const TOLD: usize = 2;

/// The waiters for a resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WaitQueue {
    /// In the order of their tickets, and of their names where these are equal.
    entries: Vec<QueueEntry>,
    /// The waiter that was woken last, and when it was for the first time.
    woken: Option<(OwnerId, NodeTime)>,
    pub(super) expires_at: NodeTime,
}

/// The entry of one waiter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct QueueEntry {
    pub(crate) ticket: u64,
    pub(crate) waiter: OwnerId,
    /// Until when it is kept.
    pub(crate) ends: NodeTime,
}

/// A waiter that asks whether it is its turn.
#[derive(Clone, Copy)]
struct Asking<'a> {
    waiter: &'a OwnerId,
    ticket: u64,
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

    pub(super) fn tell(&mut self, topic: Resource) {
        self.notices.push(topic);
    }

    /// Tells a topic to those who listen, if there are any.
    fn tell_heard(&mut self, topic: Resource) -> bool {
        let is_heard = (self.count)(&topic) > 0;
        if is_heard && !mutation::is_on(Mutation::WakeNobody) {
            self.notices.push(topic);
        }
        is_heard
    }
}

impl NodeState {
    /// Locks if it is the waiter's turn: the resources are free, and nobody is before it. A lock
    /// that was granted already is granted again.
    pub(super) fn enqueue(
        &mut self,
        parameters: &QuorumParameters,
        enqueue: &Enqueue,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Result<Answer, Answer> {
        let Enqueue { lock, resource: index, waiter, ticket, entry_ttl, only_waits } = enqueue;
        if self.is_gone(&lock.resources, &lock.owner, now) {
            return Ok(Answer::Gone);
        }
        let Some(resource) = lock.resources.get(*index) else {
            return self.lock(parameters, lock, now, subscribers);
        };
        let lookup = self.look_up(&lock.resources, &lock.owner, now);
        let counter = self.counters(&lock.resources, now)?.largest;
        let is_free = lookup.other.is_none() && !only_waits;
        let asks_queue = is_free && !lookup.is_all_ours && !mutation::is_on(Mutation::GrantOutOfTurn);
        let asking = Some(Asking { waiter, ticket: *ticket });
        let head =
            asks_queue.then(|| self.next_in_queue(parameters, resource, asking, now, subscribers)).flatten();
        if is_free && head.as_ref().is_none_or(|head| head == waiter) {
            let granted = self.grant(parameters, lock, now)?;
            if head.is_some() {
                self.leave_queue(resource, waiter, now, subscribers);
            }
            return Ok(granted.awaited(self.wait_queue(resource, now).is_some()));
        }
        let holder = lookup.other.map(|holder| Holder { counter, ..holder });
        let ticket = entry_ttl.map_or(0, |entry_ttl| self.enter(resource, waiter, *ticket, entry_ttl, now));
        let patience = self
            .ttl_before(resource, waiter, now, subscribers)
            .or_else(|| holder.as_ref().map(|holder| holder.remaining))
            .unwrap_or_default();
        let blocked = holder.as_ref().map_or(*index, |holder| holder.resource);
        Ok(Answer::Queued(Queued {
            resource: blocked,
            ticket,
            rank: self.rank(resource, waiter, now),
            patience,
            holder,
        }))
    }

    /// Takes a waiter out of the queue, and wakes the next if the resource is free: the waiter may
    /// have been woken and have left, or have had the vote and given it back.
    pub(super) fn withdraw(
        &mut self,
        parameters: &QuorumParameters,
        withdraw: &Withdraw,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Answer {
        let Withdraw { resource, waiter } = withdraw;
        self.leave_queue(resource, waiter, now, subscribers);
        if !mutation::is_on(Mutation::KeepTheTurn) {
            self.wake_next(parameters, resource, now, subscribers);
        }
        Answer::Withdrawn
    }

    /// Wakes the first in the queue if the resource is free.
    pub(super) fn wake_next(
        &mut self,
        parameters: &QuorumParameters,
        resource: &Resource,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) {
        if self.held(resource, now).is_none() {
            self.next_in_queue(parameters, resource, None, now, subscribers);
        }
    }

    /// The waiter whose turn it is. It is woken, unless it is the one that asks. That one may be
    /// out of the queue because it had a vote and gave it back: then its ticket counts. A waiter
    /// that does not listen is gone, and is taken out. The second goes before a first that was woken
    /// and has not come for most of a hand-over, and is woken together with it from then on.
    fn next_in_queue(
        &mut self,
        parameters: &QuorumParameters,
        resource: &Resource,
        asking: Option<Asking<'_>>,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Option<OwnerId> {
        loop {
            let queue = self.wait_queue(resource, now)?;
            let head = queue.entries.first()?.clone();
            let second = queue.entries.get(1).map(|entry| entry.waiter.clone());
            let woken = queue.woken.as_ref().filter(|(waiter, _)| *waiter == head.waiter).map(|(_, at)| *at);
            let is_overdue = woken.is_some_and(|at| (at + parameters.hand_over * 3 / 4).is_past(now));
            if let Some(Asking { waiter, ticket }) = asking {
                let is_second = second.as_ref().is_none_or(|second| second == waiter);
                if head.waiter == *waiter || (ticket > 0 && ticket < head.ticket) || (is_overdue && is_second)
                {
                    return Some(waiter.clone());
                }
            }
            if !head.ends.is_past(now) && subscribers.tell_heard(names::turn(resource, &head.waiter)) {
                if woken.is_none()
                    && let Some(queue) = self.wait_queues.get_mut(resource)
                {
                    queue.woken = Some((head.waiter.clone(), now));
                }
                if let Some(second) = second.filter(|_| is_overdue) {
                    subscribers.tell_heard(names::turn(resource, &second));
                }
                return Some(head.waiter);
            }
            self.leave_queue(resource, &head.waiter, now, subscribers);
        }
    }

    /// Whether anybody is queued; the first is woken then if the resource is free.
    pub(super) fn is_awaited(
        &mut self,
        parameters: &QuorumParameters,
        resource: &Resource,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> bool {
        self.wake_next(parameters, resource, now, subscribers);
        self.wait_queue(resource, now).is_some()
    }

    /// The queue of a resource, unless it is over.
    pub(crate) fn wait_queue(&self, resource: &Resource, now: NodeTime) -> Option<&WaitQueue> {
        self.wait_queues.get(resource).filter(|queue| !queue.expires_at.is_past(now))
    }

    /// Keeps an entry for so long, and returns its ticket.
    fn enter(
        &mut self,
        resource: &Resource,
        waiter: &OwnerId,
        ticket: u64,
        entry_ttl: Duration,
        now: NodeTime,
    ) -> u64 {
        let entry_ttl = Duration::from_millis(whole_milliseconds(entry_ttl));
        let mut queue = self.wait_queue(resource, now).cloned().unwrap_or_else(|| WaitQueue {
            entries: Vec::new(),
            woken: None,
            expires_at: now + entry_ttl,
        });
        let ticket = if ticket == 0 {
            let last = queue.entries.last().map_or(0, |entry| entry.ticket);
            micros(now).max(last.saturating_add(1))
        } else {
            // It has come, so it is not overdue any more.
            queue.woken = queue.woken.filter(|(woken, _)| woken != waiter);
            ticket.min(micros(now + TICKET_AHEAD))
        };
        queue.entries.retain(|entry| entry.waiter != *waiter);
        queue.entries.push(QueueEntry { ticket, waiter: waiter.clone(), ends: now + entry_ttl });
        queue.entries.sort_unstable();
        queue.expires_at = queue.expires_at.max(now + entry_ttl);
        self.wait_queues.insert(resource.clone(), queue);
        ticket
    }

    /// Takes a waiter out of the queue. A waiter that becomes one of the first two by that is told.
    fn leave_queue(
        &mut self,
        resource: &Resource,
        waiter: &OwnerId,
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
            subscribers.tell_heard(names::next(resource, &next.waiter));
        }
    }

    /// How many are before a waiter; all of them if it is not queued.
    fn rank(&self, resource: &Resource, waiter: &OwnerId, now: NodeTime) -> u32 {
        let rank = self
            .wait_queue(resource, now)
            .map_or(0, |queue| queue.rank(waiter).unwrap_or(queue.entries.len()));
        u32::try_from(rank).unwrap_or(u32::MAX)
    }

    /// How long the entry before a waiter's, or the last of the queue, is kept.
    fn ttl_before(
        &mut self,
        resource: &Resource,
        waiter: &OwnerId,
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

    /// Sets when the waiter that was woken last was so for the first time, and returns that waiter.
    #[cfg(test)]
    pub(crate) fn set_woken_at(&mut self, resource: &Resource, at: NodeTime) -> Option<OwnerId> {
        let woken = self.wait_queues.get_mut(resource)?.woken.as_mut()?;
        woken.1 = at;
        Some(woken.0.clone())
    }

    /// Moves an entry, or ends it, as time or an administrator may.
    #[cfg(test)]
    pub(crate) fn change_entry(
        &mut self,
        resource: &Resource,
        waiter: &OwnerId,
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
    fn rank(&self, waiter: &OwnerId) -> Option<usize> {
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
    pub(crate) fn woken(&self) -> Option<&(OwnerId, NodeTime)> {
        self.woken.as_ref()
    }
}

fn micros(time: NodeTime) -> u64 {
    u64::try_from(time.since_epoch().as_micros()).unwrap_or(u64::MAX)
}
