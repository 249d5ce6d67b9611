//! One attempt, performed.

use std::{sync::Arc, time::Duration};

use crate::{
    algorithm::{
        attempt::{self, Attempt, Ballot, Loss, Plan, Step},
        fencing::FencingToken,
        lease::LeaseTime,
        node_set::NodeSet,
        queueing::Deferral,
        sighting::Sighting,
    },
    config::CheckedLock,
    lock::{
        core::Core,
        fanout::{Fanout, Heard},
        gauge::UnderWay,
        held::{Standing, Won},
        in_line::InLine,
        observer::{AttemptEnd, Question},
    },
    mutation::{self, Mutation},
    node::{Answer, Entry, Fault, Holder, Leave, Lock, Queued, Raise, Request, Resources, Unlock},
    owner_id::OwnerId,
    resource::Resource,
    vote::{Vote, Votes},
};

/// What is to be locked, and how.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The resource to speak of the lock by: the first.
    pub(crate) resource: Resource,
    pub(crate) resources: Resources,
    pub(crate) settings: CheckedLock,
}

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum Attempted {
    Won(Won),
    Lost(Lost),
}

/// What an attempt that was lost has seen; everything was taken back.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) loss: Loss,
    pub(crate) votes: Votes,
    pub(crate) seen: Vec<Sighting>,
    /// The largest fencing counter seen, plus one; 0 if none was.
    pub(crate) hint: u64,
    /// How long it took.
    pub(crate) took: Duration,
    /// How a node that keeps a line has put us off.
    pub(crate) deferral: Option<Deferral>,
}

#[derive(Clone, Copy, Debug)]
enum Asked {
    Lock,
    LineUp,
    Raise,
}

impl Asked {
    fn question(self) -> Question {
        match self {
            Self::Lock | Self::LineUp => Question::Lock,
            Self::Raise => Question::Raise,
        }
    }
}

/// Makes one attempt, with an owner id that no other attempt has; with a place in line where the plan asks for a turn.
///
/// # Cancel safety
///
/// Dropped at any point, it is rolled back on every node that was asked and has not definitely refused: submitted at
/// once, behind the lock on the same connection.
pub(crate) async fn attempt(
    core: &Core,
    target: &Target,
    plan: Plan,
    hint: u64,
    line: Option<&mut InLine>,
) -> Attempted {
    let mut run = Run::new(core, target, plan, hint, line);
    if core.is_closed() {
        return Attempted::Lost(run.lost(Loss::NoQuorum));
    }
    loop {
        match run.attempt.step(core.now()) {
            Step::Lock(nodes) => run.send_lock(nodes),
            Step::LineUp(node) => run.line_up(node),
            Step::Raise { token, nodes } => run.send_raise(token, nodes),
            Step::Wait(deadline) => {
                if let Heard::Answer { node, tag, answer } = run.fanout.next(&*core.clock, deadline).await {
                    run.hear(node, tag, answer);
                }
            }
            Step::Abandon => run.roll_back(),
            Step::Won { token } => return Attempted::Won(run.won(token)),
            Step::Lost(loss) => return Attempted::Lost(run.lost(loss)),
        }
    }
}

struct Run<'a> {
    core: &'a Core,
    target: &'a Target,
    /// As the observer calls it.
    number: u64,
    owner: OwnerId,
    hint: u64,
    attempt: Attempt,
    fanout: Fanout<Asked>,
    votes: Vec<Vote>,
    /// The nodes that need not look how long they remember the counters, and those that did, and voted.
    remembering: NodeSet,
    looked: NodeSet,
    /// Until the attempt is rolled back, or its lease is in somebody's care.
    under_way: Option<UnderWay>,
    seen: Vec<Sighting>,
    largest_counter: u64,
    line: Option<&'a mut InLine>,
    deferral: Option<Deferral>,
    /// Whether there is nothing to roll back (any more).
    is_settled: bool,
    /// Whether it is decided.
    is_decided: bool,
}

impl<'a> Run<'a> {
    fn new(core: &'a Core, target: &'a Target, plan: Plan, hint: u64, line: Option<&'a mut InLine>) -> Self {
        let settings = &core.settings;
        let rules = attempt::Rules {
            electorate: settings.electorate,
            validity: settings.validity,
            ttl: target.settings.ttl,
            node_timeout: target.settings.node_timeout,
            attempt_timeout: settings.attempt_timeout,
            plan,
        };
        let nodes = core.nodes.len();
        let owner = core.owners.fresh();
        let start = core.now();
        Self {
            core,
            target,
            number: core.observer.attempt_began(&target.resources, &owner),
            owner,
            hint,
            attempt: Attempt::new(rules, start),
            fanout: Fanout::new(),
            votes: vec![Vote::NotAsked; nodes],
            remembering: core.remembering(&target.resources, start),
            looked: NodeSet::EMPTY,
            under_way: Some(core.attempts.enter()),
            seen: vec![Sighting::NotAsked; nodes],
            largest_counter: 0,
            line,
            deferral: None,
            is_settled: false,
            is_decided: false,
        }
    }

