//! One attempt to lock: a lock round, and a write-back where the votes differ.

pub(crate) use self::{
    plan::{AttemptConfig, Plan},
    step::{AttemptStep, FailureReason},
};
use crate::{
    algorithm::{fencing::Fencing, node_set::NodeSet, round::Round, tally::TallyResult},
    clock::Instant,
    mutation::{self, Mutation},
    values::FencingToken,
};

mod asking;
mod plan;
mod step;
#[cfg(test)]
mod tests;

/// A node's vote in the lock round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockVote {
    /// Ours there, with this vote for the token.
    Granted(u64),
    /// The node answered that it will not: nothing of ours is there.
    Refused,
    /// The same, but only because others are to go first, as it thinks.
    PutOff,
    /// The node answered that it cannot: nothing of this lock is under way any more.
    Failed,
    /// The node was never asked.
    Unsent,
    /// No answer (yet), or none that can be relied on: it may have granted, or may still.
    Silent,
}

/// One attempt: it never reads a clock and never sends anything.
///
/// # Invariants
///
/// 1. `start` is before the first byte of the attempt: the validity counts from there, a write-back
///    included.
/// 2. [`AttemptStep::Acquired`] is given only before the end of the validity, checked last.
/// 3. After [`AttemptStep::Abandon`] no vote makes it succeed.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    rules: AttemptConfig,
    plan: Plan,
    start: Instant,
    phase: AttemptPhase,
    lock: Round,
    lock_votes: Vec<LockVote>,
    fencing: Fencing,
    /// Counts confirmations of the token.
    confirm: Round,
    /// When nodes were last asked that had not been asked before.
    asked_at: Instant,
    /// When the next queue node is asked although one is still silent.
    hedge_at: Instant,
    /// The queue node, once it has granted, or would.
    turn: Option<usize>,
    /// Whether this is a first contact, and others are queued.
    is_put_off: bool,
    /// How often nodes were asked again, and when those are that refuse now.
    repeats: u32,
    again_at: Option<Instant>,
    /// Whether a quorum names one other owner.
    is_held: bool,
    /// Whether we were refused for another resource than the one whose turn we may have.
    is_refused_elsewhere: bool,
    /// How many attempts of this waiter, in a row, have split the votes with others.
    splits: u32,
}

#[derive(Clone, Copy, Debug)]
enum AttemptPhase {
    Locking,
    Confirming(u64),
    /// Taken back; waiting to know which of the two reasons it was.
    Settling,
    Acquired(u64),
    Failed(FailureReason),
}

/// The share of the node timeout after which a silent queue node is passed over.
pub(crate) const HEDGE_SHARE: u32 = 8;

impl Attempt {
    /// `start`: the time before anything is sent.
    pub(crate) fn new(rules: AttemptConfig, plan: Plan, start: Instant) -> Self {
        let electorate = rules.electorate;
        Self {
            start,
            phase: AttemptPhase::Locking,
            lock: Round::new(electorate),
            lock_votes: vec![LockVote::Unsent; electorate.nodes()],
            fencing: Fencing::new(electorate.nodes()),
            confirm: Round::new(electorate),
            asked_at: start,
            hedge_at: start,
            turn: None,
            is_put_off: false,
            repeats: 0,
            again_at: None,
            is_held: false,
            is_refused_elsewhere: false,
            splits: 0,
            rules,
            plan,
        }
    }

    /// The same, of a waiter whose last attempts, so many, have split the votes with others.
    pub(crate) fn after_splits(self, splits: u32) -> Self {
        Self { splits, ..self }
    }

    /// A node's answer to the lock; late ones too.
    pub(crate) fn on_lock(&mut self, node: usize, lock_vote: LockVote) {
        if let Some(slot) = self.lock_votes.get_mut(node) {
            *slot = lock_vote;
        }
        if let LockVote::Granted(vote) = lock_vote {
            self.fencing.vote(node, vote);
            if self.is_queue_node(node) {
                self.turn = Some(node);
            }
        }
        match lock_vote {
            LockVote::Granted(_) => self.lock.vote(node, true),
            LockVote::Refused | LockVote::PutOff => self.lock.vote(node, false),
            LockVote::Failed | LockVote::Unsent | LockVote::Silent => self.lock.abstain(node),
        }
    }

