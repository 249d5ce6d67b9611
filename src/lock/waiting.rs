//! Waiting for a resource that others hold.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    algorithm::{
        attempt::{Loss, Plan},
        node_set::NodeSet,
        retry::{Retry, Wake},
        waiting_strategy::WaitingStrategy,
    },
    clock::Instant,
    error::LockError,
    lock::{
        core::Core,
        held::Won,
        locking::{Attempted, Lost, Target, attempt},
    },
    mutex::lock,
    node::{Listener, Notice, Resources, Subscription},
    resource::Resource,
    vote::Votes,
};

/// The tasks of this client that wait, by what they wait for.
///
/// One of them, the *waiter*, tries; the others queue behind it in FIFO order. What is passed on is the turn to try,
/// never the lock, for each lease has a token of its own.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// Looked up by resources, never iterated.
    queues: Mutex<HashMap<Resources, (usize, Arc<Queue>)>>,
}

#[derive(Debug, Default)]
struct Queue {
    /// Tokio's mutex is fair: the first to ask is the first to get it.
    turn: tokio::sync::Mutex<Turn>,
    bell: Arc<Bell>,
}

/// What the waiter knows, and hands on.
#[derive(Debug, Default)]
struct Turn {
    /// `None` until an attempt was refused.
    waiting: Option<Waiting>,
    hint: u64,
    /// When the first of the attempts began that could ask no quorum; `None` once one could.
    failing_since: Option<Instant>,
}

#[derive(Debug)]
struct Waiting {
    retry: Retry,
    /// At every node, for as long as anybody waits.
    _subscriptions: Vec<Subscription>,
}

/// Rings when a node gives notice.
#[derive(Debug, Default)]
struct Bell {
    noticed: Mutex<NodeSet>,
    rung: Notify,
}

#[derive(Debug)]
struct NodeBell {
    node: usize,
    bell: Arc<Bell>,
}

/// A place in the queue; leaving it is dropping it.
#[derive(Debug)]
struct Place<'a> {
    waiters: &'a Waiters,
    resources: Resources,
    queue: Arc<Queue>,
}

/// Locks, waiting as long as it takes: until the resource is free, or no quorum could be asked for the lock's patience,
/// or the deadline.
///
/// # Cancel safety
///
/// Dropping it gives up the place in the queue and rolls back the attempt under way, if there is one.
pub(crate) async fn lock_waiting(
    core: &Core,
    target: &Target,
    deadline: Option<Instant>,
) -> Result<Won, LockError> {
    let start = core.now();
    let mut last_votes = None;
    tokio::select! {
        biased;
        won = take_turns(core, target, start, &mut last_votes) => return won,
        () = core.closed() => return Err(LockError::Closed),
        () = core.until(deadline) => {}
    }
    let waited = core.now().saturating_duration_since(start);
    let votes = last_votes.unwrap_or_else(|| core.no_votes());
    Err(LockError::TimedOut { resource: target.resource.clone(), waited, votes })
}

async fn take_turns(
    core: &Core,
    target: &Target,
    start: Instant,
    last_votes: &mut Option<Votes>,
) -> Result<Won, LockError> {
    let place = core.waiters.enter(&target.resources);
    let mut turn = place.queue.turn.lock().await;
    loop {
        let end_of_patience = turn.end_of_patience(start, target.settings.patience);
        let plan = turn.until_next_attempt(core, &place.queue.bell, end_of_patience).await;
        let begun = core.now();
        match attempt(core, target, plan, turn.hint).await {
            Attempted::Won(won) => {
                turn.won(core.now(), target.settings.ttl);
                return Ok(won);
            }
            Attempted::Lost(lost) => {
                turn.lost(core, target, &place.queue.bell, &lost, begun);
                let end_of_patience = turn.end_of_patience(start, target.settings.patience);
                if end_of_patience.is_some_and(|end| end <= core.now()) {
                    return Err(lost.into_error(core, target));
                }
                *last_votes = Some(lost.votes);
            }
        }
    }
}

impl Lost {
    /// The error that a lost attempt amounts to when it is not tried again. Contention is none for `try_lock`, which looks
    /// at the loss first.
    pub(crate) fn into_error(self, core: &Core, target: &Target) -> LockError {
        if core.is_closed() {
            return LockError::Closed;
        }
        let (resource, votes) = (target.resource.clone(), self.votes);
        match self.loss {
            Loss::Expired => LockError::Expired { resource, votes },
            Loss::Contended | Loss::NoQuorum => no_quorum(core, resource, votes),
        }
    }
}

