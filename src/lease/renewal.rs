//! The renewal of a lease, by the watchdog or on request.

use std::sync::Arc;

use crate::{
    client::{
        context::ClientContext,
        fanout::{Fanout, FanoutEvent},
    },
    clock::{Clock, Instant},
    error::{Error, Goal, LossReason, NoQuorum},
    lease::{
        active_lease::{ActiveLease, LeaseTerms, RenewedTtl},
        leases::Leases,
        renewal_tally::RenewalTally,
    },
    node::{Answer, Operation, Renew, Request},
    observer::{RenewalOutcome, Renewed},
    values::NodeError,
};

/// One renewal of one lease.
///
/// The rule of a renewal is the rule of an acquisition: a quorum of all configured nodes has to confirm the lease within
/// its validity. The new validity counts from the start of the round.
#[derive(Debug)]
pub(crate) struct Renewal {
    pub(crate) lease: Arc<ActiveLease>,
    start: Instant,
    tally: RenewalTally,
    /// Whether the renewal extends the validity. Otherwise the nodes confirm the lease and store the number of holds, and
    /// the validity stays.
    extends: bool,
    /// Whether a client may have been waiting for the resources when this renewal began.
    pub(crate) may_have_waiters: bool,
    outcome: Option<RenewalOutcome>,
    /// The validity that was left when a quorum confirmed, as a share of the ttl.
    margin: Option<f64>,
}

/// The reason of a renewal on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RenewalReason {
    /// An extension of the validity.
    Time,
    /// An extension of the validity, with a proof that no later lease was granted.
    Proof,
    /// A report of the number of holds. The validity does not change.
    Holds,
}

impl Renewal {
    /// Returns a renewal that is sent after `start`. The renewal extends the validity if the lease
    /// [is renewed](LeaseTerms::is_renewed). `renew_now` overrides this choice.
    pub(crate) fn new(lease: Arc<ActiveLease>, context: &ClientContext, start: Instant) -> Self {
        let electorate = context.settings.electorate;
        let (tally, extends) = (RenewalTally::new(electorate), lease.terms.is_renewed);
        let may_have_waiters = lease.may_have_waiters(context);
        Self { lease, start, tally, extends, may_have_waiters, outcome: None, margin: None }
    }

    /// Returns the renewal for a node, and counts the renewal as unanswered there; `None` if the lease is not active.
    pub(crate) fn begin(&self, node: usize, now: Instant) -> Option<Renew> {
        let ttl = if self.extends { RenewedTtl::Whole } else { RenewedTtl::Rest };
        self.lease.begin_renewal(node, ttl, self.may_have_waiters, now)
    }

    /// Handles the answer of a node. Returns the outcome if this answer decides the renewal.
    pub(crate) fn on_answer(
        &mut self,
        node: usize,
        answer: &Answer,
        clock: &dyn Clock,
    ) -> Option<RenewalOutcome> {
        self.lease.record_renewal(node, answer, clock.now());
        self.tally.record(node, answer.without_waiters());
        if self.outcome.is_some() {
            return None;
        }
        self.outcome = match self.tally.outcome() {
            Some(RenewalOutcome::Renewed) if !self.complete_in_time(clock) => Some(RenewalOutcome::TooLate),
            outcome => outcome,
        };
        self.outcome
    }

    /// Returns whether the lease was still valid when the quorum answered. If the lease was valid and this renewal
    /// extends leases, extends the validity.
    fn complete_in_time(&mut self, clock: &dyn Clock) -> bool {
        if self.extends {
            let left = self.lease.remaining(clock.now());
            self.margin = Some(left.as_secs_f64() / self.lease.ttl().as_secs_f64());
            self.lease.extend(self.start, clock)
        } else {
            self.lease.loss_at(clock.now()).is_none()
        }
    }

    /// Returns the report for the observer, if the outcome is decided and the renewal extends the lease.
    pub(crate) fn report(&self, now: Instant) -> Option<Renewed> {
        let outcome = self.outcome.filter(|_| self.extends)?;
        Some(Renewed { outcome, took: now.saturating_duration_since(self.start), margin: self.margin })
    }
}

/// Renews one lease now. Returns whether the answers prove that no later lease was granted.
///
/// # Cancel safety
///
/// The nodes may still execute the renewals that were sent. This is harmless, because a renewal never shortens a lease,
/// and the unlock deletes the keys.
pub(crate) async fn renew_now(
    leases: &Leases,
    lease: &Arc<ActiveLease>,
    reason: RenewalReason,
) -> Result<bool, Error> {
    let context = &*leases.context;
    let start = context.now();
    let electorate = context.settings.electorate;
    let mut renewal = Renewal::new(Arc::clone(lease), context, start);
    let deadline = start + lease.terms.node_timeout;
    renewal.extends = reason != RenewalReason::Holds;
    let mut fanout = Fanout::new();
    for node in 0..electorate.nodes() {
        match renewal.begin(node, start) {
            Some(renew) => {
                fanout.send(&context.nodes, node, (), Request::one(Operation::Renew(renew), deadline))
            }
            None => lease.ensure(context.now())?,
        }
    }
    let mut outcome = None;
    while !renewal.tally.open().is_empty() {
        lease.ensure(context.now())?;
        match fanout.next(&*context.clock, deadline).await {
            FanoutEvent::Answer { node, answer, .. } => {
                outcome = renewal.on_answer(node, &answer, &*context.clock).or(outcome);
            }
            FanoutEvent::DeadlineReached => {
                for node in renewal.tally.open().iter() {
                    let timed_out = Answer::Error(NodeError::TimedOut);
                    outcome = renewal.on_answer(node, &timed_out, &*context.clock).or(outcome);
                }
            }
        }
        if outcome.is_some()
            && !(reason == RenewalReason::Proof && !renewal.tally.is_proven() && renewal.tally.may_prove())
        {
            break;
        }
    }
    lease.keep_late(fanout.take_outstanding(|()| true));
    if let Some(renewed) = renewal.report(context.now()) {
        context.observer.renewed(&renewed);
    }
    let LeaseTerms { resource, lease_id, token, .. } = &lease.terms;
    tracing::debug!(%resource, id = %lease_id, %token, ?outcome, "renewal on request");
    match outcome {
        Some(RenewalOutcome::Renewed) => Ok(renewal.tally.is_proven()),
        Some(RenewalOutcome::Revoked) => {
            leases.lose(lease, LossReason::Revoked);
            lease.ensure(context.now())?;
            Ok(false)
        }
        Some(RenewalOutcome::TooLate | RenewalOutcome::Failed) | None => {
            lease.ensure(context.now())?;
            let replies = lease.node_replies(context);
            Err(NoQuorum::new(Goal::Renew(lease.terms.resource.clone()), replies).into())
        }
    }
}
