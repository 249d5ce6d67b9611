//! So many permits at a time.

use std::{
    fmt,
    ops::Deref,
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{
    acquire::any_of::{QUEUES, Surplus},
    config::LockOptions,
    error::{ConfigError, LockError, RenewError, RunError, UnlockError},
    lease::Unlocked,
    lock::{
        RedLock,
        client::Client,
        closure::{self, RunOutput},
        guard::{LockGuard, Verification},
        lease::Lease,
    },
    mutex::lock,
    node::names,
    quorum::Quorum,
    semaphore::choice::{Choice, Offered},
    values::{FencingToken, Resource},
};

/// A semaphore has so many permits, at most.
pub(super) const MOST: u32 = 1_024;

/// A semaphore: at most so many permits are valid at a time among all clients of the quorum, under
/// the assumptions of the [crate's promises](crate#what-is-promised-and-on-what-it-rests).
///
/// A permit is an ordinary lease on one of the semaphore's *slots*, which are numbered from 0. So it
/// is renewed, lost and fenced as every lease is, and no node counts permits: with as many at each
/// of three nodes, two of three votes would admit half as many again.
///
/// The number of permits is the caller's, as in tokio. Where callers differ, there are never more
/// than the largest number says; one that finds its slots taken and others in use beyond them logs a
/// warning, once. To change it, roll out the new number; a slot beyond a smaller number is free once
/// its permit ends.
///
/// A client that finds no slot free waits in the queues of three slots, drawn at random, or of all if
/// there are fewer. After the [first poll](LockOptions::polls) it also takes its turn to look out for all
/// the others: one client at a time does so, and the rest of them sleep. Between those that wait for the
/// same slots the order is that of [`RedLock::lock`]. Between those that wait for different slots there is
/// none: with more slots than three, one that comes later may be served earlier, again and again.
///
/// Nobody re-enters a permit. Two clients that take one permit after the other may wait for each
/// other: [`acquire_many`](Semaphore::acquire_many) is for those. A lock's
/// [`max_hold`](LockOptions::max_hold) bounds how long a permit is had.
///
/// Keep the semaphore, rather than make a new one for each permit: it begins with the slot that was
/// released last, which is most often free.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let quorum = redquorum::Quorum::in_memory(3)?;
/// let gpus = quorum.semaphore("gpu", 2);
/// let [one, other] = [gpus.acquire().await?, gpus.acquire().await?];
/// assert!(gpus.try_acquire().await?.is_none());
/// one.unlock().await?;
/// assert_eq!(gpus.available().await?, 1);
/// # drop(other);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a semaphore does nothing until `acquire`, `try_acquire` or `try_acquire_for` is called"]
pub struct Semaphore {
    pub(super) choice: Choice,
    slots: Slots,
}

/// With which slot to begin.
type Slots = Arc<Mutex<FirstSlots>>;

#[derive(Debug)]
struct FirstSlots {
    /// Those that this semaphore has released, the last one last.
    released: Vec<usize>,
    /// The next, where none was released, so that its tasks are not in each other's way.
    next: usize,
}

/// A permit of a [`Semaphore`], for as long as it is valid and this lives. What it shows of the lease
/// are the methods of [`Lease`]; dropping it unlocks as dropping a [`LockGuard`] does.
///
/// A program that writes to a store under a permit has the store keep one row for each slot: it
/// refuses a slot that is not below the number of permits, and a [token](SlotToken) below the one
/// that the slot's row has. Then at most as many late writers get through as there are slots, each in
/// its own row.
#[must_use = "dropping a permit releases it at once: bind it to a name, `_` is none"]
pub struct Permit {
    guard: LockGuard,
    slot: HeldSlot,
}

/// A slot, which its semaphore remembers when this is dropped.
struct HeldSlot {
    index: usize,
    slots: Slots,
}

/// The fencing token of a permit. Tokens of one slot grow; those of different slots say nothing of
/// each other, and so have no order here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SlotToken {
    /// The slot, from 0.
    pub slot: usize,
    /// The token, to be compared with others of this slot alone.
    pub token: FencingToken,
}

impl Quorum {
    /// A semaphore with so many permits (1 to 1,024), with the quorum's settings; nothing is sent yet.
    ///
    /// A name or a number that cannot be is an error of the first use. The name is one of semaphores
    /// alone: a lock of the same name has nothing to do with it.
    pub fn semaphore(&self, name: impl AsRef<[u8]>, permits: u32) -> Semaphore {
        Semaphore::new(Arc::clone(self.client()), Resource::new(name).map_err(ConfigError::from), permits)
    }
}

impl Semaphore {
    pub(crate) fn new(client: Arc<Client>, name: Result<Resource, ConfigError>, permits: u32) -> Self {
        let offered = name.and_then(|name| offered(name, permits));
        let next = client.environment.some_of(permits as usize, 1).first().copied().unwrap_or_default();
        let choice = Choice { client, offered, settings: LockOptions::new(), queues: QUEUES };
        Self { choice, slots: Arc::new(Mutex::new(FirstSlots { released: Vec::new(), next })) }
    }

