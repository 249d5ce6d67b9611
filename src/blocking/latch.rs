//! Waiting until so many have arrived, for threads.

use std::time::Duration;

use crate::{blocking::runtime::Runtime, error::LatchError};

/// A latch, which opens when so many have arrived; see [`crate::Latch`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let quorum = redquorum::blocking::Quorum::in_memory(3)?;
/// let [one, other] = [quorum.latch("warm:7", 2), quorum.latch("warm:7", 2)];
/// one.arrive()?;
/// assert_eq!(other.arrived()?, 1);
/// other.arrive()?;
/// one.wait()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a latch does nothing until it is arrived at or waited for"]
pub struct Latch {
    latch: crate::Latch,
    runtime: Runtime,
}

impl Latch {
    pub(super) fn new(latch: crate::Latch, runtime: Runtime) -> Self {
        Self { latch, runtime }
    }

    /// As [`crate::Latch::kept_for`].
    pub fn kept_for(self, kept_for: Duration) -> Self {
        Self { latch: self.latch.kept_for(kept_for), ..self }
    }

    /// Arrives: done when a quorum of nodes keeps it. It waits for nobody.
    ///
    /// # Errors
    ///
    /// As [`crate::Latch::arrive`].
    pub fn arrive(&self) -> Result<(), LatchError> {
        self.runtime.wait(self.latch.arrive())
    }

    /// As [`arrive`](Self::arrive), by an id of the caller; see [`crate::Latch::arrive_as`].
    ///
    /// # Errors
    ///
    /// As [`crate::Latch::arrive_as`].
    pub fn arrive_as(&self, id: impl AsRef<[u8]>) -> Result<(), LatchError> {
        self.runtime.wait(self.latch.arrive_as(id))
    }

    /// Waits until it is open, for as long as a quorum of nodes can be asked.
    ///
    /// # Errors
    ///
    /// As [`crate::Latch::wait`].
    pub fn wait(&self) -> Result<(), LatchError> {
        self.runtime.wait(self.latch.wait())
    }

    /// Waits until it is open, at most for `wait`.
    ///
    /// # Errors
    ///
    /// As [`crate::Latch::wait_for`].
    pub fn wait_for(&self, wait: Duration) -> Result<(), LatchError> {
        self.runtime.wait(self.latch.wait_for(wait))
    }

    /// How many have arrived, as a quorum of nodes knew; see [`crate::Latch::arrived`].
    ///
    /// # Errors
    ///
    /// As [`crate::Latch::arrived`].
    pub fn arrived(&self) -> Result<u32, LatchError> {
        self.runtime.wait(self.latch.arrived())
    }
}
