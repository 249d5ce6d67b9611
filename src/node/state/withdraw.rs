//! Withdraw in the pure node: a waiter leaves the queue.

use crate::node::{
    operation::{Answer, Withdraw},
    parameters::QuorumParameters,
    state::{NodeState, NodeTime, Subscribers},
};

impl NodeState {
    /// Removes a waiter from the queue, and wakes the next waiter if that waiter can lock the resource.
    ///
    /// The waiter may have been woken, or may have had the vote and rolled back. No other waiter has been woken
    /// then, so the next waiter is woken here.
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
