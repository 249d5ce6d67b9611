//! How an attempt ends: rolled back, as a lease, or with what it has seen.

use std::time::Duration;

use super::{AttemptPerformer, RequestKind};
use crate::{
    algorithm::{
        attempt::{FailureReason, HEDGE_SHARE, LockVote},
        failed_attempt::{Deferral, FailedAttempt, Refused},
        holder::holder,
        lease::LeaseTime,
        node_set::NodeSet,
    },
    lease::active_lease::{Acquired, LeaseTerms, NodeLeaseState},
    mutation::{self, Mutation},
    node::{Answer, Operation, Request, Tombstone, Unlock},
    observer::{AttemptEnd, OperationKind},
    values::{FencingToken, NodeError, NodeReply},
};

impl AttemptPerformer<'_> {
    /// Unlocks wherever something of the attempt may be or arrive. It notifies nobody: nobody is to
    /// be woken by it.
    pub(super) fn roll_back(&mut self) {
        if std::mem::replace(&mut self.is_settled, true) {
            return;
        }
        let rules = &self.checked.settings.rules;
        let keys_over = self.context.now() + rules.validity.seen_by_any(rules.ttl);
        let unlock = |tombstone| {
            let (resources, owner) = (self.checked.resources.clone(), self.owner.clone());
            let operation =
                Operation::Unlock(Unlock { resources, owner, notify: false, tombstone, is_awaited: false });
            Request::one(operation, self.context.latest_expiry()).blocks_until(keys_over)
        };
        let leaving = unlock(Tombstone::IfMissing);
        let clean = unlock(Tombstone::Never);
        let mut nodes = NodeSet::EMPTY;
        let keeps = mutation::is_on(Mutation::LoserKeeps);
        for (node, has_answered) in self.attempt.to_roll_back().filter(|_| !keeps) {
            if let Some(to) = self.context.nodes.get(node) {
                let request = if may_land_yet(has_answered) { &leaving } else { &clean };
                drop(to.call(request.clone()));
                nodes.insert(node);
            }
        }
        tracing::debug!(resource = %self.checked.resource, id = %self.owner, ?nodes, "rollback");
        // Last, since the observer may be anybody's code: if it panics, nothing is left on a node.
        self.context.observer.attempt_lost(self.number);
    }

    pub(super) fn acquired(&mut self, token: FencingToken) -> Acquired {
        self.decided(AttemptEnd::Acquired);
        self.close_votes();
        tracing::debug!(resource = %self.checked.resource, id = %self.owner, %token, "acquired");
        // Not before all were told: if anybody's code panics there, the attempt is rolled back.
        self.is_settled = true;
        let settings = &self.checked.settings;
        let time = LeaseTime::granted(
            self.attempt.start(),
            settings.rules.ttl,
            settings.rules.validity,
            settings.hold_at_most,
        );
        Acquired {
            terms: LeaseTerms {
                attempt: self.number,
                resource: self.checked.resource.clone(),
                resources: self.checked.resources.clone(),
                owner: self.owner.clone(),
                token,
                is_renewed: settings.is_renewed,
                node_timeout: settings.rules.node_timeout,
            },
            time,
            in_flight: self.in_flight.take(),
            nodes: self.attempt.lock_votes().iter().zip(&self.votes).map(node_lease_state).collect(),
            late: self.fanout.take_outstanding(|(asked, _)| !matches!(asked, RequestKind::WriteBack)),
            queue_node: self.queue_node.acquired(&self.context.queues, &self.checked.resources),
        }
    }

    pub(super) fn failed(&mut self, reason: FailureReason) -> FailedAttempt {
        if self.is_first && reason == FailureReason::Contended && self.deferral.is_none() {
            self.deferral = self.to_the_queue();
        }
        self.decided(AttemptEnd::Failed(reason));
        self.close_votes();
        let took = self.context.now().saturating_duration_since(self.attempt.start());
        self.pass_over_silent(took);
        let by_queue_node = |deferral: &Deferral| {
            let index = self.blocked.unwrap_or_default();
            self.checked.queue_node(self.context, index) == Some(deferral.node)
        };
        let is_sure = self.deferral.as_ref().is_some_and(by_queue_node)
            || holder(&self.votes, self.context.settings.electorate).is_some();
        let replies = self.context.replies(std::mem::take(&mut self.votes));
        tracing::debug!(resource = %self.checked.resource, id = %self.owner, ?reason, %replies, "failed");
        FailedAttempt {
            reason,
            replies,
            hint: if self.largest_counter == 0 { 0 } else { self.largest_counter + 1 },
            took,
            deferral: self.deferral.take(),
            refused: self.blocked.map(|index| Refused { index, is_sure }),
        }
    }

    /// Remembers that the queue node was waited for in vain.
    fn pass_over_silent(&self, took: Duration) {
        let hedge = self.checked.settings.rules.node_timeout / HEDGE_SHARE;
        if let Some(node) = self.queue_node.node
            && took >= hedge
            && self.queue_node.is_unheard()
            && self.attempt.lock_votes().get(node) == Some(&LockVote::Silent)
        {
            self.context.queues.passed_over(node, self.context.now());
        }
    }

    /// Tells those that let their time pass from those that were not waited for.
    fn close_votes(&mut self) {
        let pending = self.attempt.pending();
        for (node, vote) in self.votes.iter_mut().enumerate() {
            if *vote == NodeReply::Pending && !pending.contains(node) {
                self.context.observer.answered(
                    node,
                    OperationKind::Lock,
                    &Answer::Error(NodeError::TimedOut),
                );
                *vote = NodeReply::Failed(NodeError::TimedOut);
            }
        }
    }

    fn decided(&mut self, end: AttemptEnd) {
        self.is_decided = true;
        self.context.observer.attempt_ended(end);
    }
}

/// Whether the lock may be executed after the unlock, at a node that has answered it or has not:
/// then the unlock leaves a tombstone.
fn may_land_yet(has_answered: bool) -> bool {
    mutation::altered(Mutation::NoTombstoneForLock, !has_answered, |_| false)
}

/// The state of the lease at a node after the lock round.
fn node_lease_state((lock_vote, vote): (&LockVote, &NodeReply)) -> NodeLeaseState {
    NodeLeaseState {
        vote: vote.clone(),
        is_touched: *lock_vote != LockVote::Unsent,
        unanswered: u32::from(may_land_yet(*lock_vote != LockVote::Silent)),
        was_renewed: false,
        renewed_at: None,
        sent_at: None,
    }
}

impl Drop for AttemptPerformer<'_> {
    fn drop(&mut self) {
        self.roll_back();
        if !self.is_decided {
            self.context.observer.attempt_ended(AttemptEnd::Cancelled);
        }
    }
}
