//! One attempt, performed.

use std::{sync::Arc, time::Duration};

use crate::{
    algorithm::{
        attempt::{self, Attempt, Ballot, Loss, Plan, Step},
        fencing::FencingToken,
        lease::LeaseTime,
        node_set::NodeSet,
        sighting::Sighting,
    },
    config::CheckedLock,
    lock::{
        core::Core,
        fanout::{Fanout, Heard},
        gauge::UnderWay,
        held::{Standing, Won},
    },
    mutation::{self, Mutation},
    node::{Answer, Entry, Fault, Holder, Lock, Raise, Request, Resources, Unlock},
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
}

#[derive(Clone, Copy, Debug)]
enum Asked {
    Lock,
    Raise,
}

/// Makes one attempt, with an owner id that no other attempt has.
///
/// # Cancel safety
///
/// Dropped at any point, it is rolled back on every node that was asked and has not definitely refused: submitted at
/// once, behind the lock on the same connection.
pub(crate) async fn attempt(core: &Core, target: &Target, plan: Plan, hint: u64) -> Attempted {
    let mut run = Run::new(core, target, plan, hint);
    if core.is_closed() {
        return Attempted::Lost(run.lost(Loss::NoQuorum));
    }
    loop {
        match run.attempt.step(core.now()) {
            Step::Lock(nodes) => run.send_lock(nodes),
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
    /// Until the attempt is rolled back, or its lease is in somebody's care.
    under_way: Option<UnderWay>,
    seen: Vec<Sighting>,
    largest_counter: u64,
    /// Whether there is nothing to roll back (any more).
    is_settled: bool,
}

impl<'a> Run<'a> {
    fn new(core: &'a Core, target: &'a Target, plan: Plan, hint: u64) -> Self {
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
        Self {
            core,
            target,
            number: core.observer.attempt_began(&target.resources, &owner),
            owner,
            hint,
            attempt: Attempt::new(rules, core.now()),
            fanout: Fanout::new(),
            votes: vec![Vote::NotAsked; nodes],
            under_way: Some(core.attempts.enter()),
            seen: vec![Sighting::NotAsked; nodes],
            largest_counter: 0,
            is_settled: false,
        }
    }

    fn send_lock(&mut self, nodes: NodeSet) {
        let request = self.request(Entry::Lock(Lock {
            resources: Arc::clone(&self.target.resources),
            owner: self.owner.clone(),
            ttl: self.target.settings.ttl,
            hint: self.hint,
        }));
        for node in nodes.iter() {
            self.fanout.send(&self.core.nodes, node, Asked::Lock, request.clone());
            self.note(node, Vote::Pending, Sighting::Unknown);
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
        match asked {
            Asked::Lock => self.hear_lock(node, &answer),
            Asked::Raise => self.attempt.on_raise(node, answer == Answer::Raised),
        }
    }

    fn hear_lock(&mut self, node: usize, answer: &Answer) {
        let (ballot, sighting) = match answer {
            Answer::Granted { vote } => {
                self.largest_counter = self.largest_counter.max(*vote);
                (Ballot::Granted(*vote), Sighting::Free)
            }
            Answer::Held(Holder { owner, remaining, counter, .. }) => {
                self.largest_counter = self.largest_counter.max(*counter);
                let held = Sighting::Held { owner: owner.clone(), remaining: *remaining };
                (Ballot::Refused, held)
            }
            Answer::Fault(fault) if fault.is_unsent() => (Ballot::Unsent, Sighting::Unknown),
            Answer::Fault(fault) if !fault.is_answer() => (Ballot::Silent, Sighting::Unknown),
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
                *vote = Vote::Unknown(Fault::TimedOut);
            }
        }
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
        let unlock = |leave| {
            let (resources, owner) = (Arc::clone(&self.target.resources), self.owner.clone());
            let entry = Entry::Unlock(Unlock { resources, owner, token: 0, real, leave });
            Request::one(entry, self.core.owed_until())
        };
        let (clean, leaving) = (unlock(false), unlock(!mutation::is_on(Mutation::NoTombstoneForLock)));
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
            late: self.fanout.take_open(|asked| matches!(asked, Asked::Lock)),
        }
    }

    fn lost(&mut self, loss: Loss) -> Lost {
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
        }
    }
}

/// What a node has to do with the lease after the lock round.
fn standing((ballot, vote): (&Ballot, &Vote)) -> Standing {
    let is_silent = *ballot == Ballot::Silent && !mutation::is_on(Mutation::NoTombstoneForLock);
    Standing { vote: vote.clone(), is_touched: *ballot != Ballot::Unsent, unanswered: u32::from(is_silent) }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.roll_back();
    }
}
