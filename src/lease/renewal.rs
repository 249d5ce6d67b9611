//! One renewal of one lease.

use std::{sync::Arc, time::Duration};

use crate::{
    algorithm::{
        node_set::NodeSet,
        tally::{Electorate, Tally, TallyResult},
    },
    client::fanout::{Fanout, Heard},
    clock::{Clock, Instant},
    error::{LossReason, RenewError},
    lease::{active_lease::ActiveLease, leases::Leases},
    node::{Answer, Operation, Request},
    observer::{RenewalOutcome, Renewed},
    values::{NodeError, OwnerId},
};

/// The count of one renewal of one lease.
///
/// A renewal is an acquisition by the same owner, and the same rule applies: a quorum of all
/// configured nodes, inside the validity, which then counts from the start of this round.
#[derive(Debug)]
pub(crate) struct Renewal {
    pub(crate) lease: Arc<ActiveLease>,
    start: Instant,
    tally: Tally,
    /// Nodes that gave no larger token before this round.
    proofs: NodeSet,
    /// Nodes that refuse the lease for good: it was unlocked there.
    gone: NodeSet,
    /// Who else has the resource, at nodes that lost it: `None` for a lock of some other kind.
    taken: Vec<Option<OwnerId>>,
    electorate: Electorate,
    extends: bool,
    outcome: Option<RenewalOutcome>,
    /// What was left of the validity when it had its quorum, as a share of the ttl.
    margin: Option<f64>,
}

/// What a renewal on request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be valid for longer.
    Time,
    /// To be valid for longer, and to know whether a later lease was granted.
    Proof,
    /// To tell the nodes the number of holds. The lease ends when it would have ended.
    Holds,
}

impl Renewal {
    /// `start`: the time before anything is sent. It extends a lease that the watchdog renews; any other is only
    /// asked for, unless the caller says otherwise.
    pub(crate) fn new(lease: Arc<ActiveLease>, electorate: Electorate, start: Instant) -> Self {
        let tally = Tally::new(electorate);
        let (proofs, gone, taken) = (NodeSet::EMPTY, NodeSet::EMPTY, Vec::new());
        let extends = lease.is_renewed;
        Self { lease, start, tally, proofs, gone, taken, electorate, extends, outcome: None, margin: None }
    }

    /// The ttl that the nodes are told: what is left of the lease if it is not to be extended.
    pub(crate) fn ttl(&self, now: Instant) -> Duration {
        if self.extends { self.lease.ttl() } else { self.lease.valid_until().saturating_duration_since(now) }
    }

    /// Takes a node's answer. The outcome, when this decides it: once.
    pub(crate) fn hear(&mut self, node: usize, answer: &Answer, clock: &dyn Clock) -> Option<RenewalOutcome> {
        self.lease.note_renewal(node, answer);
        match answer.told() {
            Answer::Renewed { proves } => {
                if *proves {
                    self.proofs.insert(node);
                }
                self.tally.vote(node, true);
            }
            Answer::Gone => {
                self.gone.insert(node);
                self.tally.vote(node, false);
            }
            Answer::Held(holder) => {
                // Readers need not be the same at two nodes.
                if !holder.owner.as_ref().is_some_and(OwnerId::is_of_readers) {
                    self.taken.push(holder.owner.clone());
                }
                self.tally.vote(node, false);
            }
            _ => self.tally.vote(node, false),
        }
        if self.outcome.is_some() {
            return None;
        }
        self.outcome = match self.tally.result() {
            TallyResult::Won if self.counts(clock) => Some(RenewalOutcome::Renewed),
            TallyResult::Won => Some(RenewalOutcome::TooLate),
            TallyResult::Lost if self.is_gone() => Some(RenewalOutcome::Gone),
            // Not before all have answered: only then it is known whether it is gone.
            TallyResult::Lost if self.tally.open().is_empty() => Some(RenewalOutcome::Failed),
            _ => None,
        };
        self.outcome
    }

    /// Whether a quorum proves that no later lease was granted before this round began.
    pub(crate) fn is_proven(&self) -> bool {
        self.electorate.is_quorum(self.proofs)
    }

