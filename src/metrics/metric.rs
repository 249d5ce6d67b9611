//! The table of metrics, and the handles that record them.

use ::metrics::{
    Counter, Gauge, Histogram, Label, SharedString, Unit, counter, describe_counter, describe_gauge,
    describe_histogram, gauge, histogram,
};

/// A metric of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// The kind.
    pub kind: Kind,
    /// The names of the labels, in the order of their values.
    pub labels: &'static [&'static str],
    /// The description, as recorders show it.
    pub help: &'static str,
    /// Whether a histogram or gauge has seconds, and not shares or numbers.
    is_in_seconds: bool,
}

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A count that only grows.
    Counter,
    /// A value that grows and shrinks.
    Gauge,
    /// A distribution of seconds, or of shares from 0 to 1.
    Histogram,
}

impl Metric {
    pub(super) fn describe(&self) {
        let Self { name, help, .. } = *self;
        match self.kind {
            Kind::Counter => describe_counter!(name, Unit::Count, help),
            Kind::Gauge if self.is_in_seconds => describe_gauge!(name, Unit::Seconds, help),
            Kind::Gauge => describe_gauge!(name, Unit::Count, help),
            Kind::Histogram if self.is_in_seconds => describe_histogram!(name, Unit::Seconds, help),
            Kind::Histogram => describe_histogram!(name, help),
        }
    }

    /// Returns the counter with these values of the labels, in the order of their names.
    pub(super) fn counter<const N: usize>(&self, values: [SharedString; N]) -> Counter {
        debug_assert_eq!(self.kind, Kind::Counter, "{}", self.name);
        counter!(self.name, self.labels(values))
    }

    /// Returns the gauge with these values of the labels, in the order of their names.
    pub(super) fn gauge<const N: usize>(&self, values: [SharedString; N]) -> Gauge {
        debug_assert_eq!(self.kind, Kind::Gauge, "{}", self.name);
        gauge!(self.name, self.labels(values))
    }

    /// Returns the histogram with these values of the labels, in the order of their names.
    pub(super) fn histogram<const N: usize>(&self, values: [SharedString; N]) -> Histogram {
        debug_assert_eq!(self.kind, Kind::Histogram, "{}", self.name);
        histogram!(self.name, self.labels(values))
    }

    fn labels<const N: usize>(&self, values: [SharedString; N]) -> Vec<Label> {
        debug_assert_eq!(self.labels.len(), N, "{}", self.name);
        self.labels.iter().zip(values).map(|(name, value)| Label::new(*name, value)).collect()
    }
}

/// Declares the constants of the metrics, and the list of all metrics. Each line has the constant, kind, name, labels
/// and description of a metric.
macro_rules! metrics {
    ($($constant:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(pub(super) const $constant: Metric = $kind($name, &[$($label),*], $help);)*

        pub(super) const ALL: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    ATTEMPTS = counter "redquorum_attempts_total" ["quorum", "outcome"]
        "attempts to acquire a lease, by outcome";
    ROLLED_BACK = counter "redquorum_attempts_rolled_back_total" ["quorum"]
        "attempts that led to no lease and were unlocked at nodes";
    VOTES = counter "redquorum_votes_total" ["quorum", "node", "operation", "answer"]
        "answers of nodes to locks, write-backs and renewals, with the reason if a node gave no answer";
    WAIT = seconds "redquorum_wait_seconds" ["quorum", "mode", "outcome"]
        "seconds from the start of a lock call to its end";
    LOCK_CALLS_IN_FLIGHT = gauge "redquorum_lock_calls_in_flight" ["quorum"]
        "lock calls that have not returned yet";
    LEASES_HELD = gauge "redquorum_leases_held" ["quorum", "mode"]
        "leases that are held now";
    HOLD = seconds "redquorum_hold_seconds" ["quorum", "mode", "end"]
        "seconds from the grant of a lease to its end";
    RENEWALS = counter "redquorum_renewals_total" ["quorum", "outcome"]
        "renewals, by outcome";
    RENEWAL = seconds "redquorum_renewal_seconds" ["quorum"]
        "seconds from the first request of a renewal to its decision";
    MARGIN = ratio "redquorum_renewal_margin_ratio" ["quorum"]
        "validity left when a renewal had its quorum, as a share of the ttl";
    LEASES_LOST = counter "redquorum_leases_lost_total" ["quorum", "reason"]
        "leases that ended before their unlock, by reason";
    LEASES_DROPPED = counter "redquorum_leases_dropped_total" ["quorum"]
        "leases whose last guard was dropped instead of unlocked";
    TICKETS = counter "redquorum_tickets_total" ["quorum", "event"]
        "tickets that this client issued, redeemed, found spent or released";
    PERMIT_COUNT_MISMATCHES = counter "redquorum_permit_count_mismatches_total" ["quorum"]
        "numbers of permits for which a client has found a different number";
    ARRIVALS = counter "redquorum_latch_arrivals_total" ["quorum"]
        "arrivals at latches that a quorum has recorded, including repeated arrivals";
    LATCH_WAIT = seconds "redquorum_latch_wait_seconds" ["quorum", "outcome"]
        "seconds from the start of a latch wait to its end";
    QUARANTINED = gauge "redquorum_node_quarantined" ["quorum", "node"]
        "1 if the node's last report is that it is in quarantine, else 0";
    CONNECTIONS = gauge "redquorum_node_connections" ["quorum", "node"]
        "connections to a node, one for each client of the process";
    SILENCES = counter "redquorum_node_silences_total" ["quorum", "node"]
        "times at which a client stopped waiting for a node that had not answered in time";
    LATE_ANSWERS = counter "redquorum_late_answers_total" ["quorum", "node"]
        "answers to locks, write-backs and renewals for which no call waited any more";
    RECONNECTS = counter "redquorum_node_reconnects_total" ["quorum", "node"]
        "connections to a node after the first";
    DIALS = counter "redquorum_node_dials_total" ["quorum", "node", "outcome"]
        "tries to connect to a node, by outcome";
    OLDEST_CALL = age "redquorum_oldest_call_seconds" ["quorum", "node"]
        "age of the oldest call without an answer, in whole seconds, as a client of the process has reported it last";
    NOTICES_REFUSED = counter "redquorum_notices_refused_total" ["quorum", "node", "command"]
        "calls with a notice that the node refused to publish, and changes of subscriptions that the node refused";
    UNLOCKS_PENDING = gauge "redquorum_unlocks_pending" ["quorum", "node"]
        "unlocks that a node has not confirmed yet";
}

type LabelNames = &'static [&'static str];

const fn metric(name: &'static str, kind: Kind, labels: LabelNames, help: &'static str) -> Metric {
    Metric { name, kind, labels, help, is_in_seconds: false }
}

const fn counter(name: &'static str, labels: LabelNames, help: &'static str) -> Metric {
    metric(name, Kind::Counter, labels, help)
}

const fn gauge(name: &'static str, labels: LabelNames, help: &'static str) -> Metric {
    metric(name, Kind::Gauge, labels, help)
}

const fn age(name: &'static str, labels: LabelNames, help: &'static str) -> Metric {
    Metric { is_in_seconds: true, ..metric(name, Kind::Gauge, labels, help) }
}

const fn ratio(name: &'static str, labels: LabelNames, help: &'static str) -> Metric {
    metric(name, Kind::Histogram, labels, help)
}

const fn seconds(name: &'static str, labels: LabelNames, help: &'static str) -> Metric {
    Metric { is_in_seconds: true, ..metric(name, Kind::Histogram, labels, help) }
}
