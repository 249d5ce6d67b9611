//! Several permits at once.

use std::{pin::pin, time::Duration};

use futures::future::{Either, join_all, select, try_join_all};

use crate::{
    acquire::any_of::QUEUES_JOINED,
    error::{Error, out_of_range},
    mutation::{self, Mutation},
    node::names,
    semaphore::{Permit, Semaphore},
    values::Resource,
};

/// The largest number of permits that are acquired at once.
const MAX_PERMITS_AT_ONCE: usize = 64;

impl Semaphore {
    /// Acquires `permits` permits (1 to 64, and no more than the semaphore has), all or none, and waits until it has them.
    ///
    /// Clients that acquire several permits do so one after the other, in the order of
    /// [`RedLock::lock`](crate::RedLock::lock): each keeps the permits that it has until it has them all. So they do not wait
    /// for each other in a circle, and a client that wants many permits delays the clients behind it. Clients that acquire
    /// a single permit take part as ever.
    ///
    /// A caller that has a permit of this semaphore must not wait for more permits by this call, because it may wait for its
    /// own. A permit that ends while the rest is waited for is acquired anew. Leases that are [not
    /// renewed](crate::LockOptions::without_renewal) may end again and again, if the rest takes longer than they last.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); [`Error::Config`] (`OutOfRange`) if the number cannot be.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire): the permits that it has are released.
    pub async fn acquire_many(&self, permits: u32) -> Result<Vec<Permit>, Error> {
        let (wanted, name) = self.checked_number(permits)?;
        if mutation::is_on(Mutation::CollectAtOnce) {
            return self.collect(wanted).await;
        }
        let turn = self.request.singleton_lock(names::many(&name), self.request.settings.clone());
        loop {
            let turn = turn.lock().await?;
            tokio::select! {
                biased;
                acquired = self.collect(wanted) => return acquired,
                // Another client collects by now: two clients that keep what they have might wait for each other.
                _ = turn.lost() => {}
            }
        }
    }

    /// As [`acquire_many`](Self::acquire_many), for at most `wait`: `None` if there were fewer permits for all that time.
    /// Before it returns `None`, the call asks the nodes once more, for at most a node timeout: whether a quorum answers.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many); [`Error::NoQuorum`] if no quorum answers when the time is over.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_many`](Self::acquire_many).
    pub async fn try_acquire_many_for(
        &self,
        permits: u32,
        wait: Duration,
    ) -> Result<Option<Vec<Permit>>, Error> {
        let context = &*self.request.client.context;
        let deadline = context.now() + wait;
        let acquired =
            match select(pin!(self.acquire_many(permits)), pin!(context.clock.sleep_until(deadline))).await {
                Either::Left((acquired, _)) => Some(acquired),
                Either::Right(_) => None,
            };
        // The permits that the call had are released by now.
        match acquired {
            Some(acquired) => acquired.map(Some),
            // Whether other clients have the permits, or no quorum answers, the nodes have to say.
            None => self.available_permits().await.map(|_| None),
        }
    }

    /// Makes one attempt for `permits` permits: `None` if fewer are free, or another client is acquiring several.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire); [`Error::Config`] (`OutOfRange`) if the number cannot be.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_many`](Self::acquire_many).
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Option<Vec<Permit>>, Error> {
        let (wanted, name) = self.checked_number(permits)?;
        let turn = self.request.singleton_lock(names::many(&name), self.request.settings.clone());
        let Some(_turn) = turn.try_lock().await? else { return Ok(None) };
        let mut permits: Vec<Permit> = Vec::with_capacity(wanted);
        while permits.len() < wanted {
            // Attempts at once may refuse each other a slot, so a round that acquires any is followed by another.
            let before = permits.len();
            for attempt in join_all((before..wanted).map(|_| self.try_acquire())).await {
                permits.extend(attempt?);
            }
            if permits.len() == before {
                return Ok(None);
            }
        }
        permits.iter().try_for_each(|permit| permit.ensure())?;
        Ok(Some(permits))
    }

    /// The number as a size, and the name of the semaphore.
    fn checked_number(&self, permits: u32) -> Result<(usize, Resource), Error> {
        let candidates = self.request.candidates.clone()?;
        let (wanted, most) = (permits as usize, MAX_PERMITS_AT_ONCE.min(candidates.count));
        if wanted == 0 || wanted > most {
            return Err(out_of_range("permits at once", permits, format!("1 to {most}")).into());
        }
        Ok((wanted, candidates.name))
    }

    async fn collect(&self, wanted: usize) -> Result<Vec<Permit>, Error> {
        // In three queues, the last ones would mostly wait for what the first ones have.
        let mut each = self.clone();
        each.request.queues = (MAX_PERMITS_AT_ONCE / wanted).max(QUEUES_JOINED);
        let mut permits = Vec::with_capacity(wanted);
        while permits.len() < wanted {
            let missing = (permits.len()..wanted).map(|_| each.acquire());
            permits.extend(try_join_all(missing).await?);
            permits.retain(|permit: &Permit| permit.is_valid());
        }
        Ok(permits)
    }
}
