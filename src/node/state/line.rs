//! Line up, withdraw: waiters who are called one at a time, in the order of their tickets.

use std::time::Duration;

use crate::{
    mutation::{self, Mutation},
    node::{
        answer::{Answer, Holder, Queued},
        names,
        request::{LineUp, Withdraw},
        state::{NodeState, NodeTime},
        terms::Terms,
        ttl::whole_milliseconds,
    },
    owner_id::OwnerId,
    resource::Resource,
};

/// How far ahead of the node's time a ticket may be that another node gave, whose clock may be:
/// everybody who comes later has a larger one.
const TICKET_AHEAD: Duration = Duration::from_secs(3600);

/// So many of the first in line are told so.
const TOLD: usize = 2;

/// Who waits for a resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Line {
    /// In the order of their tickets, and of their names where these are equal.
    spots: Vec<Spot>,
    /// Who was called last, and when that was for the first time.
    called: Option<(OwnerId, NodeTime)>,
    pub(super) expires_at: NodeTime,
}

/// The place of one waiter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Spot {
    pub(crate) ticket: u64,
    pub(crate) waiter: OwnerId,
    /// Until when it is kept.
    pub(crate) ends: NodeTime,
}

/// Somebody who asks whether it is its turn.
#[derive(Clone, Copy)]
struct Asking<'a> {
    waiter: &'a OwnerId,
    ticket: u64,
    overdue: Duration,
}

/// Those who hear what a node tells, and what they are told.
pub(crate) struct Audience<'a> {
    /// How many listen to a topic.
    count: &'a dyn Fn(&Resource) -> u32,
    pub(crate) notices: Vec<Resource>,
}

impl<'a> Audience<'a> {
    pub(crate) fn new(count: &'a dyn Fn(&Resource) -> u32) -> Self {
        Self { count, notices: Vec::new() }
    }

    pub(super) fn tell(&mut self, topic: Resource) {
        self.notices.push(topic);
    }

    /// Tells a topic to those who listen, if there are any.
    fn tell_heard(&mut self, topic: Resource) -> bool {
        let is_heard = (self.count)(&topic) > 0;
        if is_heard && !mutation::is_on(Mutation::CallNobody) {
            self.notices.push(topic);
        }
        is_heard
    }
}

