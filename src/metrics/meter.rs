//! The observer that records the events of one client as metrics.

use std::{sync::Arc, time::Duration};

use ::metrics::{Gauge, SharedString};

use super::{
    label,
    metric::{
        ARRIVALS, ATTEMPTS, CONNECTIONS, DIALS, HOLD, LATCH_WAIT, LATE_ANSWERS, LEASES_DROPPED, LEASES_HELD,
        LEASES_LOST, LOCK_CALLS_IN_FLIGHT, MARGIN, NOTICES_REFUSED, OLDEST_CALL, PERMIT_COUNT_MISMATCHES,
        QUARANTINED, RECONNECTS, RENEWAL, RENEWALS, ROLLED_BACK, SILENCES, TICKETS, UNLOCKS_PENDING, VOTES,
        WAIT,
    },
};
use crate::{
    error::LossReason,
    node::{Answer, remote::Monitor, transport::NoticeCommand},
    observer::{
        AttemptEnd, CallEnd, LatchEnd, LeaseEnd, Mode, ObservedLease, Observer, OperationKind,
        RenewalOutcome, Renewed, TicketEvent,
    },
    values::NodeError,
};

/// The observer of one client that records events with the installed recorder.
///
/// Each event looks up the recorder, because a program may install a recorder for a part of its code.
#[derive(Debug)]
pub(crate) struct Meter {
    quorum: SharedString,
    /// The addresses of the nodes.
    nodes: Vec<Arc<str>>,
}

impl Meter {
    pub(crate) fn new(quorum: &str, nodes: Vec<Arc<str>>) -> Self {
        super::describe();
        let meter = Self { quorum: SharedString::from_shared(quorum.into()), nodes };
        // The series whose labels are known in advance begin at 0. If a series began with its first event, a query for
        // increases would miss the event.
        label::MODES.into_iter().for_each(|mode| meter.leases_held(mode).increment(0.0));
        meter.lock_calls_in_flight().increment(0.0);
        for metric in [LEASES_DROPPED, ARRIVALS, ROLLED_BACK, PERMIT_COUNT_MISMATCHES] {
            metric.counter([meter.quorum()]).increment(0);
        }
        for node in &meter.nodes {
            SILENCES.counter(meter.of_node(node)).increment(0);
        }
        meter.count_attempts(label::ATTEMPT_ENDS, 0);
        meter.count_renewals(label::RENEWAL_ENDS, 0);
        meter.count_losses(label::LOSS_REASONS, 0);
        meter.count_tickets(label::TICKET_EVENTS, 0);
        meter
    }

    fn quorum(&self) -> SharedString {
        self.quorum.clone()
    }

    fn of_node(&self, node: &Arc<str>) -> [SharedString; 2] {
        [self.quorum(), Arc::clone(node).into()]
    }

    fn count_attempts(&self, ends: impl IntoIterator<Item = AttemptEnd>, by: u64) {
        for end in ends {
            ATTEMPTS.counter([self.quorum(), label::of_attempt(end).into()]).increment(by);
        }
    }

    fn count_renewals(&self, ends: impl IntoIterator<Item = RenewalOutcome>, by: u64) {
        for end in ends {
            RENEWALS.counter([self.quorum(), label::of_renewal(end).into()]).increment(by);
        }
    }

    fn count_losses(&self, reasons: impl IntoIterator<Item = LossReason>, by: u64) {
        for reason in reasons {
            LEASES_LOST.counter([self.quorum(), label::of_loss(reason).into()]).increment(by);
        }
    }

    fn count_tickets(&self, events: impl IntoIterator<Item = TicketEvent>, by: u64) {
        for event in events {
            TICKETS.counter([self.quorum(), label::of_ticket(event).into()]).increment(by);
        }
    }

    fn leases_held(&self, mode: Mode) -> Gauge {
        LEASES_HELD.gauge([self.quorum(), label::of_mode(mode).into()])
    }

    fn lock_calls_in_flight(&self) -> Gauge {
        LOCK_CALLS_IN_FLIGHT.gauge([self.quorum()])
    }

    fn count_refused_notices(&self, node: &Arc<str>, command: NoticeCommand, by: u64) {
        let [quorum, node] = self.of_node(node);
        NOTICES_REFUSED.counter([quorum, node, command.name().into()]).increment(by);
    }

    fn count_dials(&self, node: &Arc<str>, error: Option<&NodeError>, by: u64) {
        let [quorum, node] = self.of_node(node);
        DIALS.counter([quorum, node, label::of_dial(error).into()]).increment(by);
    }

    fn set_quarantined(&self, node: &Arc<str>, is_quarantined: bool) {
        QUARANTINED.gauge(self.of_node(node)).set(if is_quarantined { 1.0 } else { 0.0 });
    }
}

impl Monitor for Meter {
    fn dials(&self, node: &Arc<str>) {
        CONNECTIONS.gauge(self.of_node(node)).increment(0.0);
        for metric in [RECONNECTS, LATE_ANSWERS] {
            metric.counter(self.of_node(node)).increment(0);
        }
        UNLOCKS_PENDING.gauge(self.of_node(node)).increment(0.0);
        OLDEST_CALL.gauge(self.of_node(node)).increment(0.0);
        self.count_dials(node, None, 0);
        NoticeCommand::ALL.into_iter().for_each(|command| self.count_refused_notices(node, command, 0));
    }

