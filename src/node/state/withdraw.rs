//! Withdraw: what a node does for a waiter that leaves.

use crate::node::{
    operation::{Answer, Withdraw},
    parameters::QuorumParameters,
    state::{NodeState, NodeTime, Subscribers},
};

impl NodeState {
    /// Takes a waiter out of the queue, and wakes the next if the resource is free: the waiter may
    /// have been woken and have left, or have had the vote and given it back.
    pub(super) fn withdraw(
        &mut self,
        parameters: &QuorumParameters,
        withdraw: &Withdraw,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Answer {
        let Withdraw { resource, waiter } = withdraw;
        self.leave_queue(resource, waiter, now, subscribers);
        self.wake_next(parameters, resource, now, subscribers);
        Answer::Withdrawn
    }
}
