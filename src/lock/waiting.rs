//! Waiting for a resource that others hold.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{
    algorithm::{
        attempt::{HEDGE_SHARE, Loss, Plan},
        queueing::Deferral,
        retry::Wake,
        waiting_strategy::WaitingStrategy,
    },
    clock::Instant,
    config::CheckedLock,
    error::LockError,
    lock::{
        bell::{Bell, NodeBell, Topic},
        core::Core,
        held::Won,
        in_line::InLine,
        inspection::ask_all,
        locking::{Attempted, Lost, Target, attempt},
        rule::{Rule, sighting},
    },
    mutation::{self, Mutation},
    mutex::lock,
    node::{Resources, Subscription},
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
    queues: Mutex<HashMap<Waited, (usize, Arc<Queue>)>>,
}

/// What is waited for, and whether in line: contenders have nothing to share with those.
type Waited = (Resources, bool);

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
    /// How many others were let go first, if that was owed.
    let_go: Option<u32>,
    /// Its place in the lines of the nodes; `None` if it does not queue there.
    line: Option<InLine>,
    hint: u64,
    /// When the first of the attempts began that could ask no quorum; `None` once one could.
    failing_since: Option<Instant>,
    /// When the quarantines are over for which the last attempt had no quorum, as the nodes told it.
    quarantined_until: Option<Instant>,
}

#[derive(Debug)]
struct Waiting {
    rule: Rule,
    /// At every node, for as long as anybody waits; none of whoever listens for its turn.
    _subscriptions: Vec<Subscription>,
}

