//! The watchdog, which renews leases that are due together.
//!
//! ```text
//!   event                                         decision
//!   ─────                                         ────────
//!   leases are due ───────────────────────────>   queue a batch for every node
//!   force-unlock notice, by the rate limit ───>   make all leases due
//!   no similar call is in flight at a node ───>   send the next batch, or fail a stale batch
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
    mutation::{self, Mutation},
    mutex::lock,
    node::{Answer, AnswerSize, Operation, Reply, Request, request::RequestSize},
    observer::RenewalOutcome,
    values::NodeError,
};

/// The share of a ttl within which leases are renewed together.
const WINDOW_SHARE: u32 = 60;

/// The share of a ttl after which a failed renewal is tried again.
const RETRY_SHARE: u32 = 12;

/// The ratio of renewal timeouts from which on two leases are renewed in different calls, also at the same time. All
/// leases of a call have the shortest renewal timeout of the call, so a node has more than half of the renewal timeout of
/// each lease.
const MAX_TIMEOUT_RATIO: u32 = 2;

/// Renews the leases of one client, each at a third of its ttl, until the future is dropped. The first renewal of a
/// lease may be [earlier](crate::algorithm::lease::RenewalOffset).
///
/// At each node, the calls with one shortest ttl are in flight one at a time, and the renewal of a short lease does not
/// wait for the renewal of a long lease. The nodes are independent, so that a slow node delays no other node.
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
    /// The shortest renewal timeout of the leases.
    timeout: Duration,
}

/// The renewals of one node.
#[derive(Debug, Default)]
struct NodeRenewals {
    waiting: VecDeque<Arc<RenewalBatch>>,
    in_flight: Vec<CallInFlight>,
}

/// A renewal call that a node has not answered.
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
            let timeout = timeout_of(group);
            Arc::new(RenewalBatch { renewals: Mutex::new(renewals), stale_at: now + shortest / 3, timeout })
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

/// Returns the shortest renewal timeout of the leases of a call.
fn timeout_of(leases: &[Arc<ActiveLease>]) -> Duration {
    let timeouts = || leases.iter().map(|lease| lease.terms.renewal_timeout);
    let longest = |shortest| timeouts().max().unwrap_or(shortest);
    mutation::altered(Mutation::WaitForLongLeases, timeouts().min().unwrap_or_default(), longest)
}

