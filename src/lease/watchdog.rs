//! The watchdog, which renews leases that are due together.
//!
//! ```text
//!   event                                         decision
//!   ─────                                         ────────
//!   leases are due ───────────────────────────>   queue a batch for every node
//!   force-unlock notice, by the rate limit ───>   make all leases due
//!   a node has no call in flight ─────────────>   send the next batch, or fail a stale batch
//!   answer of a node, or its deadline ────────>   count the answer in each renewal of the batch
//!
//!   outcome of a renewal:   Renewed ──> due again at a third of the ttl
//!                           Failed ───> due again after a twelfth of the ttl
//!                           Revoked ──> end the lease
//!                           TooLate ──> none, because the expiry ends the lease
//! ```

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use futures::future::{BoxFuture, poll_fn};

use crate::{
    clock::Instant,
    error::LossReason,
    lease::{active_lease::ActiveLease, expiry, leases::Leases, rate_limit::RateLimit, renewal::Renewal},
    mutex::lock,
    node::{Answer, AnswerSize, Operation, Reply, Request, request::RequestSize},
    observer::RenewalOutcome,
    values::NodeError,
};

/// The share of a ttl within which leases are renewed together.
const WINDOW_SHARE: u32 = 60;

/// The share of a ttl after which a failed renewal is tried again.
const RETRY_SHARE: u32 = 12;

/// Renews the leases of one client, each at a third of its ttl, until the future is dropped. The first renewal of a
/// lease may be [earlier](crate::algorithm::lease::RenewalOffset).
///
/// The watchdog has at most one renewal call in flight at each node, independent of the other nodes, so that a slow
/// node delays no other node.
pub(crate) async fn run(leases: Arc<Leases>) {
    let mut nodes: Vec<NodeRenewals> = leases.context.nodes.iter().map(|_| NodeRenewals::default()).collect();
    let mut force_unlocks = RateLimit::new(leases.context.now(), window(&leases));
    loop {
        let now = leases.context.now();
        for batch in due_batches(&leases, now) {
            for node in &mut nodes {
                node.waiting.push_back(Arc::clone(&batch));
            }
        }
        for (index, node) in nodes.iter_mut().enumerate() {
            node.send_next(&leases, index);
        }
        let next_due = leases.renewals.arm(now);
        let wake = nodes.iter().filter_map(NodeRenewals::deadline).chain(next_due).min();
        let mut timer = wake.map(|wake| leases.context.clock.sleep_until(wake));
        tokio::select! {
            biased;
            () = next_answer(&leases, &mut nodes) => {}
            () = leases.renewals.earlier() => {}
            () = force_unlocked(&leases, force_unlocks.not_before()) => {
                force_unlocks.record_renewal(leases.context.now());
                leases.renew_all();
            }
            () = poll_fn(|context| poll_timer(&mut timer, context)) => {
                for (index, node) in nodes.iter_mut().enumerate() {
                    node.time_out(&leases, index);
                }
            }
        }
    }
}

/// Leases that are renewed in one call to each node.
#[derive(Debug)]
struct RenewalBatch {
    renewals: Mutex<Vec<Renewal>>,
    /// The time of the next renewal of the leases. If a node has not been sent the batch before that time, the node is
    /// too slow, and the batch fails there.
    stale_at: Instant,
}

/// The renewals of one node.
#[derive(Debug, Default)]
struct NodeRenewals {
    waiting: VecDeque<Arc<RenewalBatch>>,
    in_flight: Option<CallInFlight>,
}

/// The renewal call that a node has not answered.
#[derive(Debug)]
struct CallInFlight {
    batch: Arc<RenewalBatch>,
    /// The indices of the renewals in the batch that were sent.
    sent: Vec<usize>,
    reply: Reply,
    deadline: Instant,
}

/// Takes the leases that are due, and returns their renewals in batches of one call to each node. If a lease is due,
/// the batches include the leases that are due within the window.
fn due_batches(leases: &Leases, now: Instant) -> Vec<Arc<RenewalBatch>> {
    let window = window(leases);
    let first = leases.renewals.take_due(now);
    if first.is_empty() {
        return Vec::new();
    }
    // A call must be sent anyway, and renews the leases that are due soon as well.
    let soon = leases.renewals.take_due(now + window);
    let due: Vec<Arc<ActiveLease>> = first.into_iter().chain(soon).filter_map(|id| leases.get(id)).collect();
    split_into_calls(due)
        .iter()
        .map(|group| {
            let renewals =
                group.iter().map(|lease| Renewal::new(Arc::clone(lease), &leases.context, now)).collect();
            let shortest = group.iter().map(|lease| lease.ttl()).min().unwrap_or_default();
            Arc::new(RenewalBatch { renewals: Mutex::new(renewals), stale_at: now + shortest / 3 })
        })
        .collect()
}

/// Returns the time within which leases are renewed together. The window is also the longest delay between a
/// force-unlock notice and the renewals, since it is a small part of the time to the next renewal.
fn window(leases: &Leases) -> Duration {
    leases.context.settings.ttl / WINDOW_SHARE
}

/// Waits until `not_before`, and then for a force-unlock notice. If the future is dropped before that time, a notice
/// that has arrived is not lost.
async fn force_unlocked(leases: &Leases, not_before: Instant) {
    if leases.context.now() < not_before {
        leases.context.clock.sleep_until(not_before).await;
    }
    leases.force_unlock_listener.notified().await;
}