    /// Whether the quorum came inside the old validity; if so, the lease is extended, unless that
    /// is not the purpose.
    fn counts(&mut self, clock: &dyn Clock) -> bool {
        if self.extends {
            let left = self.lease.remaining(clock.now());
            self.margin = Some(left.as_secs_f64() / self.lease.ttl().as_secs_f64());
            self.lease.renewed(self.start, clock)
        } else {
            self.lease.loss_at(clock.now()).is_none()
        }
    }

    /// What observers are told of it, once it is decided; nothing of one that only tells the number
    /// of holds.
    pub(crate) fn report(&self, now: Instant) -> Option<Renewed> {
        let outcome = self.outcome.filter(|_| self.extends)?;
        Some(Renewed { outcome, took: now.saturating_duration_since(self.start), margin: self.margin })
    }

    /// Whether proofs may still come.
    fn may_prove(&self) -> bool {
        self.electorate.is_quorum(self.proofs.union(self.tally.open()))
    }

    /// Whether no renewal can have a quorum any more: so many nodes refuse it for good, or have it
    /// for one and the same other owner. Several others have split their votes, and are about to
    /// take them back.
    fn is_gone(&self) -> bool {
        let of = |one: &Option<OwnerId>| self.taken.iter().filter(|other| *other == one).count();
        let taken = self.taken.iter().map(of).max().unwrap_or(0);
        self.electorate.nodes() - (self.gone.len() + taken).min(self.electorate.nodes())
            < self.electorate.needed()
    }
}

/// Renews one lease now. Whether it is proven that no later one was granted.
///
/// # Cancel safety
///
/// Dropping it leaves the renewals that were sent; they never shorten a lease, and the unlock takes
/// them back.
pub(crate) async fn renew_now(
    leases: &Leases,
    lease: &Arc<ActiveLease>,
    purpose: Purpose,
) -> Result<bool, RenewError> {
    let environment = &*leases.environment;
    let start = environment.now();
    let electorate = environment.settings.electorate;
    let mut renewal = Renewal::new(Arc::clone(lease), electorate, start);
    let deadline = start + lease.node_timeout;
    renewal.extends = purpose != Purpose::Holds;
    let ttl = renewal.ttl(start);
    let mut fanout = Fanout::new();
    for node in 0..electorate.nodes() {
        match lease.begin_renewal(node, ttl, start) {
            Some(renew) => {
                fanout.send(&environment.nodes, node, (), Request::one(Operation::Renew(renew), deadline))
            }
            None => lease.ensure(environment.now())?,
        }
    }
    let mut outcome = None;
    while !renewal.tally.open().is_empty() {
        lease.ensure(environment.now())?;
        match fanout.next(&*environment.clock, deadline).await {
            Heard::Answer { node, answer, .. } => {
                outcome = renewal.hear(node, &answer, &*environment.clock).or(outcome);
            }
            Heard::Silence => {
                for node in renewal.tally.open().iter() {
                    let silent = Answer::Error(NodeError::TimedOut);
                    outcome = renewal.hear(node, &silent, &*environment.clock).or(outcome);
                }
            }
        }
        if outcome.is_some() && !(purpose == Purpose::Proof && !renewal.is_proven() && renewal.may_prove()) {
            break;
        }
    }
    lease.hear_later(fanout.take_open(|()| true));
    if let Some(renewed) = renewal.report(environment.now()) {
        environment.observer.renewed(&renewed);
    }
    let ActiveLease { resource, owner, token, .. } = &**lease;
    tracing::debug!(%resource, %owner, %token, ?outcome, "renewal on request");
    match outcome {
        Some(RenewalOutcome::Renewed) => Ok(renewal.is_proven()),
        Some(RenewalOutcome::Gone) => {
            leases.lose(lease, LossReason::TakenAway);
            lease.ensure(environment.now())?;
            Ok(false)
        }
        Some(RenewalOutcome::TooLate | RenewalOutcome::Failed) | None => {
            lease.ensure(environment.now())?;
            Err(RenewError::NoQuorum { resource: lease.resource.clone(), votes: lease.votes(environment) })
        }
    }
}
