//! The publisher, which sends the value of a leader to the nodes: at once after each change, and again after every
//! third of the ttl.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::FutureExt;
use tokio::task::AbortHandle;

use crate::{
    algorithm::{
        lease::RenewalOffset,
        tally::{Tally, TallyResult},
    },
    client::{
        context::ClientContext,
        fanout::{Fanout, FanoutEvent},
    },
    clock::Instant,
    election::value::Value,
    error::{Error, Goal, NoQuorum, NodeError},
    lease::{active_lease::ActiveLease, expiry, leases::Leases},
    mutex::lock,
    node::{Answer, Operation, Proclaim, Proclamation, Reply, Request},
    process::HomeProcess,
    values::NodeReply,
};

/// The publisher of one leadership, with its value. The value is sent repeatedly, so that a node that lost the value
/// receives the value again.
#[derive(Debug)]
pub(super) struct Publisher {
    lease: Arc<ActiveLease>,
    /// The time of the election by the leader's clock: the time since the epoch, in whole milliseconds.
    since: Duration,
    latest: Mutex<Latest>,
}

/// The latest value of the leader.
#[derive(Clone, Debug)]
struct Latest {
    /// The number of the value, from 1. Each change has the next number.
    number: u64,
    value: Value,
}

/// The handle of the task that sends the value after every third of the ttl. The task ends with the drop of the handle,
/// or with the lease. In a forked process, the drop has no effect.
#[derive(Debug)]
pub(super) struct RepeatTask {
    task: AbortHandle,
    home: HomeProcess,
}

impl Publisher {
    pub(super) fn new(context: &ClientContext, lease: Arc<ActiveLease>, value: Value) -> Self {
        let since = context.clock.time_of_day().as_millis();
        let since = Duration::from_millis(u64::try_from(since).unwrap_or(u64::MAX));
        Self { lease, since, latest: Mutex::new(Latest { number: 1, value }) }
    }

    /// Replaces the value. The caller has to [`proclaim`](Self::proclaim) the new value.
    pub(super) fn set(&self, value: Value) {
        let mut latest = lock(&self.latest);
        *latest = Latest { number: latest.number + 1, value };
    }

    /// Sends the value to all nodes, and waits until a quorum has recorded the value.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`] if the lease has ended. [`Error::NoQuorum`] if too few nodes recorded the value within a
    /// node timeout.
    ///
    /// # Cancel safety
    ///
    /// The value is submitted to all nodes before the first `await`.
    pub(super) async fn proclaim(&self, context: &ClientContext) -> Result<(), Error> {
        let deadline = context.now() + self.lease.terms.node_timeout;
        let mut fanout = Fanout::from_replies(self.submit(context, deadline));
        let mut tally = Tally::new(context.settings.electorate);
        let mut votes = vec![NodeReply::Failed(NodeError::TimedOut); context.nodes.len()];
        loop {
            self.lease.ensure(context.now())?;
            match tally.result() {
                TallyResult::Won => return Ok(()),
                TallyResult::Lost => break,
                TallyResult::Pending => {}
            }
            let FanoutEvent::Answer { node, answer, .. } = fanout.next(&*context.clock, deadline).await
            else {
                break;
            };
            tally.vote(node, answer == Answer::Proclaimed);
            if let Some(vote) = votes.get_mut(node) {
                *vote = NodeReply::from(&answer);
            }
        }
        let replies = context.replies(votes);
        Err(NoQuorum::new(Goal::Proclaim(self.lease.terms.resource.clone()), replies).into())
    }

    /// Starts the task that sends the value repeatedly. The task has no hold on the lease: the drop of the guard ends
    /// the lease, and the end of the lease ends the task.
    pub(super) fn repeat(self: &Arc<Self>, leases: &Arc<Leases>) -> RepeatTask {
        let task = repeat(Arc::clone(leases), Arc::clone(self));
        RepeatTask { task: leases.context.spawner.spawn(task.boxed()), home: leases.context.home() }
    }

    /// Submits the latest value to all nodes.
    fn submit(&self, context: &ClientContext, until: Instant) -> Vec<(usize, Reply)> {
        let Latest { number, value } = lock(&self.latest).clone();
        let proclamation = Proclamation {
            lease_id: self.lease.terms.lease_id.clone(),
            term: self.lease.terms.token.as_u64(),
            number,
            value: Arc::clone(value.bytes()),
            since: self.since,
        };
        let (resource, ttl) = (self.lease.terms.resource.clone(), self.lease.ttl());
        let request = Request::one(Operation::Proclaim(Proclaim { resource, proclamation, ttl }), until);
        context.nodes.iter().map(|node| node.call(request.clone())).enumerate().collect()
    }
}

/// Sends the value repeatedly, each time just after a renewal by the watchdog. If a node lost its data, the renewal
/// restores the lock at the node. Only after that, the node accepts the value. The value follows the renewal, because
/// both have the same intervals, and the first interval of the renewals began earlier.
async fn repeat(leases: Arc<Leases>, publisher: Arc<Publisher>) {
    let (context, lease) = (&*leases.context, &publisher.lease);
    let mut offset = context.renewal_offset;
    loop {
        let next = context.now() + offset.of_interval(lease.ttl() / 3);
        offset = RenewalOffset::WHOLE;
        tokio::select! {
            biased;
            _ = expiry::lost(&leases, lease) => return,
            () = context.clock.sleep_until(next) => {}
        }
        // The answers are not needed, because a node that did not record the value receives the value again after the
        // next interval.
        drop(publisher.submit(context, context.now() + lease.terms.node_timeout));
    }
}

impl Drop for RepeatTask {
    fn drop(&mut self) {
        if !self.home.is_left() {
            self.task.abort();
        }
    }
}
