//! Slots of a semaphore that only those use who count more permits.

use crate::{
    error::LockError,
    semaphore::{Semaphore, semaphore::MOST},
};

impl Semaphore {
    /// Which slots beyond the number of permits a quorum says are in use, or waited for: others count
    /// more permits, or did. It was so when the nodes answered. It asks about all numbers up to 1,024.
    ///
    /// # Errors
    ///
    /// As [`available`](Self::available).
    ///
    /// # Cancel safety
    ///
    /// It changes nothing.
    pub async fn in_use_beyond(&self) -> Result<Vec<usize>, LockError> {
        let count = self.choice.offered.as_ref().map_or(0, |offered| offered.count);
        let seen = self.choice.seen(count..MOST as usize).await?;
        let taken = seen.iter().enumerate().filter(|(_, seen)| seen.taken >= seen.needed);
        Ok(taken.map(|(index, _)| count + index).collect())
    }
}
