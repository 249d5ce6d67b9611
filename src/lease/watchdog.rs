//! The watchdog: renews what is due, together.

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
    lease::{active_lease::ActiveLease, expiry, forced::Pace, leases::Leases, renewal::Renewal},
    mutex::lock,
    node::{Answer, Operation, Reply, Request, request::Load},
    observer::RenewalOutcome,
    values::NodeError,
};

/// Leases due within this share of a ttl travel together.
const WINDOW_SHARE: u32 = 60;

/// A renewal that failed is tried again after this share of the ttl.
const RETRY_SHARE: u32 = 12;

/// Renews the leases of one client, each at a third of its ttl, until it is dropped.
///
/// Every node has a lane of its own with at most one renewal call under way, so a slow node delays
/// nobody else.
pub(crate) async fn run(leases: Arc<Leases>) {
    let mut lanes: Vec<NodeRenewals> = leases.context.nodes.iter().map(|_| NodeRenewals::default()).collect();
    let mut notices = Pace::new(leases.context.now(), window(&leases));
    loop {
        let now = leases.context.now();
        for batch in due_batches(&leases, now) {
            for lane in &mut lanes {
                lane.waiting.push_back(Arc::clone(&batch));
            }
        }
        for (node, lane) in lanes.iter_mut().enumerate() {
            lane.send_next(&leases, node);
        }
        let next_due = leases.renewals.arm(now);
        let wake = lanes.iter().filter_map(NodeRenewals::deadline).chain(next_due).min();
        let mut timer = wake.map(|wake| leases.context.clock.sleep_until(wake));
        tokio::select! {
            biased;
            () = hear(&leases, &mut lanes) => {}
            () = leases.renewals.earlier() => {}
            () = told_of_force(&leases, notices.not_before()) => {
                notices.answer(leases.context.now());
                leases.ask_for_all();
            }
            () = poll_fn(|context| poll_timer(&mut timer, context)) => {
                for (node, lane) in lanes.iter_mut().enumerate() {
                    lane.give_up(&leases, node);
                }
            }
        }
    }
}

/// Leases that are renewed in one call to each node.
#[derive(Debug)]
struct RenewalBatch {
    renewals: Mutex<Vec<Renewal>>,
    /// By then the next renewal of its leases is due, and a node that has not come to this one is
    /// too slow to be asked.
    stale_at: Instant,
}

/// The renewals of one node.
#[derive(Debug, Default)]
struct NodeRenewals {
    waiting: VecDeque<Arc<RenewalBatch>>,
    in_flight: Option<CallInFlight>,
}

#[derive(Debug)]
struct CallInFlight {
    batch: Arc<RenewalBatch>,
    /// Which renewals of the batch were sent.
    sent: Vec<usize>,
    reply: Reply,
    deadline: Instant,
}

/// Everything that is due, or almost, in groups that fit into one call each.
fn due_batches(leases: &Leases, now: Instant) -> Vec<Arc<RenewalBatch>> {
    let window = window(leases);
    let first = leases.renewals.take_due(now);
    if first.is_empty() {
        return Vec::new();
    }
    // Something is due, so what is due soon goes along.
    let along = leases.renewals.take_due(now + window);
    let due: Vec<Arc<ActiveLease>> = first.into_iter().chain(along).filter_map(|id| leases.get(id)).collect();
    let electorate = leases.context.settings.electorate;
    in_calls(due)
        .iter()
        .map(|leases| {
            let renewals =
                leases.iter().map(|lease| Renewal::new(Arc::clone(lease), electorate, now)).collect();
            let shortest = leases.iter().map(|lease| lease.ttl()).min().unwrap_or_default();
            Arc::new(RenewalBatch { renewals: Mutex::new(renewals), stale_at: now + shortest / 3 })
        })
        .collect()
}

/// Renewals whose times are no further apart are one: so it is also the longest delay of a notice
/// of force, which is a small part of the time to the next renewal.
fn window(leases: &Leases) -> Duration {
    leases.context.settings.ttl / WINDOW_SHARE
}

/// Ready when a notice of force may be answered. One that comes before waits, as none is taken until
/// then.
async fn told_of_force(leases: &Leases, not_before: Instant) {
    if leases.context.now() < not_before {
        leases.context.clock.sleep_until(not_before).await;
    }
    leases.forced.told().await;
}