/// Splits leases into groups that one call can renew.
fn split_into_calls(due: Vec<Arc<ActiveLease>>) -> Vec<Vec<Arc<ActiveLease>>> {
    let mut calls = Vec::new();
    let mut leases = Vec::new();
    let mut size = RequestSize::default();
    for lease in due {
        let resources = lease.terms.resources.len();
        // The answer to a renewal is an ordinary answer.
        if !size.try_add(1, resources, AnswerSize::default()) {
            calls.push(std::mem::take(&mut leases));
            size = RequestSize::default();
            size.try_add(1, resources, AnswerSize::default());
        }
        leases.push(lease);
    }
    calls.extend((!leases.is_empty()).then_some(leases));
    calls
}

impl NodeRenewals {
    /// Sends the next batch if no call is in flight.
    fn send_next(&mut self, leases: &Leases, node: usize) {
        while self.in_flight.is_none() {
            let (Some(batch), Some(to)) = (self.waiting.pop_front(), leases.context.nodes.get(node)) else {
                return;
            };
            let mut sent = Vec::new();
            let mut operations = Vec::new();
            let now = leases.context.now();
            let mut deadline = now;
            for (index, renewal) in lock(&batch.renewals).iter().enumerate() {
                let (ttl, may_have_waiters) = (renewal.ttl(now), renewal.may_have_waiters);
                if let Some(renew) = renewal.lease.begin_renewal(node, ttl, may_have_waiters, now) {
                    deadline = deadline.max(now + renewal.lease.terms.renewal_timeout);
                    operations.push(Operation::Renew(renew));
                    sent.push(index);
                }
            }
            if !operations.is_empty() {
                let reply = if now < batch.stale_at {
                    to.call(Request::new(operations, deadline))
                } else {
                    Reply::error(operations.len(), &NodeError::Unresponsive)
                };
                self.in_flight = Some(CallInFlight { batch, sent, reply, deadline });
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.in_flight.as_ref().map(|in_flight| in_flight.deadline)
    }

    /// Ends the call as timed out if its deadline has passed. The node may still execute that call.
    fn time_out(&mut self, leases: &Leases, node: usize) {
        if self.deadline().is_some_and(|deadline| deadline <= leases.context.now()) {
            self.end_call(leases, node, |operations| vec![Answer::Error(NodeError::TimedOut); operations]);
        }
    }

    fn poll_answer(&mut self, leases: &Leases, node: usize, context: &mut Context<'_>) -> Poll<()> {
        let Some(in_flight) = &mut self.in_flight else { return Poll::Pending };
        Pin::new(&mut in_flight.reply).poll(context).map(|answers| self.end_call(leases, node, |_| answers))
    }

    /// Handles the end of the call in flight. `answers` returns the answers to a number of operations.
    fn end_call(&mut self, leases: &Leases, node: usize, answers: impl FnOnce(usize) -> Vec<Answer>) {
        let Some(in_flight) = self.in_flight.take() else { return };
        let mut renewals = lock(&in_flight.batch.renewals);
        for (index, answer) in in_flight.sent.iter().zip(answers(in_flight.sent.len())) {
            if let Some(renewal) = renewals.get_mut(*index) {
                let outcome = renewal.on_answer(node, &answer, &*leases.context.clock);
                if let Some(outcome) = outcome {
                    if let Some(renewed) = renewal.report(leases.context.now()) {
                        leases.context.observer.renewed(&renewed);
                    }
                    on_outcome(leases, &renewal.lease, outcome);
                }
            }
        }
    }
}

/// Handles the outcome of a renewal.
fn on_outcome(leases: &Leases, lease: &ActiveLease, outcome: RenewalOutcome) {
    tracing::debug!(
        resource = %lease.terms.resource, id = %lease.terms.lease_id, token = %lease.terms.token, ?outcome,
        "renewal"
    );
    if !lease.is_active() {
        return;
    }
    match outcome {
        // A lease that the watchdog does not renew was only queried.
        RenewalOutcome::Renewed | RenewalOutcome::Failed if !lease.terms.is_renewed => {}
        RenewalOutcome::Renewed => leases.renewals.set(lease.id, lease.renewal_due()),
        RenewalOutcome::Failed => {
            leases.renewals.set(lease.id, leases.context.now() + retry_delay(lease.ttl()))
        }
        RenewalOutcome::Revoked => drop(leases.lose(lease, LossReason::Revoked)),
        // The expiry ends the lease.
        RenewalOutcome::TooLate if expiry::has_timer() => {}
        RenewalOutcome::TooLate => drop(leases.lose(lease, LossReason::Expired)),
    }
}

fn retry_delay(ttl: Duration) -> Duration {
    ttl / RETRY_SHARE
}

/// Waits for the answer of any node.
async fn next_answer(leases: &Leases, nodes: &mut [NodeRenewals]) {
    poll_fn(|context| {
        let mut answered = Poll::Pending;
        for (index, node) in nodes.iter_mut().enumerate() {
            if node.poll_answer(leases, index, context).is_ready() {
                answered = Poll::Ready(());
            }
        }
        answered
    })
    .await;
}

fn poll_timer(timer: &mut Option<BoxFuture<'static, ()>>, context: &mut Context<'_>) -> Poll<()> {
    timer.as_mut().map_or(Poll::Pending, |timer| timer.as_mut().poll(context))
}