/// A place in the queue; leaving it is dropping it.
#[derive(Debug)]
struct Place<'a> {
    waiters: &'a Waiters,
    waited: Waited,
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
    let place = core.waiters.enter(target);
    let bell = &place.queue.bell;
    let mut turn = place.queue.turn.lock().await;
    if target.settings.is_fair() {
        let life = target.settings.place_life;
        turn.line.get_or_insert_with(|| InLine::new(core, &target.resources, life));
    }
    loop {
        let end_of_patience = turn.end_of_patience(start, &target.settings);
        let plan = turn.until_next_attempt(core, target, bell, end_of_patience).await;
        let (begun, hint) = (core.now(), turn.hint);
        match attempt(core, target, plan, hint, turn.line.as_mut()).await {
            Attempted::Won(won) => {
                turn.won(core.now(), target.settings.ttl, bell);
                return Ok(won);
            }
            Attempted::Lost(lost) => {
                turn.lost(core, target, bell, &lost, begun);
                let end_of_patience = turn.end_of_patience(start, &target.settings);
                if end_of_patience.is_some_and(|end| end <= core.now()) {
                    return Err(lost.into_error(core, target));
                }
                turn.look(core, target).await;
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
    if votes.quarantined() <= spare {
        return LockError::NoQuorum { resource, needed, votes };
    }
    let remaining = votes.quarantined_for(needed);
    LockError::Quarantined { resource, needed, remaining, votes }
}

impl Waiters {
    /// Whether any task of this client waits for these resources, other than in line.
    pub(crate) fn are_there(&self, resources: &Resources) -> bool {
        lock(&self.queues).contains_key(&(Arc::clone(resources), false))
    }

    fn enter(&self, target: &Target) -> Place<'_> {
        let waited = (Arc::clone(&target.resources), target.settings.is_fair());
        let mut queues = lock(&self.queues);
        let (places, queue) = queues.entry(waited.clone()).or_default();
        *places += 1;
        let queue = Arc::clone(queue);
        drop(queues);
        Place { waiters: self, waited, queue }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut queues = lock(&self.waiters.queues);
        let Entry::Occupied(mut entry) = queues.entry(self.waited.clone()) else { return };
        entry.get_mut().0 -= 1;
        let left = if entry.get().0 == 0 { Some(entry.remove()) } else { None };
        drop(queues);
        // Outside of the mutex: the subscriptions and the places in line end with it.
        drop(left);
    }
}

impl Turn {
    /// Waits for the time of the next attempt, and says how to make it. One is made as soon as quarantines are over for which
    /// there was no quorum; while none can be asked, the last one is made at the end of the patience.
    async fn until_next_attempt(
        &mut self,
        core: &Core,
        target: &Target,
        bell: &Bell,
        end_of_patience: Option<Instant>,
    ) -> Plan {
        let Some(Waiting { rule, .. }) = &mut self.waiting else {
            return self.first_plan(core, target).await;
        };
        loop {
            let rung = bell.rung.notified();
            let now = core.now();
            rule.hear(bell.take(), now);
            let Wake { at, plan } = rule.next_wake();
            let at = [end_of_patience, self.quarantined_until].into_iter().flatten().fold(at, Instant::min);
            if at <= now {
                rule.attempt_begins(&plan, now);
                return plan;
            }
            tokio::select! {
                biased;
                () = rung => {}
                () = core.clock.sleep_until(at) => {}
            }
        }
    }

    /// How to try for the first time, after those that a release of this client was told to have gone first.
    async fn first_plan(&mut self, core: &Core, target: &Target) -> Plan {
        self.let_go = None;
        if target.settings.is_fair() {
            return Plan::InLine(core.arbiters(&target.resource));
        }
        if target.settings.pacing.strategy != WaitingStrategy::ArbiterFirst {
            return Plan::Parallel;
        }
        let Some(courtesy) = core.courtesies.take(&target.resources, core.now()) else {
            return Plan::Parallel;
        };
        self.let_go = (!mutation::is_on(Mutation::ForgetThoseWhoWait)).then_some(courtesy.others);
        core.clock.sleep_until(courtesy.until).await;
        Plan::ArbiterFirst(core.arbiters(&target.resource))
    }

    fn lost(&mut self, core: &Core, target: &Target, bell: &Arc<Bell>, lost: &Lost, begun: Instant) {
        let now = core.now();
        self.hint = self.hint.max(lost.hint);
        self.failing_since = match lost.loss {
            Loss::Contended => None,
            Loss::NoQuorum | Loss::Expired => self.failing_since.or(Some(begun)),
        };
        let quarantine = lost.votes.quarantined_for(core.settings.electorate.needed());
        self.quarantined_until = quarantine.map(|remaining| now + remaining + target.settings.pacing.floor);
        let waiting =
            self.waiting.get_or_insert_with(|| Waiting::begin(core, target, bell, now, self.let_go));
        waiting.rule.attempt_lost(lost, bell, now, core.jitter());
        if let (Some(line), Some(Deferral { node, .. })) = (&mut self.line, &lost.deferral) {
            let ear = |topic| Arc::new(NodeBell { node: *node, topic, bell: Arc::clone(bell) });
            line.listen(*node, || ear(Topic::Turn), || ear(Topic::Release));
        }
    }

    /// Asks all nodes who holds the resource, where the node that keeps the line may be wrong. Silent ones are waited for no
    /// longer than a silent arbiter.
    async fn look(&mut self, core: &Core, target: &Target) {
        let Some(Waiting { rule: Rule::Queueing(queueing), .. }) = &mut self.waiting else { return };
        if !queueing.wants_look() {
            return;
        }
        let start = core.now();
        let deadline = start + target.settings.node_timeout / HEDGE_SHARE;
        let sightings: Vec<_> =
            ask_all(core, &target.resource, deadline).await.iter().map(sighting).collect();
        let now = core.now();
        queueing.looked(&sightings, now.saturating_duration_since(start), now);
    }

    /// When a task that began at `start` has waited for a quorum as long as it may, if there is none at present. By default that is
    /// not before the nodes will vote that have told when.
    fn end_of_patience(&self, start: Instant, settings: &CheckedLock) -> Option<Instant> {
        let end = self.failing_since?.max(start) + settings.patience;
        let until = self.quarantined_until.filter(|_| !settings.is_patience_set);
        Some(until.map_or(end, |until| until.max(end)))
    }

    /// The next in the queue waits for what this one has won.
    fn won(&mut self, now: Instant, ttl: Duration, bell: &Bell) {
        (self.failing_since, self.quarantined_until) = (None, None);
        if let Some(line) = &mut self.line {
            line.won();
        }
        match &mut self.waiting {
            Some(Waiting { rule: Rule::Contending(retry), .. }) => retry.won(now, ttl),
            Some(Waiting { rule: Rule::Queueing(queueing), .. }) => {
                // Calls until now were for this turn.
                bell.take();
                queueing.won(now);
            }
            None => {}
        }
    }
}

impl Waiting {
    fn begin(core: &Core, target: &Target, bell: &Arc<Bell>, now: Instant, let_go: Option<u32>) -> Self {
        let strategy = target.settings.pacing.strategy;
        let hears_all = matches!(strategy, WaitingStrategy::ArbiterFirst | WaitingStrategy::Parallel);
        let to_hear: &[_] = if hears_all { &core.nodes } else { &[] };
        let subscriptions = to_hear.iter().enumerate().flat_map(|(node, to)| {
            let listener = Arc::new(NodeBell { node, topic: Topic::Release, bell: Arc::clone(bell) });
            target.resources.iter().map(move |resource| to.subscribe(resource, Arc::clone(&listener) as _))
        });
        Self { rule: Rule::new(core, target, now, let_go), _subscriptions: subscriptions.collect() }
    }
}