    fn send_lock(&mut self, nodes: NodeSet) {
        let remembering = nodes.intersection(self.remembering);
        for (nodes, is_remembered) in [(remembering, true), (nodes.without(remembering), false)] {
            if nodes.is_empty() {
                continue;
            }
            let request = self.request(Entry::Lock(self.lock(is_remembered)));
            for node in nodes.iter() {
                self.fanout.send(&self.core.nodes, node, Asked::Lock, request.clone());
                self.note(node, Vote::Pending, Sighting::Unknown);
            }
        }
    }

    fn line_up(&mut self, node: usize) {
        let lock = self.lock(false);
        let (entry, asked) = match &mut self.line {
            Some(line) => (line.line_up(node, lock), Asked::LineUp),
            None => (Entry::Lock(lock), Asked::Lock),
        };
        self.fanout.send(&self.core.nodes, node, asked, self.request(entry));
        self.note(node, Vote::Pending, Sighting::Unknown);
    }

    fn lock(&self, is_remembered: bool) -> Lock {
        Lock {
            resources: Arc::clone(&self.target.resources),
            owner: self.owner.clone(),
            ttl: self.target.settings.ttl,
            hint: self.hint,
            is_remembered,
        }
    }

    fn send_raise(&mut self, token: u64, nodes: NodeSet) {
        let request = self.request(Entry::Raise(Raise {
            resources: Arc::clone(&self.target.resources),
            owner: self.owner.clone(),
            token,
        }));
        for node in nodes.iter() {
            self.fanout.send(&self.core.nodes, node, Asked::Raise, request.clone());
        }
    }

    fn request(&self, entry: Entry) -> Request {
        Request::one(entry, self.core.now() + self.target.settings.node_timeout)
    }

    fn hear(&mut self, node: usize, asked: Asked, answer: Answer) {
        tracing::trace!(resource = %self.target.resource, owner = %self.owner, node, ?asked, ?answer, "vote");
        self.core.observer.answered(node, asked.question(), &answer);
        match asked {
            Asked::Lock => self.hear_lock(node, &answer),
            Asked::LineUp => {
                self.hear_line(node, &answer);
                self.hear_lock(node, &answer);
            }
            Asked::Raise => self.attempt.on_raise(node, answer == Answer::Raised),
        }
    }

    fn hear_line(&mut self, node: usize, answer: &Answer) {
        let Some(line) = &mut self.line else { return };
        match answer {
            Answer::Granted { .. } => line.granted(node),
            Answer::Queued(queued) => {
                let is_in_line = line.put_off(queued);
                let holder = queued.holder.as_ref().and_then(|holder| holder.owner.clone());
                self.deferral = Some(Deferral { node, is_in_line, patience: queued.patience, holder });
            }
            _ => {}
        }
    }

    fn hear_lock(&mut self, node: usize, answer: &Answer) {
        let (ballot, sighting) = match answer {
            Answer::Granted { vote } => {
                self.largest_counter = self.largest_counter.max(*vote);
                self.looked.insert(node);
                (Ballot::Granted(*vote), Sighting::Free)
            }
            Answer::Held(Holder { owner, remaining, counter, .. })
            | Answer::Queued(Queued { holder: Some(Holder { owner, remaining, counter, .. }), .. }) => {
                self.largest_counter = self.largest_counter.max(*counter);
                let held = Sighting::Held { owner: owner.clone(), remaining: *remaining };
                (Ballot::Refused, held)
            }
            Answer::Queued(_) => (Ballot::Refused, Sighting::Unknown),
            Answer::Fault(fault) if fault.is_unsent() => (Ballot::Unsent, Sighting::Unknown),
            Answer::Fault(fault) if fault.may_land_yet() => (Ballot::Silent, Sighting::Unknown),
            _ => (Ballot::Failed, Sighting::Unknown),
        };
        self.attempt.on_lock(node, ballot);
        self.note(node, Vote::of(answer), sighting);
    }