/// Why there is no quorum: too many nodes in quarantine, or too many that cannot be asked.
fn no_quorum(core: &Core, resource: Resource, votes: Votes) -> LockError {
    let electorate = core.settings.electorate;
    let (needed, spare) = (electorate.needed(), electorate.nodes() - electorate.needed());
    let mut quarantines: Vec<Option<Duration>> = votes.quarantines().collect();
    if quarantines.len() <= spare {
        return LockError::NoQuorum { resource, needed, votes };
    }
    // When enough of them are out of it again; unknown is later than anything.
    quarantines.sort_unstable_by_key(|remaining| remaining.unwrap_or(Duration::MAX));
    let remaining = quarantines.into_iter().rev().nth(spare).flatten();
    LockError::Quarantined { resource, needed, remaining, votes }
}

impl Waiters {
    fn enter(&self, resources: &Resources) -> Place<'_> {
        let mut queues = lock(&self.queues);
        let (places, queue) = queues.entry(Arc::clone(resources)).or_default();
        *places += 1;
        let queue = Arc::clone(queue);
        drop(queues);
        Place { waiters: self, resources: Arc::clone(resources), queue }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut queues = lock(&self.waiters.queues);
        let Some((places, _)) = queues.get_mut(&self.resources) else { return };
        *places -= 1;
        let left = if *places == 0 { queues.remove(&self.resources) } else { None };
        drop(queues);
        // Outside of the mutex: the subscriptions end with it.
        drop(left);
    }
}

impl Turn {
    /// Waits for the time of the next attempt, and says how to make it. While no quorum can be asked, the last one is made at
    /// the end of the patience.
    async fn until_next_attempt(
        &mut self,
        core: &Core,
        bell: &Bell,
        end_of_patience: Option<Instant>,
    ) -> Plan {
        let Some(Waiting { retry, .. }) = &mut self.waiting else { return Plan::Parallel };
        loop {
            let rung = bell.rung.notified();
            let now = core.now();
            for node in bell.take().iter() {
                retry.notice(node, now);
            }
            let Wake { mut at, plan } = retry.next_wake();
            if let Some(end) = end_of_patience {
                at = at.min(end);
            }
            if at <= now {
                retry.attempt_begins(&plan, now);
                return plan;
            }
            tokio::select! {
                biased;
                () = rung => {}
                () = core.clock.sleep_until(at) => {}
            }
        }
    }

    fn lost(&mut self, core: &Core, target: &Target, bell: &Arc<Bell>, lost: &Lost, begun: Instant) {
        let now = core.now();
        self.hint = self.hint.max(lost.hint);
        self.failing_since = match lost.loss {
            Loss::Contended => None,
            Loss::NoQuorum | Loss::Expired => self.failing_since.or(Some(begun)),
        };
        let waiting = self.waiting.get_or_insert_with(|| Waiting::begin(core, target, bell, now));
        waiting.retry.attempt_lost(lost.loss, &lost.seen, lost.took, now, core.jitter());
    }

    /// When a task that began at `start` has waited for a quorum as long as it may, if there is none at present.
    fn end_of_patience(&self, start: Instant, patience: Duration) -> Option<Instant> {
        self.failing_since.map(|since| since.max(start) + patience)
    }

    /// The next in the queue waits for what this one has won.
    fn won(&mut self, now: Instant, ttl: Duration) {
        self.failing_since = None;
        if let Some(Waiting { retry, .. }) = &mut self.waiting {
            retry.won(now, ttl);
        }
    }
}

impl Waiting {
    fn begin(core: &Core, target: &Target, bell: &Arc<Bell>, now: Instant) -> Self {
        let pacing = target.settings.pacing;
        let to_hear: &[_] = if pacing.strategy == WaitingStrategy::Jittered { &[] } else { &core.nodes };
        let subscriptions = to_hear.iter().enumerate().flat_map(|(node, to)| {
            let listener = Arc::new(NodeBell { node, bell: Arc::clone(bell) });
            target.resources.iter().map(move |resource| to.subscribe(resource, Arc::clone(&listener) as _))
        });
        Self {
            retry: Retry::new(core.settings.electorate, pacing, core.arbiters(&target.resource), now),
            _subscriptions: subscriptions.collect(),
        }
    }
}

impl Bell {
    fn take(&self) -> NodeSet {
        std::mem::take(&mut *lock(&self.noticed))
    }
}

impl Listener for NodeBell {
    /// A new subscription counts as a notice: releases before it may have gone unnoticed, so one attempt finds out.
    fn notice(&self, notice: Notice) {
        tracing::trace!(node = self.node, ?notice, "notice");
        lock(&self.bell.noticed).insert(self.node);
        self.bell.rung.notify_one();
    }
}
