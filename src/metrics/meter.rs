//! Measuring one client.

use std::{sync::Arc, time::Duration};

use ::metrics::{Gauge, counter, gauge, histogram};

use super::{
    ABANDONED, ARRIVALS, ATTEMPTS, CONNECTIONS, HOLD, LATCH_WAIT, LEASES, LOSSES, MARGIN, OTHER_COUNTS,
    QUARANTINED, RECONNECTS, RENEWAL, RENEWALS, UNDELIVERED, VOTES, WAIT, WAITING, label,
};
use crate::{
    error::LossReason,
    node::{Answer, remote::Monitor},
    observer::{
        AttemptEnd, CallEnd, LatchEnd, LeaseEnd, Mode, ObservedLease, Observer, OperationKind,
        RenewalOutcome, Renewed,
    },
};

/// Tells the recorder in use what a client does.
///
/// The recorder is looked up each time: one that is there for a part of the program alone is told
/// of what happens in it.
#[derive(Debug)]
pub(crate) struct Meter {
    quorum: Arc<str>,
    /// The addresses of the nodes.
    nodes: Vec<Arc<str>>,
}

impl Meter {
    pub(crate) fn new(quorum: &str, nodes: Vec<Arc<str>>) -> Self {
        super::describe();
        let meter = Self { quorum: quorum.into(), nodes };
        // What counts up from nothing can be told from what is not measured.
        label::MODES.into_iter().for_each(|mode| meter.leases(mode).increment(0.0));
        gauge!(WAITING, "quorum" => meter.quorum()).increment(0.0);
        for nothing in [ABANDONED, ARRIVALS, OTHER_COUNTS] {
            counter!(nothing, "quorum" => meter.quorum()).increment(0);
        }
        meter.count_attempts(label::ATTEMPT_ENDS, 0);
        meter.count_renewals(label::RENEWAL_ENDS, 0);
        meter.count_losses(label::LOSS_REASONS, 0);
        meter
    }

    fn quorum(&self) -> Arc<str> {
        Arc::clone(&self.quorum)
    }

    fn count_attempts(&self, ends: impl IntoIterator<Item = AttemptEnd>, by: u64) {
        for end in ends {
            counter!(ATTEMPTS, "quorum" => self.quorum(), "outcome" => label::of_attempt(end)).increment(by);
        }
    }

    fn count_renewals(&self, ends: impl IntoIterator<Item = RenewalOutcome>, by: u64) {
        for end in ends {
            counter!(RENEWALS, "quorum" => self.quorum(), "outcome" => label::of_renewal(end)).increment(by);
        }
    }

    fn count_losses(&self, reasons: impl IntoIterator<Item = LossReason>, by: u64) {
        for reason in reasons {
            counter!(LOSSES, "quorum" => self.quorum(), "reason" => label::of_loss(reason)).increment(by);
        }
    }

    fn leases(&self, mode: Mode) -> Gauge {
        gauge!(LEASES, "quorum" => self.quorum(), "mode" => label::of_mode(mode))
    }

    fn quarantined(&self, node: &Arc<str>, is_quarantined: bool) {
        let value = if is_quarantined { 1.0 } else { 0.0 };
        gauge!(QUARANTINED, "quorum" => self.quorum(), "node" => Arc::clone(node)).set(value);
    }
}

impl Monitor for Meter {
    fn dials(&self, node: &Arc<str>) {
        let (quorum, node) = (self.quorum(), Arc::clone(node));
        gauge!(CONNECTIONS, "quorum" => Arc::clone(&quorum), "node" => Arc::clone(&node)).increment(0.0);
        counter!(RECONNECTS, "quorum" => Arc::clone(&quorum), "node" => Arc::clone(&node)).increment(0);
        gauge!(UNDELIVERED, "quorum" => quorum, "node" => node).increment(0.0);
    }

