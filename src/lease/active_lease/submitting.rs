//! What a lease asks of the nodes.

use std::{sync::Arc, time::Duration};

use super::{ActiveLease, LeasePhase, NodeLeaseState};
use crate::{
    clock::Instant,
    mutation::{self, Mutation},
    mutex::lock,
    node::{Node, Operation, Renew, Reply, Request, Tombstone, Unlock},
    observer::Question,
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
        type Kind = (Tombstone, Option<Instant>);
        // Mostly one is for all nodes.
        let mut requests: Vec<(Kind, Request)> = Vec::with_capacity(1);
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
}