    /// Sets these options; what they leave open stays as it was.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.choice.settings = options.or(self.choice.settings);
        self
    }

    /// As [`LockOptions::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        self.options(LockOptions::new().ttl(ttl))
    }

    /// Acquires a permit, waiting for as long as there is none.
    ///
    /// # Errors
    ///
    /// As [`RedLock::lock`]; [`ConfigError::Permits`] beside.
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`], at each of the slots.
    pub async fn acquire(&self) -> Result<Permit, LockError> {
        let locked = self.choice.lock(self.first(), None).await?;
        Ok(self.permit(locked))
    }

    /// Acquires a permit if that takes no longer than `wait`.
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`] after `wait`; otherwise as [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire_for(&self, wait: Duration) -> Result<Permit, LockError> {
        let locked = self.choice.lock(self.first(), Some(wait)).await?;
        Ok(self.permit(locked))
    }

    /// Makes one attempt, at one slot and then at those that a node says are free: `None` if there
    /// is no permit, or others come first.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock`]; [`ConfigError::Permits`] beside.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Permit>, LockError> {
        Ok(self.choice.try_lock(self.first()).await?.map(|locked| self.permit(locked)))
    }

    /// As [`RedLock::run`], with a permit; the closure is told its slot, too.
    ///
    /// # Errors
    ///
    /// As [`RedLock::run`].
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::run`].
    pub async fn run<T>(
        &self,
        work: impl AsyncFnOnce(Lease, SlotToken) -> T,
    ) -> Result<RunOutput<T>, RunError> {
        let permit = self.acquire().await?;
        let token = permit.slot_token();
        let Permit { guard, slot } = permit;
        let done = closure::run(guard, async |lease| work(lease, token).await).await;
        drop(slot);
        done
    }

    /// How many slots a quorum says are free, and not waited for. It was so when the nodes answered.
    ///
    /// # Errors
    ///
    /// [`LockError::NoQuorum`] if fewer nodes than a quorum answered within a node timeout;
    /// [`LockError::Config`] and [`LockError::Closed`] as for [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// It changes nothing.
    pub async fn available(&self) -> Result<usize, LockError> {
        self.choice.vacant().await
    }

    /// The lock that is one of its slots, to be [inspected](RedLock::inspect) or
    /// [unlocked by force](RedLock::force_unlock).
    ///
    /// A slot that is not below the number of permits is an error of its first use.
    pub fn slot(&self, index: usize) -> RedLock {
        let slot = self.choice.offered.clone().and_then(|Offered { count, resource_at, .. }| {
            let slot = (index < count).then(|| resource_at(index));
            slot.ok_or(ConfigError::Slot { given: index, permits: count })
        });
        RedLock::new(Arc::clone(&self.choice.client), slot).options(self.choice.settings)
    }

    fn first(&self) -> Option<usize> {
        let count = self.choice.offered.as_ref().ok()?.count;
        let mut slots = lock(&self.slots);
        slots.released.pop().or_else(|| {
            slots.next = (slots.next + 1) % count;
            Some(slots.next)
        })
    }

    fn permit(&self, (index, guard): (usize, LockGuard)) -> Permit {
        Permit { guard, slot: HeldSlot { index, slots: Arc::clone(&self.slots) } }
    }
}

impl Permit {
    /// The slot, from 0.
    #[must_use]
    pub fn slot(&self) -> usize {
        self.slot.index
    }

    /// The slot and its token, for a store that refuses late writers.
    #[must_use]
    pub fn slot_token(&self) -> SlotToken {
        SlotToken { slot: self.slot.index, token: self.guard.fencing_token() }
    }

    /// The lease, to be looked at by other tasks. It does not keep it.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.guard.lease()
    }

    /// As [`LockGuard::renew`].
    ///
    /// # Errors
    ///
    /// As [`LockGuard::renew`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::renew`].
    pub async fn renew(&self) -> Result<(), RenewError> {
        self.guard.renew().await
    }

    /// As [`LockGuard::verify`], of the slot.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::verify`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::verify`].
    pub async fn verify(&self) -> Result<Verification, RenewError> {
        self.guard.verify().await
    }

    /// As [`LockGuard::unlock`].
    ///
    /// # Errors
    ///
    /// As [`LockGuard::unlock`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::unlock`].
    pub async fn unlock(self) -> Result<Unlocked, UnlockError> {
        let Self { guard, slot } = self;
        let unlocked = guard.unlock().await;
        drop(slot);
        unlocked
    }
}

impl Deref for Permit {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.guard
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("slot", &self.slot.index).field("guard", &self.guard).finish()
    }
}

impl Drop for HeldSlot {
    fn drop(&mut self) {
        let mut slots = lock(&self.slots);
        slots.released.retain(|index| *index != self.index);
        slots.released.push(self.index);
    }
}

fn offered(name: Resource, permits: u32) -> Result<Offered, ConfigError> {
    if permits == 0 || permits > MOST {
        return Err(ConfigError::Permits { given: permits, most: MOST });
    }
    let (semaphore, all) = (name.clone(), name.clone());
    let resource_at = move |index| names::slot(&semaphore, index);
    let surplus = Some(Arc::new(Surplus::below(MOST as usize)));
    Ok(Offered { name, all, count: permits as usize, resource_at: Arc::new(resource_at), surplus })
}
