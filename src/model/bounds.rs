//! How far a search goes.

use crate::model::{
    CLIENTS, NODES,
    message::{AttemptId, DOWNGRADE},
};

/// What must hold in every state that a search reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelProperty {
    /// Two clients never hold the resource at once.
    LeasesDoNotOverlap,
    /// No token is granted twice, and none that is below one granted before its attempt began.
    TokensAreUniqueAndGrow,
    /// Of a lease that was verified, no larger token had been granted when the verification began.
    ProofsHold,
    /// With nobody at work and nothing in flight, no key is left, and no reader.
    NothingIsLeftBehind,
    /// The key of a resource says that it is shared as long as there is a reader, and no longer.
    KeysAgreeWithReaders,
}

/// What may happen in a search, and how often. The rest cannot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) property: ModelProperty,
    /// Whether a search begins with the first client holding the resource, its votes from two nodes
    /// just heard.
    pub(super) is_held_at_start: bool,
    /// Which clients share the resource with each other. The others have it exclusively.
    pub(super) readers: [bool; CLIENTS],
    /// Whether writers may go on as readers.
    pub(super) may_downgrade: bool,
    /// Of each client.
    pub(super) attempts: [u8; CLIENTS],
    /// Renewal rounds of each lease, by client; where proofs are searched, each of them is a
    /// verification.
    pub(super) renewals: [u8; CLIENTS],
    /// Requests that a node executes twice.
    pub(super) duplicates: u8,
    /// Keys, and single readers, that expire, at any moment.
    pub(super) expiries: Expiries,
    /// The counters of the nodes at the start, one search from each. Nodes can change places.
    pub(super) starts: &'static [[u64; NODES]],
    /// What each client tells the nodes of counters that it has seen, or 0.
    pub(super) hints: [u64; CLIENTS],
    /// Whether somebody else is queued at one of the nodes. Then clients ask as newcomers first,
    /// which it refuses.
    pub(super) is_queued: bool,
    /// How often a client asks nodes again that have refused, as one whose turn it is.
    pub(super) repeats: u8,
    /// Nodes that lose their counter, and nothing else.
    pub(super) losses: u8,
    /// Whether a counter that was lost comes back above all that it ever gave.
    pub(super) is_regained_above: bool,
    /// Nodes that forget everything.
    pub(super) crashes: u8,
    /// Nodes that come back with what they had at some moment before.
    pub(super) restarts: u8,
    /// Without it the clocks of the nodes stand still.
    pub(super) timing: Option<Timing>,
}

/// How many keys expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Expiries {
    AtMost(u8),
    Any,
}

/// All counters are the same.
pub(super) const IN_STEP: &[[u64; NODES]] = &[[0, 0, 0]];
/// Counters differ by one at most.
pub(super) const NEARLY_IN_STEP: &[[u64; NODES]] = &[[0, 0, 0], [0, 0, 1], [0, 1, 1]];
/// Counters differ by two at most.
pub(super) const OUT_OF_STEP: &[[u64; NODES]] =
    &[[0, 0, 0], [0, 0, 1], [0, 1, 1], [0, 0, 2], [0, 1, 2], [0, 2, 2]];

/// Time in ticks, the same for all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// Also the longest that a quorum of the model allows.
    pub(super) ttl: u8,
    pub(super) attempt_timeout: u8,
    /// The tick at which a search ends.
    pub(super) horizon: u8,
}

impl Bounds {
    /// One attempt of each client, and nothing that goes wrong but delays and losses of messages.
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

    /// Whether the property speaks of tokens. Where it does not, all counters stand still: there are
    /// far fewer states.
    pub(super) fn are_tokens_counted(&self) -> bool {
        matches!(self.property, ModelProperty::TokensAreUniqueAndGrow | ModelProperty::ProofsHold)
    }

    /// Whether everything has to be delivered in the end. Only there do tombstones matter, and whom
    /// an unlock is sent to: elsewhere a request that a tombstone refuses, and an unlock that is
    /// not sent, are as if they were never delivered, and that is searched anyway. A refusal acts like
    /// an unlock that is not delivered, too, so it is heard only there, or where it carries a hint.
    pub(super) fn is_all_delivered(&self) -> bool {
        self.property == ModelProperty::NothingIsLeftBehind
    }

    /// Whether anybody asks what a quorum said to a renewal.
    pub(super) fn are_renewals_counted(&self) -> bool {
        self.property == ModelProperty::ProofsHold || self.timing.is_some()
    }

    /// Whether it makes a difference that a client gives up its last attempt. It frees keys, which
    /// adds nothing where they may expire anyway.
    pub(super) fn is_last_rollback_relevant(&self) -> bool {
        self.expiries != Expiries::Any
    }

    /// Whether it makes a difference that an unlock arrives. It frees keys, which adds nothing where
    /// they may expire anyway.
    pub(super) fn are_unlocks_relevant(&self) -> bool {
        // Searches without readers are small enough to see it.
        self.expiries != Expiries::Any || !self.has_readers()
    }

    /// Whether an answer is heard at once or never. To hear it later makes no difference: what a
    /// client does then may be late itself.
    pub(super) fn are_answers_immediate(&self) -> bool {
        // Searches without readers are small enough to see it.
        !self.is_all_delivered() && self.has_readers()
    }

    /// Whether two clients can change places.
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

    /// Whether the attempt is made by a reader.
    pub(super) fn is_reader(&self, of: AttemptId) -> bool {
        self.readers[of.client] || of.number == DOWNGRADE
    }
}

/// What the full search takes if it was asked for, with `REDQUORUM_MODEL=full`.
pub(super) fn full_or<T>(full: T, quick: T) -> T {
    if std::env::var_os("REDQUORUM_MODEL").is_some_and(|wish| wish == "full") { full } else { quick }
}
