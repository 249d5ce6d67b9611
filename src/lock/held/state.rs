//! What a lease has come to.

use futures::FutureExt;

use crate::{
    algorithm::lease::LeaseTime,
    clock::Instant,
    error::LossReason,
    lock::{observer::Question, queue_node::QueueNode},
    node::{Answer, Reply},
    vote::Vote,
};

/// What changes of a lease while it is held, and how it ends.
#[derive(Debug)]
pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) lease: LeaseTime,
    pub(super) holds: u32,
    /// By node.
    pub(super) standing: Vec<Standing>,
    /// Replies to the lock, to renewals and to changes of holds that nobody waits for.
    pub(super) late: Vec<(usize, Question, Reply)>,
    /// The queue node, and what it said of it.
    pub(super) queue_node: QueueNode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Held,
    Unlocked,
    Lost(LossReason),
}

/// An answer that came after nobody waited for it any more.
pub(super) type Late = (usize, Question, Answer);

/// What a node has to do with the lease.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    /// Its last word on it.
    pub(crate) vote: Vote,
    /// Whether anything of the lease may have reached it.
    pub(crate) is_touched: bool,
    /// Locks and renewals that it may execute yet: it has not answered them, or with an error that
    /// may be a proxy's.
    pub(crate) unanswered: u32,
    /// Whether a renewal was sent there: then it may have the key and yet execute something that it
    /// has not answered.
    pub(crate) was_renewed: bool,
    /// When the last renewal was submitted that was sent there or may yet be.
    pub(crate) renewed_at: Option<Instant>,
    /// The same of those of which something was heard: what `renewed_at` goes back to if the next
    /// was not sent.
    pub(crate) sent_at: Option<Instant>,
}

impl State {
    pub(super) fn loss_at(&self, now: Instant) -> Option<LossReason> {
        match self.phase {
            Phase::Lost(reason) => Some(reason),
            Phase::Unlocked => Some(LossReason::Unlocked),
            _ if self.lease.is_valid(now) => None,
            _ if self.lease.is_at_its_longest() => Some(LossReason::MaxHold),
            _ => Some(LossReason::Expired),
        }
    }

    /// Adopts the grants that came after the decision.
    pub(super) fn hear_late(&mut self) -> Vec<Late> {
        let mut heard = Vec::new();
        self.late.retain_mut(|(node, question, reply)| match reply.now_or_never() {
            Some(answers) => {
                heard.extend(answers.into_iter().next().map(|answer| (*node, *question, answer)));
                false
            }
            None => true,
        });
        for (node, _, answer) in &heard {
            self.note(*node, answer);
        }
        heard
    }

    pub(super) fn note(&mut self, node: usize, answer: &Answer) {
        if let Some(is_awaited) = answer.is_awaited() {
            self.queue_node.note(node, is_awaited);
        }
        let answer = answer.told();
        let Some(standing) = self.standing.get_mut(node) else { return };
        standing.vote = Vote::of(answer);
        match answer {
            Answer::Fault(fault) if fault.is_unsent() => {
                standing.unanswered = standing.unanswered.saturating_sub(1);
                standing.renewed_at = standing.sent_at;
                return;
            }
            Answer::Fault(fault) if fault.may_land_yet() => {}
            _ => standing.unanswered = standing.unanswered.saturating_sub(1),
        }
        standing.is_touched = true;
        standing.sent_at = standing.renewed_at;
    }
}