    fn dialled(&self, node: &Arc<str>, error: Option<&NodeError>) {
        self.count_dials(node, error, 1);
    }

    fn connected(&self, node: &Arc<str>, again: bool) {
        CONNECTIONS.gauge(self.of_node(node)).increment(1.0);
        if again {
            RECONNECTS.counter(self.of_node(node)).increment(1);
        }
    }

    fn disconnected(&self, node: &Arc<str>) {
        CONNECTIONS.gauge(self.of_node(node)).decrement(1.0);
    }

    fn registered(&self, node: &Arc<str>, is_quarantined: bool) {
        self.set_quarantined(node, is_quarantined);
    }

    fn notice_refused(&self, node: &Arc<str>, command: NoticeCommand) {
        self.count_refused_notices(node, command, 1);
    }

    fn answered_late(&self, node: &Arc<str>, answers: u64) {
        LATE_ANSWERS.counter(self.of_node(node)).increment(answers);
    }

    fn oldest_call_changed(&self, node: &Arc<str>, age: Duration) {
        OLDEST_CALL.gauge(self.of_node(node)).set(age.as_secs_f64());
    }

    fn undelivered_changed(&self, node: &Arc<str>, change: i64) {
        #[expect(clippy::cast_precision_loss, reason = "a client has far fewer than 2^52 pending unlocks")]
        let change = change as f64;
        UNLOCKS_PENDING.gauge(self.of_node(node)).increment(change);
    }
}

impl Observer for Meter {
    fn attempt_rolled_back(&self) {
        ROLLED_BACK.counter([self.quorum()]).increment(1);
    }

    fn silence_began(&self, node: usize) {
        if let Some(node) = self.nodes.get(node) {
            SILENCES.counter(self.of_node(node)).increment(1);
        }
    }

    fn lock_answered_late(&self, node: usize) {
        if let Some(node) = self.nodes.get(node) {
            LATE_ANSWERS.counter(self.of_node(node)).increment(1);
        }
    }

    fn attempt_ended(&self, end: AttemptEnd) {
        self.count_attempts([end], 1);
    }

    fn answered(&self, node: usize, operation: OperationKind, answer: &Answer) {
        let Some(node) = self.nodes.get(node) else { return };
        let [quorum, node_label] = self.of_node(node);
        let (operation_label, answer_label) = (label::of_operation(operation), label::of_answer(answer));
        VOTES.counter([quorum, node_label, operation_label.into(), answer_label.into()]).increment(1);
        match (operation, answer.without_waiters()) {
            (_, Answer::Abstains(_) | Answer::RenewedInQuarantine(_)) => self.set_quarantined(node, true),
            // A node that answers a lock is not in quarantine. An answer to a renewal is no evidence, because a node in
            // quarantine also grants renewals.
            (OperationKind::Lock, Answer::Granted { .. } | Answer::Held(_) | Answer::Queued(_)) => {
                self.set_quarantined(node, false);
            }
            _ => {}
        }
    }

    fn lease_granted(&self, lease: &Arc<dyn ObservedLease>) {
        self.leases_held(lease.mode()).increment(1.0);
    }

    fn renewed(&self, renewed: &Renewed) {
        let Renewed { outcome, took, margin } = *renewed;
        self.count_renewals([outcome], 1);
        RENEWAL.histogram([self.quorum()]).record(took);
        if let Some(margin) = margin {
            MARGIN.histogram([self.quorum()]).record(margin);
        }
    }

    fn lease_ended(&self, lease: &dyn ObservedLease, end: LeaseEnd, lasted: Duration) {
        self.leases_held(lease.mode()).decrement(1.0);
        let (mode, how) = (label::of_mode(lease.mode()), label::of_lease(end));
        HOLD.histogram([self.quorum(), mode.into(), how.into()]).record(lasted);
        match end {
            LeaseEnd::Unlocked => {}
            LeaseEnd::Dropped => LEASES_DROPPED.counter([self.quorum()]).increment(1),
            LeaseEnd::Lost(reason) => self.count_losses([reason], 1),
        }
    }

    fn ticket(&self, event: TicketEvent) {
        self.count_tickets([event], 1);
    }

    fn permit_counts_differ(&self) {
        PERMIT_COUNT_MISMATCHES.counter([self.quorum()]).increment(1);
    }

    fn arrived_at_latch(&self) {
        ARRIVALS.counter([self.quorum()]).increment(1);
    }

    fn waited_for_latch(&self, end: LatchEnd, waited: Duration) {
        let outcome = label::of_latch(end);
        LATCH_WAIT.histogram([self.quorum(), outcome.into()]).record(waited);
    }

    fn call_began(&self) {
        self.lock_calls_in_flight().increment(1.0);
    }

    fn call_ended(&self, mode: Mode, end: CallEnd, waited: Duration) {
        self.lock_calls_in_flight().decrement(1.0);
        let (mode, outcome) = (label::of_mode(mode), label::of_call(end));
        WAIT.histogram([self.quorum(), mode.into(), outcome.into()]).record(waited);
    }
}