/// Splits leases into groups that one call can renew, and whose renewal timeouts differ by less than
/// [`MAX_TIMEOUT_RATIO`].
fn split_into_calls(mut due: Vec<Arc<ActiveLease>>) -> Vec<Vec<Arc<ActiveLease>>> {
    due.sort_by_key(|lease| lease.terms.renewal_timeout);
    let mut calls = Vec::new();
    let mut leases: Vec<Arc<ActiveLease>> = Vec::new();
    let mut size = RequestSize::default();
    for lease in due {
        let resources = lease.terms.resources.len();
        let is_longer = leases.first().is_some_and(|shortest| {
            lease.terms.renewal_timeout >= shortest.terms.renewal_timeout * MAX_TIMEOUT_RATIO
        });
        let is_longer = mutation::altered(Mutation::WaitForLongLeases, is_longer, |_| false);
        // The answer to a renewal is an ordinary answer.
        if is_longer || !size.try_add(1, resources, AnswerSize::default()) {
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
    /// Sends the batches that need not wait for a call in flight.
    fn send_next(&mut self, leases: &Leases, node: usize) {
        let Some(to) = leases.context.nodes.get(node) else { return };
        for batch in std::mem::take(&mut self.waiting) {
            let now = leases.context.now();
            if self.must_wait(&batch, now) {
                self.waiting.push_back(batch);
                continue;
            }
            let mut sent = Vec::new();
            let mut operations = Vec::new();
            for (index, renewal) in lock(&batch.renewals).iter().enumerate() {
                if let Some(renew) = renewal.begin(node, now) {
                    operations.push(Operation::Renew(renew));
                    sent.push(index);
                }
            }
            if !operations.is_empty() {
                let deadline = now + batch.timeout;
                let reply = if now < batch.stale_at {
                    to.call(Request::new(operations, deadline))
                } else {
                    Reply::error(operations.len(), &NodeError::Unresponsive)
                };
                self.in_flight.push(CallInFlight { batch, sent, reply, deadline });
            }
        }
    }

    /// Whether a batch waits for the end of a call in flight. A batch of shorter leases does not wait, because the call
    /// may end after the shorter leases. Nor does a batch of much longer leases wait, so that its renewals are sent in
    /// time.
    fn must_wait(&self, batch: &RenewalBatch, now: Instant) -> bool {
        let must_wait = self.in_flight.iter().any(|call| {
            call.deadline <= now + batch.timeout && batch.timeout < call.batch.timeout * MAX_TIMEOUT_RATIO
        });
        mutation::altered(Mutation::WaitForLongLeases, must_wait, |_| !self.in_flight.is_empty())
    }

    fn deadline(&self) -> Option<Instant> {
        self.in_flight.iter().map(|call| call.deadline).min()
    }

    /// Ends the calls whose deadlines have passed as timed out. The node may still execute these calls.
    fn time_out(&mut self, leases: &Leases, node: usize) {
        let now = leases.context.now();
        for call in self.in_flight.extract_if(.., |call| call.deadline <= now) {
            let answers = vec![Answer::Error(NodeError::TimedOut); call.sent.len()];
            call.end(leases, node, &answers);
        }
    }

    fn poll_answer(&mut self, leases: &Leases, node: usize, context: &mut Context<'_>) -> Poll<()> {
        let mut answered = Poll::Pending;
        self.in_flight.retain_mut(|call| match Pin::new(&mut call.reply).poll(context) {
            Poll::Ready(answers) => {
                call.end(leases, node, &answers);
                answered = Poll::Ready(());
                false
            }
            Poll::Pending => true,
        });
        answered
    }
}

impl CallInFlight {
    /// Handles the end of the call, with the answers to the renewals that were sent.
    fn end(&self, leases: &Leases, node: usize, answers: &[Answer]) {
        let mut renewals = lock(&self.batch.renewals);
        for (index, answer) in self.sent.iter().zip(answers) {
            if let Some(renewal) = renewals.get_mut(*index) {
                let outcome = renewal.on_answer(node, answer, &*leases.context.clock);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        LockOptions, MemoryCluster,
        lock::tests::{client, pass},
    };

    #[tokio::test(start_paused = true)]
    async fn a_renewal_that_ends_after_its_lease_sets_no_timer() {
        let quorum = client(&MemoryCluster::new(3));
        let leases = &quorum.client().leases;
        let guard = quorum.red_lock("r").lock().await.unwrap();
        let lease = Arc::clone(guard.active_lease());
        on_outcome(leases, &lease, RenewalOutcome::Failed);
        let latest = lease.valid_until();
        assert_eq!(leases.renewals.take_due(latest), [lease.id], "a failed renewal is tried again");
        drop(guard);
        on_outcome(leases, &lease, RenewalOutcome::Failed);
        assert!(leases.renewals.take_due(latest).is_empty());
    }

    /// The expiry ends the lease, and knows the reason. Here the expiry is late.
    #[tokio::test(start_paused = true)]
    async fn a_renewal_that_is_too_late_does_not_end_its_lease() {
        let quorum = client(&MemoryCluster::new(3));
        let at_most = Duration::from_secs(10);
        let options = LockOptions::new().hold_at_most(at_most);
        let guard = quorum.red_lock("r").options(options).lock().await.unwrap();
        let (leases, lease) = (&quorum.client().leases, guard.active_lease());
        quorum.client().stop_expiry();
        pass(at_most).await;
        on_outcome(leases, lease, RenewalOutcome::TooLate);
        assert_eq!(lease.loss_at(leases.context.now()), Some(LossReason::HoldLimit));
        assert!(lease.is_active());
    }
}