    fn connected(&self, node: &Arc<str>, again: bool) {
        let (quorum, node) = (self.quorum(), Arc::clone(node));
        gauge!(CONNECTIONS, "quorum" => Arc::clone(&quorum), "node" => Arc::clone(&node)).increment(1.0);
        if again {
            counter!(RECONNECTS, "quorum" => quorum, "node" => node).increment(1);
        }
    }

    fn disconnected(&self, node: &Arc<str>) {
        gauge!(CONNECTIONS, "quorum" => self.quorum(), "node" => Arc::clone(node)).decrement(1.0);
    }

    fn registered(&self, node: &Arc<str>, is_quarantined: bool) {
        self.quarantined(node, is_quarantined);
    }

    fn undelivered_changed(&self, node: &Arc<str>, change: i64) {
        #[expect(clippy::cast_precision_loss, reason = "nobody has so many undelivered unlocks")]
        let change = change as f64;
        gauge!(UNDELIVERED, "quorum" => self.quorum(), "node" => Arc::clone(node)).increment(change);
    }
}

impl Observer for Meter {
    fn attempt_ended(&self, end: AttemptEnd) {
        self.count_attempts([end], 1);
    }

    fn answered(&self, node: usize, operation: OperationKind, answer: &Answer) {
        let Some(node) = self.nodes.get(node) else { return };
        counter!(
            VOTES,
            "quorum" => self.quorum(),
            "node" => Arc::clone(node),
            "question" => label::of_operation(operation),
            "answer" => label::of_answer(answer)
        )
        .increment(1);
        match (operation, answer.told()) {
            (_, Answer::Abstains(_) | Answer::RenewedInQuarantine(_)) => self.quarantined(node, true),
            // A node that answers a lock votes. Renewals may count before that.
            (OperationKind::Lock, Answer::Granted { .. } | Answer::Held(_) | Answer::Queued(_)) => {
                self.quarantined(node, false);
            }
            _ => {}
        }
    }

    fn lease_granted(&self, lease: &Arc<dyn ObservedLease>) {
        self.leases(lease.mode()).increment(1.0);
    }

    fn renewed(&self, renewed: &Renewed) {
        let Renewed { outcome, took, margin } = *renewed;
        self.count_renewals([outcome], 1);
        histogram!(RENEWAL, "quorum" => self.quorum()).record(took);
        if let Some(margin) = margin {
            histogram!(MARGIN, "quorum" => self.quorum()).record(margin);
        }
    }

    fn lease_ended(&self, lease: &dyn ObservedLease, end: LeaseEnd, lasted: Duration) {
        self.leases(lease.mode()).decrement(1.0);
        let (mode, how) = (label::of_mode(lease.mode()), label::of_lease(end));
        histogram!(HOLD, "quorum" => self.quorum(), "mode" => mode, "end" => how).record(lasted);
        match end {
            LeaseEnd::Unlocked => {}
            LeaseEnd::Dropped => counter!(ABANDONED, "quorum" => self.quorum()).increment(1),
            LeaseEnd::Lost(reason) => self.count_losses([reason], 1),
        }
    }

    fn arrived_at_latch(&self) {
        counter!(ARRIVALS, "quorum" => self.quorum()).increment(1);
    }

    fn waited_for_latch(&self, end: LatchEnd, waited: Duration) {
        let outcome = label::of_latch(end);
        histogram!(LATCH_WAIT, "quorum" => self.quorum(), "outcome" => outcome).record(waited);
    }

    fn saw_other_count(&self) {
        counter!(OTHER_COUNTS, "quorum" => self.quorum()).increment(1);
    }

    fn call_began(&self) {
        gauge!(WAITING, "quorum" => self.quorum()).increment(1.0);
    }

    fn call_ended(&self, mode: Mode, end: CallEnd, waited: Duration) {
        gauge!(WAITING, "quorum" => self.quorum()).decrement(1.0);
        let (mode, outcome) = (label::of_mode(mode), label::of_call(end));
        histogram!(WAIT, "quorum" => self.quorum(), "mode" => mode, "outcome" => outcome).record(waited);
    }
}
