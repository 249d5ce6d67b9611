//! The bounds of a search: its property, and the events that may happen.
//!
//! The functions of [`Bounds`] decide which messages and actions can matter to the property. A search
//! leaves the other messages and actions out, and so visits fewer states.

use crate::model::{
    CLIENTS, NODES,
    message::{DOWNGRADE, ModelAttempt},
};

/// A property that must hold in every state that a search reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelProperty {
    /// The property that two conflicting leases never exist at the same time.
    LeasesDoNotOverlap,
    /// The property that no token is granted twice, and that no token is smaller than a token
    /// granted before its attempt began.
    TokensAreUniqueAndGrow,
    /// The property that a verified lease had the largest granted token when the verification
    /// began.
    ProofsHold,
    /// The property that no key and no reader is left when all clients are idle and no message is
    /// in flight.
    NothingIsLeftBehind,
    /// The property that the key of a resource is shared exactly as long as a reader exists.
    KeysAgreeWithReaders,
    /// The property that no lease is granted between a lease that becomes a ticket and the lease that redeems the
    /// ticket, and that leases do not overlap and have growing tokens. If keys may expire at any moment, the property
    /// is only that no lease with a larger token than the ticket's was granted before the redemption began.
    TicketsPassLocksOn,
}

/// The property of a search, and the events that may happen, with their numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) property: ModelProperty,
    /// Whether a search begins with a lease of the first client, granted by two nodes. The request to
    /// the third node is still in flight.
    pub(super) is_held_at_start: bool,
    /// The clients that lock as readers. The other clients lock as writers.
    pub(super) readers: [bool; CLIENTS],
    /// Whether writers may downgrade.
    pub(super) may_downgrade: bool,
    /// Whether the first client may turn its lease into a ticket.
    pub(super) may_issue_ticket: bool,
    /// The clients that may redeem the ticket.
    pub(super) redeemers: [bool; CLIENTS],
    /// The clients that may lock.
    pub(super) contenders: [bool; CLIENTS],
    /// The number of attempts of each client.
    pub(super) attempts: [u8; CLIENTS],
    /// The number of renewal rounds of each lease, by client. If the property is `ProofsHold`, each
    /// round is a verification.
    pub(super) renewals: [u8; CLIENTS],
    /// The number of requests that may be executed twice.
    pub(super) duplicates: u8,
    /// The number of expiries at any moment. An expiry ends a key with all its readers, or one reader.
    pub(super) expiries: Expiries,
    /// The initial counters of the nodes. Each entry is an initial state of the search. The order of the nodes makes no
    /// difference.
    pub(super) starts: &'static [[u64; NODES]],
    /// The hint in the lock requests of each client, a lower bound of votes; 0 for no hint.
    pub(super) hints: [u64; CLIENTS],
    /// Whether a waiter that is no client of the model is in the wait queue of one node. If so,
    /// clients lock as newcomers at first, and that node refuses newcomers.
    pub(super) is_queued: bool,
    /// The number of retries by all clients together. In a retry, a client sends its lock again to
    /// each node that has refused. The repeated locks ignore wait queues and marks.
    pub(super) repeats: u8,
    /// The number of lost counters. The node keeps its other data.
    pub(super) losses: u8,
    /// Whether a node that has lost its counter resumes above all earlier values of the counter.
    pub(super) is_regained_above: bool,
    /// The number of crashes, in which a node forgets all data apart from its counter.
    pub(super) crashes: u8,
    /// The number of restarts, in which a node restores its state of an earlier moment.
    pub(super) restarts: u8,
    /// The timing. Without a timing, the clocks of the nodes stand still.
    pub(super) timing: Option<Timing>,
}

/// The largest number of keys that expire, or any number.
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

/// The timing in ticks, the same for all nodes and clients.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// The ttl of leases, which is also the largest ttl of the quorum.
    pub(super) ttl: u8,
    pub(super) attempt_timeout: u8,
    /// The tick at which a search ends.
    pub(super) horizon: u8,
}

