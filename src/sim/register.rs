//! A store that a lock protects, and that checks tokens.

use crate::values::{Fence, FencingToken};

/// A number that refuses a client with a smaller token than it has seen.
///
/// This is what a lock needs on the other side. The first access of a lease *claims* the register,
/// a read included: if only writes did, a holder that was paused could write after its successor
/// has read, and the successor would go on with a stale value. Tokens are compared with `>=`, since
/// one lease comes more than once.
///
/// Readers that share the lock refuse none but writers, as a [`Fence`] does it.
///
/// The accesses without a token are what careless code does. Nothing refuses them, and updates are
/// lost.
///
/// # Examples
///
/// ```
/// use redquorum::{FencingToken, sim::register::Register};
///
/// let (paused, next) = (FencingToken::try_from(33_u64)?, FencingToken::try_from(34_u64)?);
/// let mut balance = Register::new(100);
/// assert_eq!(balance.read(paused), Some(100));
/// assert_eq!(balance.read(next), Some(100));
/// assert!(!balance.write(paused, 150), "34 has read already");
/// assert!(balance.write(next, 110));
/// # Ok::<(), redquorum::error::InvalidToken>(())
/// ```
///
/// # Invariants
///
/// 1. The largest token seen never falls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Register {
    value: u64,
    fence: Fence,
}

impl Register {
    /// A register of this value, unclaimed.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        Self { value, fence: Fence { writer: None, reader: None } }
    }

    /// The value, or `None` if a larger token was here. Claims the register.
    pub fn read(&mut self, token: FencingToken) -> Option<u64> {
        self.fence.write(token).is_ok().then_some(self.value)
    }

    /// The value, for one that only reads, or `None` if one with a larger token may have written.
    /// Claims the register against writers.
    pub fn read_shared(&mut self, token: FencingToken) -> Option<u64> {
        self.fence.read(token).is_ok().then_some(self.value)
    }

    /// Whether the value was written, which it is unless a larger token was here. Claims the
    /// register.
    #[must_use = "a write under an old token is refused"]
    pub fn write(&mut self, token: FencingToken, value: u64) -> bool {
        let is_accepted = self.fence.write(token).is_ok();
        if is_accepted {
            self.value = value;
        }
        is_accepted
    }

    /// The value, for any client. Claims nothing.
    #[must_use]
    pub const fn read_unfenced(&self) -> u64 {
        self.value
    }

    /// Writes the value, for any client. Claims nothing.
    pub const fn write_unfenced(&mut self, value: u64) {
        self.value = value;
    }

    /// The largest token seen.
    #[must_use]
    pub fn claimed(&self) -> Option<FencingToken> {
        self.fence.writer.max(self.fence.reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(value: u64) -> FencingToken {
        FencingToken::new(value)
    }

    #[test]
    fn a_read_claims_the_register_against_older_writes() {
        let mut register = Register::new(1);
        assert_eq!(register.read(token(34)), Some(1));
        assert!(!register.write(token(33), 2));
        assert_eq!(register.read(token(33)), None);
        assert_eq!((register.read_unfenced(), register.claimed()), (1, Some(token(34))));
    }

    #[test]
    fn one_lease_may_come_more_than_once() {
        let mut register = Register::default();
        assert!(register.write(token(5), 1));
        assert!(register.write(token(5), 2));
        assert_eq!(register.read(token(5)), Some(2));
    }

    #[test]
    fn readers_that_share_it_refuse_older_writers_and_not_each_other() {
        let mut register = Register::new(1);
        assert_eq!(register.read_shared(token(35)), Some(1));
        assert_eq!(register.read_shared(token(34)), Some(1));
        assert!(!register.write(token(34), 2));
        assert_eq!(register.read(token(34)), None);
        assert!(register.write(token(36), 3));
        assert_eq!((register.read_shared(token(35)), register.claimed()), (None, Some(token(36))));
    }

    #[test]
    fn a_write_without_a_token_is_never_refused_and_claims_nothing() {
        let mut register = Register::default();
        assert!(register.write(token(5), 1));
        register.write_unfenced(9);
        assert_eq!((register.read_unfenced(), register.claimed()), (9, Some(token(5))));
    }
}