/// These leases in groups, each of which is renewed by one call.
fn in_calls(due: Vec<Arc<ActiveLease>>) -> Vec<Vec<Arc<ActiveLease>>> {
    let mut calls = Vec::new();
    let mut leases = Vec::new();
    let mut load = Load::default();
    for lease in due {
        if !load.take(1, lease.resources.len()) {
            calls.push(std::mem::take(&mut leases));
            load = Load::default();
            load.take(1, lease.resources.len());
        }
        leases.push(lease);
    }
    calls.extend((!leases.is_empty()).then_some(leases));
    calls
}

impl NodeRenewals {
    /// Sends the next batch if nothing is under way.
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
                if let Some(renew) = renewal.lease.begin_renewal(node, renewal.ttl(now), now) {
                    deadline = deadline.max(now + renewal.lease.node_timeout);
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

    /// Stops waiting for what is overdue; it may still be executed.
    fn give_up(&mut self, leases: &Leases, node: usize) {
        if self.deadline().is_some_and(|deadline| deadline <= leases.context.now()) {
            self.end(leases, node, |operations| vec![Answer::Error(NodeError::TimedOut); operations]);
        }
    }

    fn poll_answer(&mut self, leases: &Leases, node: usize, context: &mut Context<'_>) -> Poll<()> {
        let Some(in_flight) = &mut self.in_flight else { return Poll::Pending };
        Pin::new(&mut in_flight.reply).poll(context).map(|answers| self.end(leases, node, |_| answers))
    }

    fn end(&mut self, leases: &Leases, node: usize, answers: impl FnOnce(usize) -> Vec<Answer>) {
        let Some(in_flight) = self.in_flight.take() else { return };
        let mut renewals = lock(&in_flight.batch.renewals);
        for (index, answer) in in_flight.sent.iter().zip(answers(in_flight.sent.len())) {
            if let Some(renewal) = renewals.get_mut(*index) {
                let outcome = renewal.hear(node, &answer, &*leases.context.clock);
                if let Some(outcome) = outcome {
                    if let Some(renewed) = renewal.report(leases.context.now()) {
                        leases.context.observer.renewed(&renewed);
                    }
                    decided(leases, &renewal.lease, outcome);
                }
            }
        }
    }
}

/// What becomes of a lease after a renewal.
fn decided(leases: &Leases, lease: &ActiveLease, outcome: RenewalOutcome) {
    tracing::debug!(
        resource = %lease.resource, id = %lease.owner, token = %lease.token, ?outcome,
        "renewal"
    );
    if !lease.is_held() {
        return;
    }
    match outcome {
        // One that is not renewed was only asked for.
        RenewalOutcome::Renewed | RenewalOutcome::Failed if !lease.is_renewed => {}
        RenewalOutcome::Renewed => leases.renewals.set(lease.id, lease.renewal_due()),
        RenewalOutcome::Failed => {
            leases.renewals.set(lease.id, leases.context.now() + retry_delay(lease.ttl()))
        }
        RenewalOutcome::Gone => drop(leases.lose(lease, LossReason::Revoked)),
        // The expiry ends it.
        RenewalOutcome::TooLate if expiry::has_its_own_timer() => {}
        RenewalOutcome::TooLate => drop(leases.lose(lease, LossReason::Expired)),
    }
}

fn retry_delay(ttl: Duration) -> Duration {
    ttl / RETRY_SHARE
}

/// Ready when a lane has heard something.
async fn hear(leases: &Leases, lanes: &mut [NodeRenewals]) {
    poll_fn(|context| {
        let mut heard = Poll::Pending;
        for (node, lane) in lanes.iter_mut().enumerate() {
            if lane.poll_answer(leases, node, context).is_ready() {
                heard = Poll::Ready(());
            }
        }
        heard
    })
    .await;
}

fn poll_timer(timer: &mut Option<BoxFuture<'static, ()>>, context: &mut Context<'_>) -> Poll<()> {
    timer.as_mut().map_or(Poll::Pending, |timer| timer.as_mut().poll(context))
}
