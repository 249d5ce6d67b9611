//! Waiting for a resource that others hold.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex},
};

use crate::{
    acquire::{
        attempt::{AttemptOutcome, CheckedRequest, Failed, Refused, attempt},
        notifier::{Notifications, Notifier},
        queue_entries::QueueEntries,
    },
    algorithm::{
        attempt::{FailureReason, HEDGE_SHARE, Plan},
        node_view::NodeView,
        queueing::{FailedAttempt, NextAttempt, Queueing},
    },
    clock::Instant,
    config::CheckedLock,
    error::LockError,
    lease::active_lease::Acquired,
    lock::{core::Core, inspection::ask_all},
    mutex::lock,
    node::{Answer, Resources},
    values::{Resource, Votes},
};

/// The tasks of this client that wait, by what they wait for.
///
/// One of them, the *waiter*, tries; the others queue behind it in FIFO order. What is passed on is
/// the turn to try, never the lock, for each lease has a token of its own.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// Looked up by resources, never iterated.
    queues: Mutex<HashMap<Resources, (usize, Arc<TaskQueue>)>>,
}

#[derive(Debug, Default)]
struct TaskQueue {
    /// Tokio's mutex is fair: the first to ask is the first to get it.
    turn: tokio::sync::Mutex<Turn>,
    notifier: Arc<Notifier>,
}

/// What the waiter knows, and hands on.
#[derive(Debug, Default)]
struct Turn {
    /// `None` until it knows of others.
    waiting: Option<Waiting>,
    hint: u64,
    /// When the first of the attempts began that could ask no quorum; `None` once one could.
    failing_since: Option<Instant>,
    /// When the quarantines are over for which the last attempt had no quorum, as the nodes told
    /// it.
    quarantined_until: Option<Instant>,
    /// Whether an attempt is under way; if nobody makes it any more, it was given up in the middle.
    is_asking: bool,
}

#[derive(Debug)]
struct Waiting {
    queueing: Queueing,
    entries: QueueEntries,
    order: Vec<usize>,
}

/// A place in the queue; leaving it is dropping it.
#[derive(Debug)]
struct Place<'a> {
    waiters: &'a Waiters,
    waited: Resources,
    queue: Arc<TaskQueue>,
}

/// Locks, waiting as long as it takes: until the resource is free, or no quorum could be asked for
/// the lock's patience, or the deadline.
///
/// # Cancel safety
///
/// Dropping it gives up the place in the queue and rolls back the attempt under way, if there is
/// one.
pub(crate) async fn lock_waiting(
    core: &Core,
    checked: &CheckedRequest,
    deadline: Option<Instant>,
) -> Result<Acquired, LockError> {
    let start = core.now();
    let mut last_votes = None;
    tokio::select! {
        biased;
        acquired = take_turns(core, checked, start, &mut last_votes) => return acquired,
        () = core.closed() => return Err(LockError::Closed),
        () = core.until(deadline) => {}
    }
    let waited = core.now().saturating_duration_since(start);
    let votes = last_votes.unwrap_or_else(|| core.no_votes());
    Err(LockError::TimedOut { resource: checked.resource.clone(), waited, votes })
}

async fn take_turns(
    core: &Core,
    checked: &CheckedRequest,
    start: Instant,
    last_votes: &mut Option<Votes>,
) -> Result<Acquired, LockError> {
    let place = core.waiters.enter(&checked.resources);
    let notifier = &place.queue.notifier;
    let mut turn = place.queue.turn.lock().await;
    loop {
        let end_of_patience = turn.end_of_patience(start, &checked.settings);
        let plan = turn.until_next_attempt(core, checked, notifier, end_of_patience).await;
        let (begun, hint) = (core.now(), turn.hint);
        turn.is_asking = true;
        let entries = turn.waiting.as_mut().map(|waiting| &mut waiting.entries);
        let outcome = attempt(core, checked, plan, hint, entries).await;
        turn.is_asking = false;
        match outcome {
            AttemptOutcome::Acquired(acquired) => {
                turn.acquired(core, notifier);
                return Ok(acquired);
            }
            AttemptOutcome::Failed(failed) => {
                turn.failed(core, checked, notifier, &failed, begun);
                let end_of_patience = turn.end_of_patience(start, &checked.settings);
                if end_of_patience.is_some_and(|end| end <= core.now()) {
                    return Err(failed.into_error(core, checked));
                }
                turn.look(core, checked, failed.refused).await;
                *last_votes = Some(failed.votes);
            }
        }
    }
}

impl Failed {
    /// The error that a failed attempt amounts to when it is not tried again. Contention is none
    /// for `try_lock`, which looks at the reason first.
    pub(crate) fn into_error(self, core: &Core, checked: &CheckedRequest) -> LockError {
        if core.is_closed() {
            return LockError::Closed;
        }
        let (resource, votes) = (checked.resource.clone(), self.votes);
        match self.reason {
            FailureReason::Expired => LockError::Expired { resource, votes },
            FailureReason::Contended | FailureReason::NoQuorum => no_quorum(core, resource, votes),
        }
    }
}