impl NodeState {
    /// Locks if it is the waiter's turn: the resources are free, and nobody is before it. A lock
    /// that was granted already is granted again.
    pub(super) fn line_up(
        &mut self,
        terms: &Terms,
        line_up: &LineUp,
        now: NodeTime,
        audience: &mut Audience<'_>,
    ) -> Result<Answer, Answer> {
        let LineUp { lock, resource: index, waiter, ticket, life, only_waits } = line_up;
        if self.is_gone(&lock.resources, &lock.owner, now) {
            return Ok(Answer::Gone);
        }
        let Some(resource) = lock.resources.get(*index) else {
            return self.lock(terms, lock, now, audience);
        };
        let survey = self.survey(&lock.resources, &lock.owner, now);
        let counter = self.counters(&lock.resources, now)?.largest;
        let is_free = survey.other.is_none() && !only_waits;
        let asks_line = is_free && !survey.is_all_ours && !mutation::is_on(Mutation::GrantOutOfTurn);
        let asking = Asking { waiter, ticket: *ticket, overdue: terms.hand_over * 3 / 4 };
        let head = if asks_line { self.next_in_line(resource, Some(asking), now, audience) } else { None };
        if is_free && head.as_ref().is_none_or(|head| head == waiter) {
            let granted = self.grant(terms, lock, now)?;
            if head.is_some() {
                self.leave_line(resource, waiter, now, audience);
            }
            return Ok(granted.awaited(self.line(resource, now).is_some()));
        }
        let holder = survey.other.map(|holder| Holder { counter, ..holder });
        let ticket = life.map_or(0, |life| self.enter(resource, waiter, *ticket, life, now));
        let patience = self
            .life_before(resource, waiter, now, audience)
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

    /// Takes a waiter out of the line, and calls the next if the resource is free: it may have been
    /// called and left, or had the vote and given it back.
    pub(super) fn withdraw(
        &mut self,
        withdraw: &Withdraw,
        now: NodeTime,
        audience: &mut Audience<'_>,
    ) -> Answer {
        let Withdraw { resource, waiter } = withdraw;
        self.leave_line(resource, waiter, now, audience);
        if !mutation::is_on(Mutation::KeepTheCall) {
            self.call_next(resource, now, audience);
        }
        Answer::Withdrawn
    }

    /// Calls the first of the line if the resource is free.
    pub(super) fn call_next(&mut self, resource: &Resource, now: NodeTime, audience: &mut Audience<'_>) {
        if self.held(resource, now).is_none() {
            self.next_in_line(resource, None, now, audience);
        }
    }

    /// Whose turn it is. It is called, unless it is the one who asks, which may be out of line for
    /// having had a vote that it gave back: then its ticket speaks for it. Whoever does not listen
    /// is gone, and leaves.
    fn next_in_line(
        &mut self,
        resource: &Resource,
        asking: Option<Asking<'_>>,
        now: NodeTime,
        audience: &mut Audience<'_>,
    ) -> Option<OwnerId> {
        loop {
            let line = self.line(resource, now)?;
            let head = line.spots.first()?.clone();
            let second = line.spots.get(1).map(|spot| spot.waiter.clone());
            let called = line.called.as_ref().filter(|(waiter, _)| *waiter == head.waiter).map(|(_, at)| *at);
            if let Some(Asking { waiter, ticket, overdue }) = asking {
                let is_overdue = called.is_some_and(|at| (at + overdue).is_past(now));
                let is_second = second.as_ref().is_none_or(|second| second == waiter);
                if head.waiter == *waiter || (ticket > 0 && ticket < head.ticket) || (is_overdue && is_second)
                {
                    return Some(waiter.clone());
                }
            }
            if !head.ends.is_past(now) && audience.tell_heard(names::turn(resource, &head.waiter)) {
                if called.is_none()
                    && let Some(line) = self.lines.get_mut(resource)
                {
                    line.called = Some((head.waiter.clone(), now));
                }
                return Some(head.waiter);
            }
            self.leave_line(resource, &head.waiter, now, audience);
        }
    }

    /// Whether anybody is in line, who is called then if the resource is free.
    pub(super) fn is_awaited(
        &mut self,
        resource: &Resource,
        now: NodeTime,
        audience: &mut Audience<'_>,
    ) -> bool {
        self.call_next(resource, now, audience);
        self.line(resource, now).is_some()
    }

    /// The line of a resource, unless it is over.
    pub(crate) fn line(&self, resource: &Resource, now: NodeTime) -> Option<&Line> {
        self.lines.get(resource).filter(|line| !line.expires_at.is_past(now))
    }

    /// Keeps a place for so long: the ticket.
    fn enter(
        &mut self,
        resource: &Resource,
        waiter: &OwnerId,
        ticket: u64,
        life: Duration,
        now: NodeTime,
    ) -> u64 {
        let life = Duration::from_millis(whole_milliseconds(life));
        let mut line = self.line(resource, now).cloned().unwrap_or_else(|| Line {
            spots: Vec::new(),
            called: None,
            expires_at: now + life,
        });
        let ticket = if ticket == 0 {
            let last = line.spots.last().map_or(0, |spot| spot.ticket);
            micros(now).max(last.saturating_add(1))
        } else {
            ticket.min(micros(now + TICKET_AHEAD))
        };
        line.spots.retain(|spot| spot.waiter != *waiter);
        line.spots.push(Spot { ticket, waiter: waiter.clone(), ends: now + life });
        line.spots.sort_unstable();
        line.expires_at = line.expires_at.max(now + life);
        self.lines.insert(resource.clone(), line);
        ticket
    }

    /// Takes a waiter out of the line. Whoever becomes one of the first two by that is told.
    fn leave_line(
        &mut self,
        resource: &Resource,
        waiter: &OwnerId,
        now: NodeTime,
        audience: &mut Audience<'_>,
    ) {
        let rank = self.line(resource, now).and_then(|line| line.rank(waiter));
        let Some(line) = self.lines.get_mut(resource) else { return };
        line.spots.retain(|spot| spot.waiter != *waiter);
        if line.called.as_ref().is_some_and(|(called, _)| called == waiter) {
            line.called = None;
        }
        if line.spots.is_empty() {
            self.lines.remove(resource);
        } else if rank.is_some_and(|rank| rank < TOLD)
            && let Some(next) = line.spots.get(TOLD - 1)
        {
            audience.tell_heard(names::next(resource, &next.waiter));
        }
    }

    /// How many are before a waiter; before whoever is not in line, all.
    fn rank(&self, resource: &Resource, waiter: &OwnerId, now: NodeTime) -> u32 {
        let rank = self.line(resource, now).map_or(0, |line| line.rank(waiter).unwrap_or(line.spots.len()));
        u32::try_from(rank).unwrap_or(u32::MAX)
    }

    /// How long whoever is before a waiter, or the last of the line, keeps its place.
    fn life_before(
        &mut self,
        resource: &Resource,
        waiter: &OwnerId,
        now: NodeTime,
        audience: &mut Audience<'_>,
    ) -> Option<Duration> {
        loop {
            let line = self.line(resource, now)?;
            let rank = line.rank(waiter).unwrap_or(line.spots.len());
            let before = line.spots.get(rank.checked_sub(1)?)?.clone();
            if !before.ends.is_past(now) {
                return Some(before.ends.remaining(now));
            }
            self.leave_line(resource, &before.waiter, now, audience);
        }
    }

    /// Sets when whoever was called last was so for the first time: who that is.
    #[cfg(test)]
    pub(crate) fn call_at(&mut self, resource: &Resource, at: NodeTime) -> Option<OwnerId> {
        let called = self.lines.get_mut(resource)?.called.as_mut()?;
        called.1 = at;
        Some(called.0.clone())
    }

    /// Moves a place, or ends it, as time or an administrator may.
    #[cfg(test)]
    pub(crate) fn change_spot(
        &mut self,
        resource: &Resource,
        waiter: &OwnerId,
        change: impl FnOnce(&mut Spot),
    ) {
        let Some(line) = self.lines.get_mut(resource) else { return };
        if let Some(spot) = line.spots.iter_mut().find(|spot| spot.waiter == *waiter) {
            change(spot);
        }
        line.spots.sort_unstable();
    }
}

impl Line {
    fn rank(&self, waiter: &OwnerId) -> Option<usize> {
        self.spots.iter().position(|spot| spot.waiter == *waiter)
    }

    /// Who waits, first come first.
    #[cfg(test)]
    pub(crate) fn spots(&self) -> &[Spot] {
        &self.spots
    }

    #[cfg(test)]
    pub(crate) fn expires_at(&self) -> NodeTime {
        self.expires_at
    }

    /// Who was called last, and when for the first time.
    #[cfg(test)]
    pub(crate) fn called(&self) -> Option<&(OwnerId, NodeTime)> {
        self.called.as_ref()
    }
}

fn micros(time: NodeTime) -> u64 {
    u64::try_from(time.since_epoch().as_micros()).unwrap_or(u64::MAX)
}
