//! What an attempt goes by, and whom it asks first.

use std::time::Duration;

use crate::{
    algorithm::{tally::Electorate, validity::Validity},
    clock::Instant,
    mutation::{self, Mutation},
};

/// Who is asked first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// All nodes at once, by somebody who knows of nobody else: one round trip when the resource is
    /// free. This one is the queue node.
    First(usize),
    /// These nodes one after the other until one grants, then all others. A node that is asked
    /// before any other has granted is asked for a turn, and may be the queue node.
    Queued(Vec<usize>),
    /// All nodes at once, for this one has said that it is our turn: it is asked for it, and the
    /// others to lock. Its refusal counts for all.
    Woken(usize),
    /// All nodes at once, by one who has the resource already, and waits for no turn: before this
    /// instant, from which on others may have it.
    Downgrade(Instant),
}

impl Plan {
    /// Who is asked one after the other.
    pub(super) fn queue_nodes(&self) -> Option<&[usize]> {
        match self {
            Self::Queued(order) => Some(order),
            Self::First(_) | Self::Woken(_) | Self::Downgrade(_) => None,
        }
    }

    /// From when on it is too late, whatever else the attempt goes by.
    pub(super) fn too_late_from(&self) -> Option<Instant> {
        let until = if let Self::Downgrade(until) = self { Some(*until) } else { None };
        mutation::altered(Mutation::DowngradeTooLate, until, |_| None)
    }

    /// Whether the client goes behind those that are queued.
    pub(super) fn yields_to_the_queue(&self) -> bool {
        let is_newcomer = matches!(self, Self::First(_));
        mutation::altered(Mutation::IgnoreTheQueue, is_newcomer, |_| false)
    }
}

/// What every attempt of a lock goes by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptConfig {
    pub(crate) electorate: Electorate,
    pub(crate) validity: Validity,
    pub(crate) ttl: Duration,
    pub(crate) node_timeout: Duration,
    pub(crate) attempt_timeout: Duration,
}