/// Why there is no quorum: too many nodes in quarantine, or too many that cannot be asked.
fn no_quorum(core: &Core, resource: Resource, votes: Votes) -> LockError {
    let electorate = core.settings.electorate;
    let (needed, spare) = (electorate.needed(), electorate.nodes() - electorate.needed());
    if votes.quarantined() <= spare {
        return LockError::NoQuorum { resource, needed, votes };
    }
    let remaining = votes.quarantined_for(needed);
    LockError::Quarantined { resource, needed, remaining, votes }
}

impl Waiters {
    fn enter(&self, resources: &Resources) -> Place<'_> {
        let mut queues = lock(&self.queues);
        let (places, queue) = queues.entry(Arc::clone(resources)).or_default();
        *places += 1;
        let queue = Arc::clone(queue);
        drop(queues);
        Place { waiters: self, waited: Arc::clone(resources), queue }
    }

    /// Whether more than one task of this client wants these resources.
    pub(crate) fn are_several(&self, resources: &Resources) -> bool {
        lock(&self.queues).get(resources).is_some_and(|(places, _)| *places > 1)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut queues = lock(&self.waiters.queues);
        let Entry::Occupied(mut entry) = queues.entry(self.waited.clone()) else { return };
        entry.get_mut().0 -= 1;
        let left = if entry.get().0 == 0 { Some(entry.remove()) } else { None };
        drop(queues);
        // Outside of the mutex: the subscriptions and the entries in the queue end with it.
        drop(left);
    }
}

impl Turn {
    /// Waits for the time of the next attempt, and says how to make it. One is made as soon as
    /// quarantines are over for which there was no quorum; while none can be asked, the last one is
    /// made at the end of the patience.
    async fn until_next_attempt(
        &mut self,
        core: &Core,
        checked: &CheckedRequest,
        notifier: &Arc<Notifier>,
        end_of_patience: Option<Instant>,
    ) -> Plan {
        let waiting = match &mut self.waiting {
            Some(waiting) => waiting,
            None => match core.awaited_resource(&checked.resources).await {
                None => return core.first_contact(&checked.resource),
                Some(index) => self.waiting.insert(Waiting::begin(core, checked, index, notifier)),
            },
        };
        if std::mem::take(&mut self.is_asking) {
            // Its turn was given back with the attempt.
            waiting.queueing.ask_again(core.now());
        }
        loop {
            let notified = notifier.notified.notified();
            let now = core.now();
            waiting.hear(notifier.take(), now);
            let NextAttempt { at, plan } = waiting.queueing.next_attempt();
            let at = [end_of_patience, self.quarantined_until].into_iter().flatten().fold(at, Instant::min);
            if at <= now {
                waiting.queueing.attempt_begins(now);
                waiting.entries.only_waits(waiting.queueing.only_queues());
                return plan;
            }
            tokio::select! {
                biased;
                () = notified => {}
                () = core.clock.sleep_until(at) => {}
            }
        }
    }

    fn failed(
        &mut self,
        core: &Core,
        checked: &CheckedRequest,
        notifier: &Arc<Notifier>,
        failed: &Failed,
        begun: Instant,
    ) {
        let now = core.now();
        self.hint = self.hint.max(failed.hint);
        self.failing_since = match failed.reason {
            FailureReason::Contended => None,
            FailureReason::NoQuorum | FailureReason::Expired => self.failing_since.or(Some(begun)),
        };
        let quarantine = failed.votes.quarantined_for(core.settings.electorate.needed());
        self.quarantined_until = quarantine.map(|remaining| now + remaining + checked.settings.pacing.floor);
        let index = failed.refused.map_or(0, |refused| refused.index);
        match &mut self.waiting {
            // A waiter that is refused for another resource waits for that one: in both queues, it
            // would keep others from what is free.
            Some(waiting) if is_elsewhere(waiting, failed.refused) => {
                let mut other = Waiting::begin(core, checked, index, notifier);
                other.entries.instead_of(&waiting.entries);
                // Those in whose way it is may be in its way, at the same moment.
                other.queueing.moved(waiting.queueing.moves() + 1, now, core.jitter());
                *waiting = other;
            }
            Some(waiting) => waiting.failed(failed, notifier, now, core.jitter()),
            None => {
                let waiting = self.waiting.insert(Waiting::begin(core, checked, index, notifier));
                waiting.failed(failed, notifier, now, core.jitter());
            }
        }
    }

