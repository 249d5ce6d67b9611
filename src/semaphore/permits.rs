//! Several permits at once.

use futures::future::try_join_all;

use crate::{
    acquire::any_of::QUEUES,
    error::{ConfigError, LockError},
    mutation::{self, Mutation},
    node::names,
    semaphore::{Permit, Semaphore},
};

/// So many permits are acquired at once, at most.
const MOST: usize = 64;

impl Semaphore {
    /// Acquires so many permits (1 to 64, and no more than there are), waiting until it has them all.
    ///
    /// Those who acquire several do so one after the other, in the order of
    /// [`RedLock::lock`](crate::RedLock::lock): each keeps the permits that it has until it has as many
    /// as it wants. So they do not wait for each other in a circle; and one that wants many delays
    /// those behind it. Who acquires a single permit takes part as ever.
    ///
    /// Who has a permit of this semaphore must not wait for more by this: it may be one of those
    /// that it waits for. A permit that ends while the rest is waited for is acquired anew; leases
    /// that are [not renewed](crate::LockOptions::without_renewal) may end again and again, if the
    /// rest takes longer than they last.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); [`ConfigError::PermitsAtOnce`] beside.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire): what it has is given back.
    pub async fn acquire_many(&self, permits: u32) -> Result<Vec<Permit>, LockError> {
        let offered = self.choice.offered.clone()?;
        let (wanted, most) = (permits as usize, MOST.min(offered.count));
        if wanted == 0 || wanted > most {
            let most = u32::try_from(most).unwrap_or(u32::MAX);
            return Err(ConfigError::PermitsAtOnce { given: permits, most }.into());
        }
        if mutation::is_on(Mutation::CollectAtOnce) {
            return self.collect(wanted).await;
        }
        let turn = self.choice.lock_for_one(names::many(&offered.name), self.choice.settings);
        loop {
            let turn = turn.lock(None).await?;
            tokio::select! {
                biased;
                acquired = self.collect(wanted) => return acquired,
                // Another collects by now: two that keep what they have might wait for each other.
                _ = turn.lost() => {}
            }
        }
    }

    async fn collect(&self, wanted: usize) -> Result<Vec<Permit>, LockError> {
        // In three queues, the last ones would mostly wait for what the first ones have.
        let mut each = self.clone();
        each.choice.queues = (MOST / wanted).max(QUEUES);
        let mut permits = Vec::with_capacity(wanted);
        while permits.len() < wanted {
            let missing = (permits.len()..wanted).map(|_| each.acquire());
            permits.extend(try_join_all(missing).await?);
            permits.retain(|permit: &Permit| permit.is_valid());
        }
        Ok(permits)
    }
}