    /// The queue node of one of the resources says that others are in it: a newcomer goes there,
    /// too.
    pub(crate) fn queue_is_occupied(&mut self) {
        self.is_put_off |= self.plan.yields_to_the_queue();
    }

    /// The queue node has put a first contact off, and says that nobody is queued: so it is its
    /// turn.
    pub(crate) fn queue_is_empty(&mut self, queue_node: usize) {
        self.turn.get_or_insert(queue_node);
    }

    /// We were refused for another resource than the one whose queue this is about: of that, it may
    /// be the turn of another, who must not wait for us.
    pub(crate) fn refused_elsewhere(&mut self) {
        self.is_refused_elsewhere = true;
    }

    /// Whether a quorum names one other owner, by the answers so far.
    pub(crate) fn held(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    /// A node's answer to the write-back.
    pub(crate) fn on_write_back(&mut self, node: usize, confirmed: bool) {
        if confirmed {
            self.fencing.written_back(node);
        }
        self.confirm.vote(node, confirmed);
    }

    /// What to do at `now`. To be asked again after every step but the last two, and whenever
    /// something was heard or the time of a [`AttemptStep::Wait`] has come.
    pub(crate) fn step(&mut self, now: Instant) -> AttemptStep {
        self.start = self.counts_from(now);
        self.lock.expire(now);
        self.confirm.expire(now);
        match self.phase {
            AttemptPhase::Locking => self.step_locking(now),
            AttemptPhase::Confirming(token) => self.step_confirming(token, now),
            AttemptPhase::Settling => self.step_settling(),
            AttemptPhase::Acquired(token) => AttemptStep::Acquired { token: FencingToken::new(token) },
            AttemptPhase::Failed(reason) => AttemptStep::Failed(reason),
        }
    }

    /// Nodes at which something of this attempt may be, or may still arrive, and whether each has
    /// answered the lock.
    pub(crate) fn to_roll_back(&self) -> impl Iterator<Item = (usize, bool)> {
        let asked = mutation::altered(Mutation::RollbackSkipsSilent, self.lock.asked(), |_| NodeSet::EMPTY);
        self.lock_votes.iter().enumerate().filter_map(move |(node, lock_vote)| match lock_vote {
            LockVote::Granted(_) | LockVote::Failed => Some((node, true)),
            LockVote::Silent => asked.contains(node).then_some((node, false)),
            LockVote::Refused | LockVote::PutOff | LockVote::Unsent => None,
        })
    }

    /// Every node's vote in the lock round so far.
    pub(crate) fn lock_votes(&self) -> &[LockVote] {
        &self.lock_votes
    }

    /// Nodes that were asked to lock and are still waited for.
    pub(crate) fn pending(&self) -> NodeSet {
        self.lock.pending()
    }

    pub(crate) fn start(&self) -> Instant {
        self.start
    }

    fn step_locking(&mut self, now: Instant) -> AttemptStep {
        if self.is_too_late(now) {
            return self.abandon(now);
        }
        let result = self.lock.result();
        if self.is_put_off && result != TallyResult::Won {
            return self.abandon(now);
        }
        match result {
            TallyResult::Lost => {
                let next = self.ask_put_off(now).or_else(|| self.ask_again(now));
                next.or_else(|| self.wait_for_queue_node(now)).unwrap_or_else(|| self.abandon(now))
            }
            TallyResult::Won => {
                // A quorum of grants has a largest vote.
                let Some(token) = self.fencing.fix() else { return self.abandon(now) };
                self.phase = AttemptPhase::Confirming(token);
                self.step_confirming(token, now)
            }
            TallyResult::Pending => self.step_pending(now),
        }
    }

    fn step_confirming(&mut self, token: u64, now: Instant) -> AttemptStep {
        for node in self.fencing.confirmed().iter() {
            self.confirm.vote(node, true);
        }
        let below = self.fencing.below();
        let cannot = self.rules.electorate.all().without(self.lock.open()).without(below);
        for node in cannot.iter() {
            self.confirm.abstain(node);
        }
        if self.is_too_late(now) {
            return self.abandon(now);
        }
        match self.confirm.result() {
            TallyResult::Won => {
                self.phase = AttemptPhase::Acquired(token);
                AttemptStep::Acquired { token: FencingToken::new(token) }
            }
            TallyResult::Lost => self.abandon(now),
            TallyResult::Pending => {
                let write_back = below.without(self.confirm.asked());
                if write_back.is_empty() {
                    self.wait(self.lock.next_deadline().into_iter().chain(self.confirm.next_deadline()).min())
                } else {
                    self.confirm.ask(write_back, now + self.rules.node_timeout);
                    AttemptStep::WriteBack { token, nodes: write_back }
                }
            }
        }
    }

    /// Waits for further votes only to tell "held" from "cannot be asked".
    fn step_settling(&mut self) -> AttemptStep {
        let answered = self.answered();
        let electorate = self.rules.electorate;
        if electorate.is_quorum(answered) || !electorate.is_quorum(answered.union(self.lock.pending())) {
            let reason = self.reason();
            self.phase = AttemptPhase::Failed(reason);
            return AttemptStep::Failed(reason);
        }
        self.wait(self.lock.next_deadline())
    }

    fn abandon(&mut self, now: Instant) -> AttemptStep {
        self.phase = if now >= self.end_of_validity() {
            AttemptPhase::Failed(FailureReason::Expired)
        } else if self.is_put_off || self.queue_node_refused() || self.waking_node_refused() {
            AttemptPhase::Failed(FailureReason::Contended)
        } else if now >= self.end() {
            AttemptPhase::Failed(self.reason())
        } else {
            AttemptPhase::Settling
        };
        AttemptStep::Abandon
    }

    fn reason(&self) -> FailureReason {
        let refused = self.nodes_that(|lock_vote| matches!(lock_vote, LockVote::Refused | LockVote::PutOff));
        if !refused.is_empty() && self.rules.electorate.is_quorum(self.answered()) {
            FailureReason::Contended
        } else {
            FailureReason::NoQuorum
        }
    }

    /// Nodes that said something about the resource, an error not being anything.
    fn answered(&self) -> NodeSet {
        self.nodes_that(|lock_vote| {
            matches!(lock_vote, LockVote::Granted(_) | LockVote::Refused | LockVote::PutOff)
        })
    }

    /// Whether the attempt is over, even if it has its quorum.
    fn is_too_late(&self, now: Instant) -> bool {
        let is_late = now >= self.end();
        mutation::altered(Mutation::SkipLastValidityCheck, is_late, |is_late| is_late && !self.has_quorum())
    }

    fn has_quorum(&self) -> bool {
        let round = if let AttemptPhase::Confirming(_) = self.phase { &self.confirm } else { &self.lock };
        round.result() == TallyResult::Won
    }

    /// From when on the validity counts: from before the first byte, whatever is heard.
    fn counts_from(&self, now: Instant) -> Instant {
        mutation::altered(Mutation::StartAfterFirstAnswer, self.start, |start| {
            if self.answered().len() <= 1 { now } else { start }
        })
    }

    /// When the attempt is over whatever is heard.
    fn end(&self) -> Instant {
        let end = self.end_of_validity().min(self.start + self.rules.attempt_timeout);
        self.plan.too_late_from().map_or(end, |from| end.min(from))
    }

    fn end_of_validity(&self) -> Instant {
        self.rules.validity.valid_until(self.start, self.rules.ttl)
    }

    fn wait(&self, deadline: Option<Instant>) -> AttemptStep {
        let queue_node = self.plan.queue_nodes().is_some()
            && matches!(self.phase, AttemptPhase::Locking)
            && self.lock.granted().is_empty();
        let deadline = deadline.into_iter().chain([self.end()]).min().unwrap_or(self.start);
        AttemptStep::Wait(if queue_node { deadline.min(self.hedge_at) } else { deadline })
    }
}
