//! The number by which a store tells later leases from earlier ones.

use std::fmt;

/// A number that grows with every lease on a resource: what is protected by the lock should refuse
/// any write that carries a smaller one than it has seen.
///
/// Unique and strictly increasing per resource in real-time order, without any assumption about
/// clocks as long as the nodes remember their counters. Tokens of different resources, or of
/// different quorums, are not comparable. Always below 2^53, so it survives JSON and `f64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    pub(crate) const fn new(value: u64) -> Self {
        Self(value)
    }

    /// A token of this number, to feed a [`History`](crate::sim::history::History) from a log, and
    /// for tests of stores. Nothing was locked for it.
    #[cfg(feature = "sim")]
    #[must_use]
    pub const fn from_u64(value: u64) -> Self {
        Self::new(value)
    }

    /// The token as a number.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

impl From<FencingToken> for i64 {
    fn from(token: FencingToken) -> Self {
        // Below 2^53 by the nodes' own rule.
        Self::try_from(token.0).unwrap_or(Self::MAX)
    }
}