impl Bounds {
    /// Returns bounds with one attempt of each client, and without faults other than delays and
    /// losses of messages.
    pub(super) const fn of(property: ModelProperty) -> Self {
        Self {
            property,
            is_held_at_start: false,
            readers: [false; CLIENTS],
            may_downgrade: false,
            may_issue_ticket: false,
            redeemers: [false; CLIENTS],
            contenders: [true; CLIENTS],
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

    /// Whether the property depends on tokens. Otherwise all counters stand still, so that there
    /// are far fewer states.
    pub(super) fn are_tokens_counted(&self) -> bool {
        matches!(self.property, ModelProperty::TokensAreUniqueAndGrow | ModelProperty::ProofsHold)
            || self.may_issue_ticket
    }

    /// Whether the property concerns only states in which every request has been delivered.
    ///
    /// Tombstones, and the choice of the nodes that are sent an unlock, matter only to such a
    /// property. For the other properties, a message may stay in flight for ever. Then a request that
    /// a tombstone refuses, and an unlock that is not sent, have the same effect as a message that
    /// stays in flight. A refusal only makes the client send no unlock to the node. Therefore refusals
    /// are delivered only for such a property, or if the client may retry at nodes that have refused.
    pub(super) fn is_all_delivered(&self) -> bool {
        self.property == ModelProperty::NothingIsLeftBehind
    }

    /// Whether the quorum of a renewal round matters: the quorum proves the lease, or extends its
    /// validity.
    pub(super) fn are_renewals_counted(&self) -> bool {
        self.property == ModelProperty::ProofsHold || self.timing.is_some()
    }

    /// Whether the rollback of a client's last attempt makes a difference. A rollback only deletes
    /// keys, which makes no difference if keys may expire at any moment.
    pub(super) fn is_last_rollback_relevant(&self) -> bool {
        self.expiries != Expiries::Any
    }

    /// Whether the arrival of an unlock makes a difference. An unlock only deletes keys, which
    /// makes no difference if keys may expire at any moment.
    pub(super) fn are_unlocks_relevant(&self) -> bool {
        // Searches without readers are small enough to include unlocks nevertheless.
        self.expiries != Expiries::Any || !self.has_readers()
    }

    /// Whether each answer is delivered at once or never. A later delivery would make no difference,
    /// because the next request of the client may be late instead.
    pub(super) fn are_answers_immediate(&self) -> bool {
        // Searches without readers are small enough to include later deliveries nevertheless.
        !self.is_all_delivered() && self.has_readers()
    }

    /// Whether two clients are interchangeable.
    pub(super) fn are_alike(&self, one: usize, other: usize) -> bool {
        let is_in_the_same_place = !self.is_held_at_start || (one > 0 && other > 0);
        is_in_the_same_place
            && self.readers[one] == self.readers[other]
            && self.redeemers[one] == self.redeemers[other]
            && self.contenders[one] == self.contenders[other]
            && self.hints[one] == self.hints[other]
            && self.attempts[one] == self.attempts[other]
            && self.renewals[one] == self.renewals[other]
    }

    fn has_readers(&self) -> bool {
        self.readers.contains(&true) || self.may_downgrade || self.may_issue_ticket
    }

    /// Whether keys last as long as leases, so that a key shows that no other lease was granted.
    pub(super) fn do_keys_last(&self) -> bool {
        self.timing.is_some() || self.expiries == Expiries::AtMost(0)
    }

    /// Whether this is the attempt of a reader.
    pub(super) fn is_reader(&self, of: ModelAttempt) -> bool {
        self.readers[of.client] || of.number == DOWNGRADE
    }
}

/// Whether the environment variable `REDQUORUM_MODEL` has the value `full`.
pub(super) fn is_full_search() -> bool {
    std::env::var_os("REDQUORUM_MODEL").is_some_and(|value| value == "full")
}

/// Returns `full` in a [full search](is_full_search), otherwise `quick`.
pub(super) fn full_or_quick<T>(full: T, quick: T) -> T {
    if is_full_search() { full } else { quick }
}
