//! The state of a lease, as a whole and at each node.

use futures::FutureExt;

use crate::{
    algorithm::lease::LeaseTime,
    client::queue_node_view::QueueNodeView,
    clock::Instant,
    error::LossReason,
    mutation::{self, Mutation},
    node::{Answer, Reply},
    observer::{Observer, Question},
    values::NodeReply,
};

/// What changes of a lease while it is active, and how it ends.
#[derive(Debug)]
pub(super) struct LeaseState {
    pub(super) phase: LeasePhase,
    pub(super) time: LeaseTime,
    pub(super) holds: u32,
    /// By node.
    pub(super) nodes: Vec<NodeLeaseState>,
    /// Replies to the lock, to renewals and to changes of holds that nobody waits for.
    pub(super) late: Vec<(usize, Question, Reply)>,
    /// The queue node, and what it said of it.
    pub(super) queue_node: QueueNodeView,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeasePhase {
    Active,
    Unlocked,
    Lost(LossReason),
}

/// Answers that came after nobody waited for them any more.
#[must_use = "the observer has not been told of them"]
pub(super) struct Late(Vec<(usize, Question, Answer)>);

impl Late {
    /// Tells the observer. Not under the mutex: a recorder of metrics is anybody's code, and a loss
    /// must not wait for it.
    pub(super) fn tell(self, observer: &dyn Observer) {
        for (node, question, answer) in self.0 {
            observer.answered(node, question, &answer);
        }
    }
}

/// The state of a lease at one node.
#[derive(Clone, Debug)]
pub(crate) struct NodeLeaseState {
    /// Its last word on it.
    pub(crate) vote: NodeReply,
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

impl NodeLeaseState {
    /// A renewal goes there, which may be executed until it is answered.
    pub(super) fn renewal_begins(&mut self, now: Instant) {
        if mutation::is_on(Mutation::NoTombstoneForRenewal) {
            return;
        }
        self.unanswered += 1;
        self.was_renewed = true;
        // One that is not answered yet may still be executed, whatever becomes of this one.
        self.sent_at = self.renewed_at;
        self.renewed_at = Some(now);
    }
}

impl LeaseState {
    pub(super) fn loss_at(&self, now: Instant) -> Option<LossReason> {
        match self.phase {
            LeasePhase::Lost(reason) => Some(reason),
            LeasePhase::Unlocked => Some(LossReason::Unlocked),
            _ if self.time.is_valid(now) => None,
            _ if self.time.is_at_its_longest() => Some(LossReason::HoldLimit),
            _ => Some(LossReason::Expired),
        }
    }

    /// Hears what nodes have said since to the lock and to renewals that nobody waits for.
    pub(super) fn hear_late(&mut self) -> Late {
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
        Late(heard)
    }

    pub(super) fn note(&mut self, node: usize, answer: &Answer) {
        if let Some(is_awaited) = answer.is_awaited() {
            self.queue_node.note(node, is_awaited);
        }
        let answer = answer.told();
        let Some(node_state) = self.nodes.get_mut(node) else { return };
        node_state.vote = NodeReply::from(answer);
        match answer {
            Answer::Error(error) if error.is_unsent() => {
                node_state.unanswered = node_state.unanswered.saturating_sub(1);
                node_state.renewed_at = node_state.sent_at;
                return;
            }
            Answer::Error(error) if error.may_land_yet() => {}
            _ => node_state.unanswered = node_state.unanswered.saturating_sub(1),
        }
        node_state.is_touched = true;
        node_state.sent_at = node_state.renewed_at;
    }
}