    /// Asks all nodes who holds the resource, where the queue node may be wrong. Silent ones are
    /// waited for no longer than a silent queue node.
    async fn look(&mut self, core: &Core, checked: &CheckedRequest, refused: Option<Refused>) {
        let Some(Waiting { queueing, entries, .. }) = &mut self.waiting else { return };
        if !queueing.wants_look() {
            return;
        }
        // A group may be refused for another of its resources than the one that it is queued for.
        let index = refused.map_or_else(|| entries.index(), |refused| refused.index);
        let resource = checked.resources.get(index).unwrap_or(&checked.resource);
        let start = core.now();
        let deadline = start + checked.settings.node_timeout / HEDGE_SHARE;
        let views: Vec<_> = ask_all(core, resource, deadline).await.iter().map(view_of).collect();
        let now = core.now();
        queueing.looked(&views, now.saturating_duration_since(start), now);
    }

    /// When a task that began at `start` has waited for a quorum as long as it may, if there is
    /// none at present. By default that is not before the nodes will vote that have told when.
    fn end_of_patience(&self, start: Instant, settings: &CheckedLock) -> Option<Instant> {
        let end = self.failing_since?.max(start) + settings.patience;
        let until = self.quarantined_until.filter(|_| !settings.is_patience_set);
        Some(until.map_or(end, |until| until.max(end)))
    }

    /// The next in the queue waits for what this one has acquired.
    fn acquired(&mut self, core: &Core, notifier: &Notifier) {
        (self.failing_since, self.quarantined_until) = (None, None);
        if let Some(Waiting { queueing, entries, .. }) = &mut self.waiting {
            entries.acquired(core);
            // Wakes until now were for this turn.
            notifier.take();
            queueing.acquired(core.now());
        }
    }
}

impl Waiting {
    /// Waits for this one of the resources from now on.
    fn begin(core: &Core, checked: &CheckedRequest, index: usize, notifier: &Arc<Notifier>) -> Self {
        let CheckedRequest { resource, resources, settings } = checked;
        let resource = resources.get(index).unwrap_or(resource);
        let (electorate, order, now) = (core.settings.electorate, core.queue_nodes(resource), core.now());
        let (entry_ttl, hand_over) = (settings.entry_ttl, core.settings.parameters.hand_over);
        let mut queueing =
            Queueing::new(electorate, settings.pacing, entry_ttl, hand_over, order.clone(), now);
        queueing.ask_again(now);
        Self { queueing, entries: QueueEntries::new(core, resource, index, settings, notifier), order }
    }

    fn hear(&mut self, notifications: Notifications, now: Instant) {
        notifications.interrupted.iter().for_each(|node| self.queueing.interrupted(node, now));
        notifications.news.iter().for_each(|node| self.queueing.look(node, now));
        self.come_next(notifications);
        notifications.releases.iter().for_each(|node| self.queueing.released(node, now));
        notifications.wakes.iter().for_each(|node| self.queueing.woken(node, now));
    }

    fn failed(&mut self, failed: &Failed, notifier: &Notifier, now: Instant, jitter: f64) {
        let deferral = failed.deferral.as_ref();
        let failed_attempt =
            FailedAttempt { reason: failed.reason, views: &failed.views, deferral, took: failed.took };
        self.queueing.attempt_failed(&failed_attempt, now, jitter);
        if let Some(deferral) = deferral {
            self.listen(deferral.node);
        }
        // What came during the attempt may be older than its refusal: one more look, and no wake.
        let notifications = notifier.take();
        self.come_next(notifications);
        let news = notifications.news.union(notifications.wakes).union(notifications.releases);
        news.iter().for_each(|node| self.queueing.look(node, now));
        notifications.interrupted.iter().for_each(|node| self.queueing.interrupted(node, now));
    }

    fn come_next(&mut self, notifications: Notifications) {
        for node in notifications.nexts.iter() {
            self.queueing.comes_next(node);
            self.listen(node);
        }
    }

    /// Listens to the queue node, as far as this waiter has to.
    fn listen(&mut self, queue_node: usize) {
        if self.queueing.listens() {
            self.entries.listen_for_releases(queue_node, &self.order);
        } else {
            self.entries.ignore_releases();
        }
        self.entries.listen(queue_node);
    }
}

/// Whether it is certain that a waiter is refused for another resource than the one that it waits
/// for.
fn is_elsewhere(waiting: &Waiting, refused: Option<Refused>) -> bool {
    refused.is_some_and(|refused| refused.is_sure && refused.index != waiting.entries.index())
}

/// What an inspection says of a node.
fn view_of(answer: &Answer) -> NodeView {
    match answer {
        Answer::Inspected(inspection) => match &inspection.held {
            Some(held) => {
                NodeView::Held { owner: held.owner.clone(), remaining: held.remaining.unwrap_or_default() }
            }
            None => NodeView::Free,
        },
        _ => NodeView::Unknown,
    }
}
