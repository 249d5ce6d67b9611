//! The promises that a history is checked against.

use std::{fmt, time::Duration};

/// A promise of the lock, or of code built on the lock.
///
/// I1 to I8 are the numbers of the checks in `docs/SIMULATION.md`. I6 is checked by other tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Promise {
    /// I1: two leases on one resource never overlap, unless both leases only read the resource. Between a
    /// write lease and its downgrade to a read lease, or the redemption of its ticket, no other client gets a
    /// write lease.
    Exclusion,
    /// I2 and I3: a lease has a larger token than each lease on the resource that was granted before the
    /// attempt began, and no two leases on one resource have the same token. The tokens of two readers
    /// may be equal.
    Order,
    /// I4: a fenced register loses no accepted update.
    ///
    /// * An accepted write has no smaller token than an earlier accepted access.
    /// * An accepted read has no smaller token than an earlier accepted write.
    /// * A write does not depend on a stale value: no write of another writer is accepted between
    ///   the last accepted read of the writer and the write. A write whose writer has read nothing
    ///   depends on no value, and loses no update.
    ///
    /// Two accesses with tokens have the same writer if the tokens are equal. An access without a
    /// token has the same writer as every access of its process.
    Register,
    /// I5: no node keeps a key of an attempt that is over. `docs/SIMULATION.md` lists the exceptions.
    Residue,
    /// I7: no process waits for ever. In a simulation, the program of each process ends before the
    /// horizon, so a horizon must leave enough time after the faults.
    Liveness,
    /// I8: a re-entry into a lease returns the token of the lease.
    Reentry,
    /// A lease is shown as valid only between its grant and its end, and the loss of a lease is announced no
    /// later than its end.
    Honesty,
    /// A verification proves a lease only if no lease with a larger token had been granted when the
    /// verification began. For a resource that the lease only reads, only write leases with larger
    /// tokens count.
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

/// A set of promises.
///
/// If a fault breaks the assumption of one promise, the other promises still hold:
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
    /// All promises.
    pub const ALL: Self = Self { bits: u16::MAX, grace: Duration::ZERO };

    /// The empty set. A check reports only [malformed](super::Violation::Malformed) entries.
    pub const NONE: Self = Self { bits: 0, grace: Duration::ZERO };

    /// Adds a promise.
    #[must_use]
    pub const fn with(self, promise: Promise) -> Self {
        Self { bits: self.bits | bit(promise), ..self }
    }

    /// Removes a promise.
    #[must_use]
    pub const fn without(self, promise: Promise) -> Self {
        Self { bits: self.bits & !bit(promise), ..self }
    }

    /// Sets the time after the end of a lease within which its loss may be announced (default:
    /// zero).
    ///
    /// Histories from logs need a grace, because writing a log takes time. Histories of a simulation need
    /// none.
    #[must_use]
    pub const fn with_grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// Whether the set contains this promise.
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
    fn promises_can_be_removed_and_added_one_by_one() {
        let without = Promises::ALL.without(Promise::Exclusion).without(Promise::Proof);
        assert!(!without.contains(Promise::Exclusion) && !without.contains(Promise::Proof));
        assert!(without.contains(Promise::Order) && without.contains(Promise::Honesty));
        assert_eq!(without.with(Promise::Exclusion).with(Promise::Proof), Promises::ALL);
        assert!(!Promises::NONE.contains(Promise::Exclusion));
    }
}
