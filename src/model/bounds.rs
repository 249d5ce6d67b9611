//! The bounds of a search.

use crate::model::{
    CLIENTS, NODES,
    message::{DOWNGRADE, ModelAttempt},
};

/// A property that must hold in every state that a search reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelProperty {
    /// Two conflicting leases never exist at once.
    LeasesDoNotOverlap,
    /// No token is granted twice, and no token is below a token granted before its attempt began.
    TokensAreUniqueAndGrow,
    /// When the verification of a lease began, no larger token had been granted.
    ProofsHold,
    /// If all clients are idle and nothing is in flight, no key and no reader is left.
    NothingIsLeftBehind,
    /// The key of a resource is shared exactly as long as a reader exists.
    KeysAgreeWithReaders,
}

/// The events that may happen in a search, and their numbers. No other event happens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) property: ModelProperty,
    /// Whether a search begins with a lease of the first client, whose votes from two nodes have
    /// just arrived.
    pub(super) is_held_at_start: bool,
    /// The clients that share the resource with each other. The other clients have it exclusively.
    pub(super) readers: [bool; CLIENTS],
    /// Whether writers may downgrade.
    pub(super) may_downgrade: bool,
    /// The number of attempts of each client.
    pub(super) attempts: [u8; CLIENTS],
    /// The number of renewal rounds of each lease, by client. In searches for proofs, each round is
    /// a verification.
    pub(super) renewals: [u8; CLIENTS],
    /// The number of requests that a node executes twice.
    pub(super) duplicates: u8,
    /// The number of keys, and of single readers, that expire at any moment.
    pub(super) expiries: Expiries,
    /// The initial counters of the nodes, one search for each entry. Nodes are interchangeable.
    pub(super) starts: &'static [[u64; NODES]],
    /// The hint of each client about counters, or 0.
    pub(super) hints: [u64; CLIENTS],
    /// Whether a foreign client is queued at one of the nodes. Then clients lock as newcomers
    /// first, which that node refuses.
    pub(super) is_queued: bool,
    /// The number of retries at nodes that refused, as a waiter whose turn it is.
    pub(super) repeats: u8,
    /// The number of nodes that lose their counter and no other data.
    pub(super) losses: u8,
    /// Whether a lost counter resumes above all its earlier values.
    pub(super) is_regained_above: bool,
    /// The number of nodes that forget all data.
    pub(super) crashes: u8,
    /// The number of nodes that restart with a state of an earlier moment.
    pub(super) restarts: u8,
    /// The timing. Without timing the clocks of the nodes stand still.
    pub(super) timing: Option<Timing>,
}

/// The number of keys that expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Expiries {
    AtMost(u8),
    Any,
}

/// Equal counters.
pub(super) const IN_STEP: &[[u64; NODES]] = &[[0, 0, 0]];
/// Counters that differ by at most one.
pub(super) const NEARLY_IN_STEP: &[[u64; NODES]] = &[[0, 0, 0], [0, 0, 1], [0, 1, 1]];
/// Counters that differ by at most two.
pub(super) const OUT_OF_STEP: &[[u64; NODES]] =
    &[[0, 0, 0], [0, 0, 1], [0, 1, 1], [0, 0, 2], [0, 1, 2], [0, 2, 2]];

/// Time in ticks, the same for all nodes and clients.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// The ttl of leases, and the largest ttl of the quorum.
    pub(super) ttl: u8,
    pub(super) attempt_timeout: u8,
    /// The tick at which a search ends.
    pub(super) horizon: u8,
}

impl Bounds {
    /// One attempt of each client, and no fault except delays and losses of messages.
    pub(super) const fn of(property: ModelProperty) -> Self {
        Self {
            property,
            is_held_at_start: false,
            readers: [false; CLIENTS],
            may_downgrade: false,
            attempts: [1, 1, 0],
            renewals: [0; CLIENTS],
            duplicates: 0,
            expiries: Expiries::AtMost(0),
            starts: IN_STEP,
            hints: [0; CLIENTS],
            is_queued: false,
            repeats: 0,
            losses: 0,
            is_regained_above: false,
            crashes: 0,
            restarts: 0,
            timing: None,
        }
    }

    /// Whether the property depends on tokens. If not, all counters stand still, which leaves far
    /// fewer states.
    pub(super) fn are_tokens_counted(&self) -> bool {
        matches!(self.property, ModelProperty::TokensAreUniqueAndGrow | ModelProperty::ProofsHold)
    }

    /// Whether every message must be delivered in the end.
    ///
    /// Only then do tombstones, and the targets of unlocks, matter. Otherwise a request that a
    /// tombstone refuses, and an unlock that is not sent, equal messages that are never delivered,
    /// which the search covers anyway. A refusal equals an undelivered unlock, too, so refusals are
    /// delivered only if all messages are, or if they carry a hint.
    pub(super) fn is_all_delivered(&self) -> bool {
        self.property == ModelProperty::NothingIsLeftBehind
    }

    /// Whether the property depends on the quorum of a renewal.
    pub(super) fn are_renewals_counted(&self) -> bool {
        self.property == ModelProperty::ProofsHold || self.timing.is_some()
    }

    /// Whether the rollback of a client's last attempt makes a difference. A rollback frees keys,
    /// which adds nothing if keys may expire anyway.
    pub(super) fn is_last_rollback_relevant(&self) -> bool {
        self.expiries != Expiries::Any
    }

    /// Whether the arrival of an unlock makes a difference. An unlock frees keys, which adds
    /// nothing if keys may expire anyway.
    pub(super) fn are_unlocks_relevant(&self) -> bool {
        // Searches without readers are small enough to cover this case.
        self.expiries != Expiries::Any || !self.has_readers()
    }

    /// Whether an answer is delivered at once or never. A later delivery makes no difference,
    /// because the client's next message may be late itself.
    pub(super) fn are_answers_immediate(&self) -> bool {
        // Searches without readers are small enough to cover this case.
        !self.is_all_delivered() && self.has_readers()
    }

    /// Whether two clients are interchangeable.
    pub(super) fn are_alike(&self, one: usize, other: usize) -> bool {
        let is_in_the_same_place = !self.is_held_at_start || (one > 0 && other > 0);
        is_in_the_same_place
            && self.readers[one] == self.readers[other]
            && self.hints[one] == self.hints[other]
            && self.attempts[one] == self.attempts[other]
            && self.renewals[one] == self.renewals[other]
    }

    fn has_readers(&self) -> bool {
        self.readers.contains(&true) || self.may_downgrade
    }

    /// Whether the attempt is the attempt of a reader.
    pub(super) fn is_reader(&self, of: ModelAttempt) -> bool {
        self.readers[of.client] || of.number == DOWNGRADE
    }
}

/// Returns `full` if the full search was requested by `REDQUORUM_MODEL=full`, otherwise `quick`.
pub(super) fn full_or<T>(full: T, quick: T) -> T {
    if std::env::var_os("REDQUORUM_MODEL").is_some_and(|wish| wish == "full") { full } else { quick }
}
