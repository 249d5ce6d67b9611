//! What a history is held to.

use std::{fmt, time::Duration};

/// One of the promises of the lock, or of what was built on it.
///
/// Numbers are those of the checks, I1 to I8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Promise {
    /// I1: two leases on one resource never overlap, unless both only read it; and while one is
    /// downgraded, nobody else writes.
    Exclusion,
    /// I2 and I3: tokens grow from a lease on a resource to any attempt that begins after its
    /// grant, and no two leases have the same. From reader to reader they may stay the same.
    Order,
    /// I4: a fenced register loses no accepted update.
    ///
    /// An accepted write must not carry a smaller token than an accepted access before it, nor an
    /// accepted read than an accepted write. And what a write builds on must not be stale: no
    /// accepted write of another writer may lie between it and its writer's last accepted read of
    /// the register. Accesses with tokens are of the same writer if the tokens are equal; an access
    /// without a token is of the same writer as any other of its process. A write whose writer has
    /// read nothing builds on nothing and loses nothing.
    Register,
    /// I5: no key of an attempt that is over stays on a node.
    Residue,
    /// I7: once all is calm, nobody waits for ever.
    Liveness,
    /// I8: a process that enters its lease again is shown the token of the lease.
    Reentry,
    /// A lease looks valid only between its grant and its end, and its loss is announced no later
    /// than its end.
    Honesty,
    /// When a verification that proves began, no lease with a larger token had been granted; on what
    /// is only read, no writer.
    Proof,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Exclusion => "exclusion",
            Self::Order => "order",
            Self::Register => "register",
            Self::Residue => "residue",
            Self::Liveness => "liveness",
            Self::Reentry => "reentry",
            Self::Honesty => "honesty",
            Self::Proof => "proof",
        })
    }
}

/// A set of promises to hold a history to.
///
/// Where a fault breaks the assumption of one of them, the others still have to be kept:
///
/// ```
/// use redquorum::sim::{Promise, Promises};
///
/// let despite_stepping_clocks = Promises::ALL.without(Promise::Exclusion);
/// assert!(despite_stepping_clocks.contains(Promise::Order));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    bits: u16,
    grace: Duration,
}

impl Promises {
    /// All of them.
    pub const ALL: Self = Self { bits: u16::MAX, grace: Duration::ZERO };

    /// None of them: only [malformed](super::Violation::Malformed) entries are found.
    pub const NONE: Self = Self { bits: 0, grace: Duration::ZERO };

    /// These, and this one.
    #[must_use]
    pub const fn with(self, promise: Promise) -> Self {
        Self { bits: self.bits | bit(promise), ..self }
    }

    /// These, but for this one.
    #[must_use]
    pub const fn without(self, promise: Promise) -> Self {
        Self { bits: self.bits & !bit(promise), ..self }
    }

    /// How much later than the end of a lease its loss may be announced. Zero unless set.
    ///
    /// For histories from logs, whose writers take a moment; a simulation needs none.
    #[must_use]
    pub const fn with_grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// Whether this one is among them.
    #[must_use]
    pub const fn contains(&self, promise: Promise) -> bool {
        self.bits & bit(promise) != 0
    }

    pub(super) const fn grace(&self) -> Duration {
        self.grace
    }
}

const fn bit(promise: Promise) -> u16 {
    1 << promise as u16
}

impl Default for Promises {
    fn default() -> Self {
        Self::ALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_are_taken_out_and_put_back_one_by_one() {
        let without = Promises::ALL.without(Promise::Exclusion).without(Promise::Proof);
        assert!(!without.contains(Promise::Exclusion) && !without.contains(Promise::Proof));
        assert!(without.contains(Promise::Order) && without.contains(Promise::Honesty));
        assert_eq!(without.with(Promise::Exclusion).with(Promise::Proof), Promises::ALL);
        assert!(!Promises::NONE.contains(Promise::Exclusion));
    }
}
