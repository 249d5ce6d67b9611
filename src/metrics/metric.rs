//! What is measured, as a table.

use ::metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

use super::{
    ABANDONED, ARRIVALS, ATTEMPTS, CONNECTIONS, HOLD, LATCH_WAIT, LEASES, LOSSES, MARGIN, OTHER_COUNTS,
    QUARANTINED, RECONNECTS, RENEWAL, RENEWALS, UNDELIVERED, VOTES, WAIT, WAITING,
};

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// The kind.
    pub kind: Kind,
    /// The names of the labels.
    pub labels: &'static [&'static str],
    /// The description, as recorders show it.
    pub help: &'static str,
    is_in_seconds: bool,
}

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// A distribution: of seconds, or of shares from 0 to 1.
    Histogram,
}

impl Metric {
    pub(super) fn describe(&self) {
        let Self { name, help, .. } = *self;
        match self.kind {
            Kind::Counter => describe_counter!(name, Unit::Count, help),
            Kind::Gauge => describe_gauge!(name, Unit::Count, help),
            Kind::Histogram if self.is_in_seconds => describe_histogram!(name, Unit::Seconds, help),
            Kind::Histogram => describe_histogram!(name, help),
        }
    }
}

const fn metric(
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, kind, labels, help, is_in_seconds: false }
}

const fn seconds(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { is_in_seconds: true, ..metric(name, Kind::Histogram, labels, help) }
}

pub(super) const ALL: &[Metric] = &[
    metric(ATTEMPTS, Kind::Counter, &["quorum", "outcome"], "attempts to acquire a lease, by how they ended"),
    metric(
        VOTES,
        Kind::Counter,
        &["quorum", "node", "question", "answer"],
        "answers of nodes to locks, write-backs and renewals, silence included",
    ),
    seconds(WAIT, &["quorum", "mode", "outcome"], "seconds from a call to lock to its end"),
    metric(WAITING, Kind::Gauge, &["quorum"], "calls to lock that go on at present"),
    metric(LEASES, Kind::Gauge, &["quorum", "mode"], "leases that are held at present"),
    seconds(HOLD, &["quorum", "mode", "end"], "seconds from the grant of a lease to its end"),
    metric(RENEWALS, Kind::Counter, &["quorum", "outcome"], "renewals, by how they ended"),
    seconds(RENEWAL, &["quorum"], "seconds from the first request of a renewal to its decision"),
    metric(
        MARGIN,
        Kind::Histogram,
        &["quorum"],
        "what was left of the validity when a renewal had its quorum, as a share of the ttl",
    ),
    metric(LOSSES, Kind::Counter, &["quorum", "reason"], "leases that were lost, by reason"),
    metric(ABANDONED, Kind::Counter, &["quorum"], "leases whose last guard was dropped, and not unlocked"),
    metric(
        OTHER_COUNTS,
        Kind::Counter,
        &["quorum"],
        "sightings of a semaphore's slot that is in use beyond the number of permits here",
    ),
    metric(
        ARRIVALS,
        Kind::Counter,
        &["quorum"],
        "arrivals at latches that a quorum keeps, repeated ones too",
    ),
    seconds(LATCH_WAIT, &["quorum", "outcome"], "seconds from a call that waits for a latch to its end"),
    metric(
        QUARANTINED,
        Kind::Gauge,
        &["quorum", "node"],
        "whether a node is in quarantine, by its last word on that",
    ),
    metric(
        CONNECTIONS,
        Kind::Gauge,
        &["quorum", "node"],
        "connections to a node at present, one for each client of the process",
    ),
    metric(RECONNECTS, Kind::Counter, &["quorum", "node"], "connections to a node that were made anew"),
    metric(UNDELIVERED, Kind::Gauge, &["quorum", "node"], "unlocks that a node has not confirmed yet"),
];
