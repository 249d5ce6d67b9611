//! What an attempt makes of the nodes' answers.

use super::{AttemptPerformer, RequestKind};
use crate::{
    algorithm::{attempt::LockVote, failed_attempt::Deferral, holder::holder},
    clock::Instant,
    node::{Answer, Holder, Queued, names::is_slot},
    values::{NodeReply, Refusal},
};

impl AttemptPerformer<'_> {
    /// Remembers how long a node took to answer, where that decides in which queues to wait.
    pub(super) fn time_answer(&self, node: usize, asked_at: Instant, answer: &Answer) {
        if is_slot(&self.checked.resource) && !matches!(answer, Answer::Error(_)) {
            let took = self.context.now().saturating_duration_since(asked_at);
            self.context.queues.answered_after(node, took);
        }
    }

    pub(super) fn hear(&mut self, node: usize, asked: RequestKind, answer: Answer) {
        let resource = &self.checked.resource;
        tracing::trace!(%resource, id = %self.owner, node, ?asked, ?answer, "vote");
        self.context.observer.answered(node, asked.question(), &answer);
        let (answer, is_awaited) = answer.into_parts();
        if is_awaited.is_some() {
            self.context.queues.heard(node);
        }
        // The answer to a waiter whose turn it is says nothing of the others.
        if let (RequestKind::Lock | RequestKind::Enqueue, Some(is_awaited)) = (asked, is_awaited) {
            self.queue_node.hear(&self.context.queues, &self.checked.resources, node, is_awaited);
        }
        match asked {
            RequestKind::Lock | RequestKind::Take => self.hear_lock(node, &answer, false),
            RequestKind::Enqueue => {
                self.hear_enqueue(node, &answer);
                self.hear_lock(node, &answer, true);
            }
            RequestKind::WriteBack => self.attempt.on_write_back(node, answer == Answer::WrittenBack),
        }
    }

    fn hear_enqueue(&mut self, node: usize, answer: &Answer) {
        let Some(entries) = &mut self.entries else { return };
        match answer {
            Answer::Granted { .. } => entries.granted(node),
            Answer::Queued(queued) => {
                let is_queued = entries.put_off(queued);
                let holder = queued.holder.as_ref().map(|holder| (holder.owner.clone(), holder.remaining));
                let Queued { rank, patience, .. } = *queued;
                self.deferral = Some(Deferral { node, is_queued, rank, patience, holder });
                self.blocked = Some(queued.resource);
            }
            _ => {}
        }
    }

    fn hear_lock(&mut self, node: usize, answer: &Answer, asks_turn: bool) {
        let lock_vote = match answer {
            Answer::Granted { vote } => {
                self.largest_counter = self.largest_counter.max(*vote);
                LockVote::Granted(*vote)
            }
            Answer::Held(holder) => {
                self.hear_holder(holder);
                LockVote::Refused
            }
            Answer::Queued(queued) => {
                if let Some(holder) = &queued.holder {
                    self.hear_holder(holder);
                }
                if asks_turn { LockVote::Refused } else { self.hear_put_off(node, queued) }
            }
            Answer::Error(error) if error.is_unsent() => LockVote::Unsent,
            Answer::Error(error) if error.may_land_yet() => LockVote::Silent,
            _ => LockVote::Failed,
        };
        self.attempt.on_lock(node, lock_vote);
        self.note(node, self.vote_of(answer));
        self.attempt.held(holder(&self.votes, self.context.settings.electorate).is_some());
    }

    /// Readers are in the way of nobody who is to share the resource, so one that they seem to be in
    /// the way of lets a writer go first.
    fn vote_of(&self, answer: &Answer) -> NodeReply {
        match answer {
            Answer::Held(Holder { resource, owner: Some(owner), .. })
                if owner.is_of_readers() && self.checked.resources.is_shared(*resource) =>
            {
                NodeReply::Refused(Refusal::Deferred)
            }
            answer => NodeReply::from(answer),
        }
    }

    fn hear_holder(&mut self, holder: &Holder) {
        let Holder { resource, counter, .. } = holder;
        self.largest_counter = self.largest_counter.max(*counter);
        if self.deferral.is_none() {
            self.blocked = Some(*resource);
        }
        if *resource != self.queue_node.index {
            self.attempt.refused_elsewhere();
        }
    }

    /// A node has refused a lock because others are to go first. That of the queue node counts for
    /// all.
    fn hear_put_off(&mut self, node: usize, queued: &Queued) -> LockVote {
        self.blocked = Some(queued.resource);
        if queued.resource != self.queue_node.index {
            self.attempt.refused_elsewhere();
        }
        if self.checked.queue_node(self.context, queued.resource) == Some(node) {
            if queued.rank == 0 {
                self.attempt.queue_is_empty(node)
            } else {
                self.attempt.queue_is_occupied()
            }
        }
        LockVote::PutOff
    }

    /// Where a client goes that was refused as a newcomer: to the queue of the resource that it was
    /// refused for, whose queue node may not have answered.
    pub(super) fn to_the_queue(&self) -> Option<Deferral> {
        let index = self.blocked.unwrap_or_default();
        let node = self.checked.queue_node(self.context, index)?;
        let patience = self.context.settings.parameters.hand_over;
        // It may be one of the first, until it knows better.
        Some(Deferral { node, is_queued: false, rank: 0, patience, holder: None })
    }
}
