//! What is measured, as a table.

use ::metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

use super::{
    ABANDONED, ARRIVALS, ATTEMPTS, CONNECTIONS, HOLD, LATCH_WAIT, LEASES, LOSSES, MARGIN, OTHER_COUNTS,
    QUARANTINED, RECONNECTS, RENEWAL, RENEWALS, UNDELIVERED, VOTES, WAIT, WAITING,
};

/// Something that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// How it is measured.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it is, as recorders are told.
    pub meaning: &'static str,
}

/// How something is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It is so at present.
    Gauge,
    /// A distribution of seconds.
    Seconds,
    /// A distribution of numbers from 0 to 1.
    Ratio,
}

impl Metric {
    pub(super) fn describe(&self) {
        let Self { name, meaning, .. } = *self;
        match self.kind {
            Kind::Counter => describe_counter!(name, Unit::Count, meaning),
            Kind::Gauge => describe_gauge!(name, Unit::Count, meaning),
            Kind::Seconds => describe_histogram!(name, Unit::Seconds, meaning),
            Kind::Ratio => describe_histogram!(name, meaning),
        }
    }
}

const fn metric(
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    meaning: &'static str,
) -> Metric {
    Metric { name, kind, labels, meaning }
}

pub(super) const ALL: &[Metric] = &[
    metric(ATTEMPTS, Kind::Counter, &["quorum", "outcome"], "attempts to acquire a lease, by how they ended"),
    metric(
        VOTES,
        Kind::Counter,
        &["quorum", "node", "question", "answer"],
        "answers of nodes to locks, write-backs and renewals, silence included",
    ),
    metric(WAIT, Kind::Seconds, &["quorum", "mode", "outcome"], "seconds from a call to lock to its end"),
    metric(WAITING, Kind::Gauge, &["quorum"], "calls to lock that go on at present"),
    metric(LEASES, Kind::Gauge, &["quorum", "mode"], "leases that are held at present"),
    metric(HOLD, Kind::Seconds, &["quorum", "mode", "end"], "seconds from the grant of a lease to its end"),
    metric(RENEWALS, Kind::Counter, &["quorum", "outcome"], "renewals, by how they ended"),
    metric(
        RENEWAL,
        Kind::Seconds,
        &["quorum"],
        "seconds from the first request of a renewal to its decision",
    ),
    metric(
        MARGIN,
        Kind::Ratio,
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
    metric(
        LATCH_WAIT,
        Kind::Seconds,
        &["quorum", "outcome"],
        "seconds from a call that waits for a latch to its end",
    ),
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
