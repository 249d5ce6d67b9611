//! What a lease asks of the nodes, and what they say of it.

use std::{sync::Arc, time::Duration};

use super::{ActiveLease, LeasePhase, NodeLeaseState};
use crate::{
    client::context::ClientContext,
    clock::Instant,
    mutation::{self, Mutation},
    mutex::lock,
    node::{Answer, Node, Operation, Renew, Reply, Request, Tombstone, Unlock},
    observer::Question,
    values::NodeReplies,
};

impl ActiveLease {
    /// Submits the unlock to every node that may have the key. Not before [`lose`] or
    /// [`leave`] has said so.
    ///
    /// [`lose`]: Self::lose
    /// [`leave`]: Self::leave
    pub(crate) fn submit_unlock(&self, nodes: &[Arc<dyn Node>], until: Instant) -> Vec<(usize, Reply)> {
        let mut state = lock(&self.state);
        let heard = state.hear_late();
        let is_awaited = state.queue_node.says_awaited();
        type UnlockKind = (Tombstone, Option<Instant>);
        // Mostly one is for all nodes.
        let mut requests: Vec<(UnlockKind, Request)> = Vec::with_capacity(1);
        let mut unlock = |tombstone, renewed_at: Option<Instant>| {
            let kind = (tombstone, renewed_at);
            if let Some((_, request)) = requests.iter().find(|(known, _)| *known == kind) {
                return request.clone();
            }
            let (resources, owner) = (self.resources.clone(), self.owner.clone());
            let unlock = Unlock { resources, owner, notify: true, tombstone, is_awaited };
            let executed_by = renewed_at.unwrap_or(self.since) + self.node_timeout;
            let request = Request::one(Operation::Unlock(unlock), until);
            let request = request.blocks_until(state.time.key_over(executed_by));
            requests.push((kind, request.clone()));
            request
        };
        let replies = state
            .queue_node
            .before_others(nodes.len())
            .filter_map(|index| Some((index, nodes.get(index)?, state.nodes.get(index)?)))
            .filter(|(_, _, node_state)| node_state.is_touched || node_state.unanswered > 0)
            .map(|(index, node, node_state)| {
                let tombstone = match node_state {
                    NodeLeaseState { unanswered: 0, .. } => Tombstone::Never,
                    NodeLeaseState { was_renewed: false, .. } => Tombstone::IfMissing,
                    NodeLeaseState { .. } => Tombstone::Always,
                };
                (index, node.call(unlock(tombstone, node_state.renewed_at)))
            })
            .collect();
        drop(state);
        heard.tell(&*self.observer);
        replies
    }

    /// The renewal for one node, noted as unanswered there; `None` once the lease is not active any
    /// more.
    pub(crate) fn begin_renewal(&self, node: usize, ttl: Duration, now: Instant) -> Option<Renew> {
        let mut state = lock(&self.state);
        if state.phase != LeasePhase::Active {
            return None;
        }
        // Before it is overtaken: the node's answer to this is later than its answer to the lock.
        let heard = state.hear_late();
        if let Some(node_state) = state.nodes.get_mut(node) {
            node_state.renewal_begins(now);
        }
        let holds = state.holds;
        drop(state);
        heard.tell(&*self.observer);
        let (resources, owner) = (self.resources.clone(), self.owner.clone());
        Some(Renew { resources, owner, holds, ttl, token: self.token.as_u64() })
    }

    /// Tells the nodes the number of holds, without waiting for them.
    pub(crate) fn submit_holds(&self, nodes: &[Arc<dyn Node>], ttl: Duration, now: Instant) {
        for (index, node) in nodes.iter().enumerate() {
            let Some(mut renew) = self.begin_renewal(index, ttl, now) else { return };
            renew.holds = mutation::altered(Mutation::HoldsAsIncrements, renew.holds, |_| 0);
            let reply = node.call(Request::one(Operation::Renew(renew), now + self.node_timeout));
            lock(&self.state).late.push((index, Question::Renew, reply));
        }
    }

    /// Replies to the lease's renewals that nobody waits for any longer: they are heard when
    /// somebody asks.
    pub(crate) fn hear_later(&self, replies: Vec<(usize, Reply)>) {
        let late = replies.into_iter().map(|(node, reply)| (node, Question::Renew, reply));
        lock(&self.state).late.extend(late);
    }

    /// A node's answer to a renewal.
    pub(crate) fn note_renewal(&self, node: usize, answer: &Answer) {
        self.observer.answered(node, Question::Renew, answer);
        let mut state = lock(&self.state);
        let heard = state.hear_late();
        state.note(node, answer);
        drop(state);
        heard.tell(&*self.observer);
    }

    /// The last reply of each node about the lease.
    pub(crate) fn node_replies(&self, context: &ClientContext) -> NodeReplies {
        let mut state = lock(&self.state);
        let heard = state.hear_late();
        let replies = context.replies(state.nodes.iter().map(|node_state| node_state.vote.clone()));
        drop(state);
        heard.tell(&*self.observer);
        replies
    }
}