    /// Tells those that let their time pass from those that were not waited for.
    fn close_votes(&mut self) {
        let pending = self.attempt.pending();
        for (node, vote) in self.votes.iter_mut().enumerate() {
            if *vote == Vote::Pending && !pending.contains(node) {
                self.core.observer.answered(node, Question::Lock, &Answer::Fault(Fault::TimedOut));
                *vote = Vote::Unknown(Fault::TimedOut);
            }
        }
    }

    fn decided(&mut self, end: AttemptEnd) {
        self.is_decided = true;
        self.core.observer.attempt_ended(end);
    }

    fn note(&mut self, node: usize, vote: Vote, sighting: Sighting) {
        if let Some(slot) = self.votes.get_mut(node) {
            *slot = vote;
        }
        if let Some(slot) = self.seen.get_mut(node) {
            *slot = sighting;
        }
    }

    /// Unlocks wherever something of the attempt may be or arrive. Not real: nobody is to be woken by it.
    fn roll_back(&mut self) {
        if std::mem::replace(&mut self.is_settled, true) {
            return;
        }
        self.core.observer.attempt_lost(self.number);
        let real = mutation::is_on(Mutation::NoticeOnRollback);
        let keys_over = self.core.now() + self.core.settings.validity.seen_by_any(self.target.settings.ttl);
        let unlock = |leave| {
            let (resources, owner) = (Arc::clone(&self.target.resources), self.owner.clone());
            let entry = Entry::Unlock(Unlock { resources, owner, token: 0, real, leave });
            Request::one(entry, self.core.owed_until()).blocks_until(keys_over)
        };
        let is_left = !mutation::is_on(Mutation::NoTombstoneForLock);
        let leaving = unlock(if is_left { Leave::UnlessDeleted } else { Leave::Nothing });
        let clean = unlock(Leave::Nothing);
        let mut nodes = NodeSet::EMPTY;
        for (node, has_answered) in self.attempt.to_roll_back() {
            if mutation::is_on(Mutation::RollbackSkipsSilent) && !has_answered {
                continue;
            }
            if let Some(to) = self.core.nodes.get(node) {
                let request = if has_answered { &clean } else { &leaving };
                drop(to.call(request.clone()));
                nodes.insert(node);
            }
        }
        tracing::debug!(resource = %self.target.resource, owner = %self.owner, ?nodes, "rollback");
    }

    fn won(&mut self, token: FencingToken) -> Won {
        self.is_settled = true;
        self.decided(AttemptEnd::Won);
        self.close_votes();
        let settings = &self.target.settings;
        let lease = LeaseTime::granted(
            self.attempt.start(),
            settings.ttl,
            self.core.settings.validity,
            settings.max_hold,
        );
        tracing::debug!(resource = %self.target.resource, owner = %self.owner, %token, "won");
        Won {
            attempt: self.number,
            resource: self.target.resource.clone(),
            resources: Arc::clone(&self.target.resources),
            owner: self.owner.clone(),
            token,
            lease,
            is_renewed: settings.is_renewed,
            node_timeout: settings.node_timeout,
            under_way: self.under_way.take(),
            standing: self.attempt.ballots().iter().zip(&self.votes).map(standing).collect(),
            late: self.fanout.take_open(|asked| !matches!(asked, Asked::Raise)),
        }
    }

    fn lost(&mut self, loss: Loss) -> Lost {
        self.decided(AttemptEnd::Lost(loss));
        self.close_votes();
        let took = self.core.now().saturating_duration_since(self.attempt.start());
        let votes = self.core.votes(self.votes.iter().cloned());
        tracing::debug!(resource = %self.target.resource, owner = %self.owner, ?loss, %votes, "lost");
        Lost {
            loss,
            votes,
            seen: std::mem::take(&mut self.seen),
            hint: if self.largest_counter == 0 { 0 } else { self.largest_counter + 1 },
            took,
            deferral: self.deferral.take(),
        }
    }
}

/// What a node has to do with the lease after the lock round.
fn standing((ballot, vote): (&Ballot, &Vote)) -> Standing {
    let is_silent = *ballot == Ballot::Silent && !mutation::is_on(Mutation::NoTombstoneForLock);
    let counter = if let Ballot::Granted(counter) = ballot { *counter } else { 0 };
    Standing {
        vote: vote.clone(),
        counter,
        is_touched: *ballot != Ballot::Unsent,
        unanswered: u32::from(is_silent),
        was_renewed: false,
        renewed_at: None,
        sent_at: None,
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.roll_back();
        let looked = self.looked.without(self.remembering);
        self.core.note_remembering(&self.target.resources, looked, self.attempt.start());
        if !self.is_decided {
            self.core.observer.attempt_ended(AttemptEnd::Cancelled);
        }
    }
}
