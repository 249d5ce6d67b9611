//! A register that a lock protects, and that checks fencing tokens.

use crate::values::{Fence, FencingToken, StaleToken};

/// A number with a fence, which refuses accesses under older leases.
///
/// A lock protects a store only if the store checks tokens in this way. Each access under a token, a
/// read or a write, *claims* the register for the token. Later accesses with a smaller token are
/// refused. If reads claimed nothing, a paused holder could write after the next holder has read, and
/// the next holder would continue with a stale value. An access with an equal token is accepted,
/// because one lease accesses the register more than once.
///
/// The claim of a reader refuses only writers with a smaller token, not readers, as in a [`Fence`].
///
/// An access without a token models careless code. The register never refuses such an access, so
/// updates may be lost.
///
/// # Examples
///
/// ```
/// use redquorum::{FencingToken, sim::register::Register};
///
/// let (paused, next) = (FencingToken::try_from(33_u64)?, FencingToken::try_from(34_u64)?);
/// let mut balance = Register::new(100);
/// assert_eq!(balance.read(paused)?, 100);
/// assert_eq!(balance.read(next)?, 100);
/// assert!(balance.write(paused, 150).is_err(), "34 has read already");
/// balance.write(next, 110)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Invariants
///
/// 1. The largest claimed token never falls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Register {
    value: u64,
    fence: Fence,
}

impl Register {
    /// Creates an unclaimed register with this value.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        Self { value, fence: Fence { writer: None, reader: None } }
    }

    /// Returns the value under the token of a writer. Claims the register.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] if an earlier access had a larger token.
    pub fn read(&mut self, token: FencingToken) -> Result<u64, StaleToken> {
        self.fence.write(token)?;
        Ok(self.value)
    }

    /// Returns the value under the token of a reader. Claims the register against writers.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] if an earlier writer had a larger token.
    pub fn read_shared(&mut self, token: FencingToken) -> Result<u64, StaleToken> {
        self.fence.read(token)?;
        Ok(self.value)
    }

    /// Writes the value under the token of a writer. Claims the register.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] if an earlier access had a larger token; the value is not written.
    pub fn write(&mut self, token: FencingToken, value: u64) -> Result<(), StaleToken> {
        self.fence.write(token)?;
        self.value = value;
        Ok(())
    }

    /// Returns the value without a check of a token. Claims nothing.
    #[must_use]
    pub const fn read_unfenced(&self) -> u64 {
        self.value
    }

    /// Writes the value without a check of a token. Claims nothing.
    pub const fn write_unfenced(&mut self, value: u64) {
        self.value = value;
    }

    /// Returns the largest token of an access so far.
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
    fn a_register_refuses_older_tokens_after_a_read() {
        let mut register = Register::new(1);
        assert_eq!(register.read(token(34)), Ok(1));
        assert!(register.write(token(33), 2).is_err());
        assert!(register.read(token(33)).is_err());
        assert_eq!((register.read_unfenced(), register.claimed()), (1, Some(token(34))));
    }

    #[test]
    fn a_lease_may_access_the_register_repeatedly() {
        let mut register = Register::default();
        register.write(token(5), 1).unwrap();
        register.write(token(5), 2).unwrap();
        assert_eq!(register.read(token(5)), Ok(2));
    }

    #[test]
    fn shared_reads_refuse_older_writers_and_no_readers() {
        let mut register = Register::new(1);
        assert_eq!(register.read_shared(token(35)), Ok(1));
        assert_eq!(register.read_shared(token(34)), Ok(1));
        assert!(register.write(token(34), 2).is_err());
        assert!(register.read(token(34)).is_err());
        register.write(token(36), 3).unwrap();
        assert!(register.read_shared(token(35)).is_err());
        assert_eq!(register.claimed(), Some(token(36)));
    }

    #[test]
    fn a_write_without_a_token_is_accepted_and_changes_no_claim() {
        let mut register = Register::default();
        register.write(token(5), 1).unwrap();
        register.write_unfenced(9);
        assert_eq!((register.read_unfenced(), register.claimed()), (9, Some(token(5))));
    }
}
