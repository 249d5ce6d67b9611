//! How far a search goes.

/// What must hold in every state that a search reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Promise {
    /// Two clients never hold the resource at once.
    LeasesDoNotOverlap,
    /// No token is granted twice, and none that is below one granted before its attempt began.
    TokensAreUniqueAndGrow,
    /// Of a lease that was verified, no larger token had been granted when the verification began.
    ProofsHold,
    /// With nobody at work and nothing in flight, no key is left.
    NothingIsLeftBehind,
}

/// What may happen in a search, and how often. The rest cannot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) promise: Promise,
    /// Of each client.
    pub(super) attempts: [u8; super::CLIENTS],
    /// Renewal rounds of each lease; where proofs are searched, each of them is a verification.
    pub(super) renewals: u8,
    /// Requests that a node executes twice.
    pub(super) duplicates: u8,
    /// Whether a key may expire at any moment.
    pub(super) is_expiry_free: bool,
    /// By how much the counters of the nodes may differ at the start.
    pub(super) skew: u64,
    /// Whether a refused client tells the next node the largest counter it has seen.
    pub(super) are_hints_given: bool,
    /// Nodes that lose their counter, and nothing else.
    pub(super) losses: u8,
    /// Whether a counter that was lost comes back above all that it ever gave.
    pub(super) is_regained_above: bool,
    /// Nodes that forget everything.
    pub(super) crashes: u8,
    /// Without it the clocks of the nodes stand still.
    pub(super) timing: Option<Timing>,
}

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
    pub(super) const fn of(promise: Promise) -> Self {
        Self {
            promise,
            attempts: [1; super::CLIENTS],
            renewals: 0,
            duplicates: 0,
            is_expiry_free: false,
            skew: 0,
            are_hints_given: false,
            losses: 0,
            is_regained_above: false,
            crashes: 0,
            timing: None,
        }
    }

    /// Whether the promise speaks of tokens. Where it does not, all counters stand still: there are far fewer states.
    pub(super) fn are_tokens_counted(&self) -> bool {
        matches!(self.promise, Promise::TokensAreUniqueAndGrow | Promise::ProofsHold)
    }
}

/// The larger of two bounds if the whole search was asked for, with `REDQUORUM_MODEL=full`.
pub(super) fn full_or<T>(full: T, quick: T) -> T {
    if std::env::var_os("REDQUORUM_MODEL").is_some_and(|wish| wish == "full") { full } else { quick }
}
