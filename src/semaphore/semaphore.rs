//! The semaphore and its permits. A permit is a lease on one of the slots.

use std::{
    fmt,
    ops::Deref,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{
    FutureExt,
    future::{Either, join_all, select, try_join_all},
};

use crate::{
    acquire::any_of::QUEUES_JOINED,
    config::LockOptions,
    error::{ConfigError, Error, out_of_range},
    lock::{Lease, LockGuard, client::Client, lock_request::LockRequest},
    mutation::{self, Mutation},
    mutex::lock,
    node::names,
    process::HomeProcess,
    quorum::Quorum,
    semaphore::any_of_request::{AnyOfRequest, Candidates},
    values::{NodeReplies, Resource},
};

/// The largest number of permits of a semaphore.
const MAX_PERMITS: u32 = 1_024;

/// The largest number of permits that one call acquires.
const MAX_PERMITS_AT_ONCE: usize = 64;

/// A semaphore: a number of permits, which all clients of the quorum share. At most this number of permits is valid at
/// a time, under the assumptions of the [crate's promises](crate#what-is-promised-and-on-what-it-rests).
///
/// Each permit is an ordinary lease on one of the *slots* of the semaphore, which are numbered from 0. Therefore a
/// permit is renewed, lost and fenced as every lease is. No node counts permits: if each of three nodes admitted *n*
/// permits, and a permit needed the votes of two nodes, 1.5 *n* permits would be valid.
///
/// Each program sets the number of permits, as with the semaphore of tokio, and no node enforces the number. If the
/// numbers of several programs differ, permits up to the largest number may be valid, and never more. Two nodes record
/// the number that the last client has used. Once a minute, a call that acquires compares this number with its own, and logs
/// a warning at the first difference. [`count_mismatch`](Self::count_mismatch) returns the other number. To change the
/// number, deploy the new number to all programs. Until then, and for ten minutes after the last call with the old
/// number, clients warn. After a change to a smaller number, a slot beyond that number is no longer used once its permit
/// ends. The command `redquorum inspect` shows slots in use beyond a number.
///
/// A call that finds no vacant slot waits in the queues of two random slots, or of all slots if there are at most
/// three. If there are more than three slots, a waiting call can acquire the remaining slots in two ways:
///
/// * After some 500 ms, the call also competes for the role of the *release watcher*. One waiting call at a time has
///   this role, and listens for the release of every slot.
/// * The call queries all slots once in each [longest poll interval](LockOptions::poll_interval). Therefore a waiter
///   takes a free slot within 8 s by default.
///
/// Clients that wait for the same slots get permits in the order of [`RedLock::lock`](crate::RedLock::lock). Clients
/// that wait for different slots have no order: with more than three slots, later clients may repeatedly get permits
/// earlier.
///
/// A permit is never re-entered. Clients that each acquire several permits one after the other may wait for each other
/// for ever. [`acquire_many`](Semaphore::acquire_many) prevents this. The option
/// [`hold_at_most`](LockOptions::hold_at_most) limits the time for which a permit is valid.
///
/// A program should use one semaphore value for all of its permits. The value first attempts the slot that it released
/// last, which is usually vacant.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let quorum = redquorum::Quorum::in_memory(3)?;
/// let gpus = quorum.semaphore("gpu", 2);
/// let [one, other] = [gpus.acquire().await?, gpus.acquire().await?];
/// assert!(gpus.try_acquire().await?.is_none());
/// one.release().await?;
/// assert_eq!(gpus.available_permits().await?, 1);
/// # drop(other);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a semaphore does nothing until `acquire`, `try_acquire` or `try_acquire_for` is called"]
pub struct Semaphore {
    pub(super) request: AnyOfRequest,
    slots: Slots,
}

/// The record of the slots to attempt first. A semaphore, its clones and its permits share one record.
type Slots = Arc<Mutex<FirstSlots>>;

#[derive(Debug)]
struct FirstSlots {
    /// The slots that this semaphore has released, the latest last.
    released: Vec<usize>,
    /// The slot that was last chosen for a call while `released` was empty. The next choice is the following slot, so
    /// that tasks of this client do not split votes.
    next: usize,
}

/// A permit of a [`Semaphore`], for as long as its lease is valid and this value lives. The permit derefs to [`Lease`],
/// which has the methods of the lease. The drop releases the permit, as the drop of a [`LockGuard`] unlocks.
///
/// Tokens of different slots are not comparable. Therefore a store that is written under permits needs a row with a
/// token for each slot. The store has to refuse a write for a slot that is not below the number of permits, and a write
/// whose token is below the token in the row of the slot.
#[must_use = "dropping a permit releases it at once: bind it to a name, `_` is none"]
pub struct Permit {
    guard: LockGuard,
    slot: SlotReturn,
}

/// The slot of a permit. The drop records the slot as released, so that the semaphore attempts the slot first.
struct SlotReturn {
    index: usize,
    slots: Slots,
    home: HomeProcess,
}

impl Quorum {
    /// Returns a semaphore of `permits` permits (1 to 1,024), with the quorum's settings. Nothing is sent yet.
    ///
    /// If the name or the number is invalid, the first call returns an error. A lock and a semaphore of the same name
    /// are independent.
    pub fn semaphore(&self, name: impl AsRef<[u8]>, permits: u32) -> Semaphore {
        Semaphore::new(Arc::clone(self.client()), Resource::new(name).map_err(ConfigError::from), permits)
    }
}

impl Semaphore {
    pub(crate) fn new(client: Arc<Client>, name: Result<Resource, ConfigError>, permits: u32) -> Self {
        let candidates = name.and_then(|name| slots_of(name, permits));
        let next = client.context.sample_indices(permits as usize, 1).first().copied().unwrap_or_default();
        let request =
            AnyOfRequest { client, candidates, settings: LockOptions::new(), queues: QUEUES_JOINED };
        Self { request, slots: Arc::new(Mutex::new(FirstSlots { released: Vec::new(), next })) }
    }

    /// Replaces all options. Settings that the options leave open come from the quorum.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.request.settings = options;
        self
    }

    /// Acquires a permit, and waits while no slot is vacant.
    ///
    /// # Errors
    ///
    /// As [`RedLock::lock`](crate::RedLock::lock); [`Error::Config`] (`OutOfRange`) if the number of permits is
    /// invalid.
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`](crate::RedLock::lock), at each of the slots.
    pub async fn acquire(&self) -> Result<Permit, Error> {
        let locked = self.request.lock(self.first()).await?;
        Ok(self.permit(locked))
    }

    /// Acquires a permit, and waits for at most `wait`. Returns `None` if no slot can be acquired in that time.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock_for`](crate::RedLock::try_lock_for) and [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire_for(&self, wait: Duration) -> Result<Option<Permit>, Error> {
        Ok(self.request.lock_for(self.first(), wait).await?.map(|locked| self.permit(locked)))
    }

    /// Attempts one slot, and then slots that a node reports as vacant, without waiting. Returns `None` if no attempt
    /// succeeds, because the slots are held or have waiters. The permit must be bound to a variable, as
    /// [`RedLock::try_lock`](crate::RedLock::try_lock) shows.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock`](crate::RedLock::try_lock) and [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Permit>, Error> {
        Ok(self.request.try_lock(self.first()).await?.map(|locked| self.permit(locked)))
    }

    /// Acquires `permits` permits (1 to 64, and at most the number of the semaphore), all or none, and waits until all
    /// are acquired.
    ///
    /// The calls of `acquire_many` take turns by a lock, the multi-permit lock, in the order of
    /// [`RedLock::lock`](crate::RedLock::lock). The call with this lock keeps the permits that it has acquired, and
    /// waits for the rest. Therefore calls of `acquire_many` do not wait for each other in a circle, but a call for
    /// many permits delays the calls behind. [`acquire`](Self::acquire) does not need the multi-permit lock. If the
    /// holder of the multi-permit lock hangs, an operator can [force-unlock](Self::multi_permit_resource) this lock.
    ///
    /// A caller that has a permit of this semaphore must not wait for more permits by this call, because the call may
    /// wait for the caller's own permit. If a permit ends during the wait for the rest, the call acquires a permit
    /// again. If the options are [without renewal](crate::LockOptions::without_renewal), and the wait takes longer than
    /// the validity of a lease, permits may end repeatedly.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); [`Error::Config`] (`OutOfRange`) also if `permits` is out of range.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire). The permits that the call has acquired are released.
    pub async fn acquire_many(&self, permits: u32) -> Result<Vec<Permit>, Error> {
        let (wanted, name) = self.checked_number(permits)?;
        if mutation::is_on(Mutation::ParallelPermits) {
            return self.collect(wanted).await;
        }
        let multi_permit_lock = self.multi_permit_lock(&name);
        let acquire = || {
            let (semaphore, multi_permit_lock) = (self.clone(), multi_permit_lock.clone().part_of_call());
            async move {
                loop {
                    let guard = multi_permit_lock.lock().await?;
                    tokio::select! {
                        biased;
                        acquired = semaphore.collect(wanted) => return acquired,
                        // After the loss of the multi-permit lock, another client may collect permits. If both clients
                        // kept permits, each client might wait for permits of the other client. Therefore this call
                        // releases its permits, and begins again.
                        _ = guard.lost() => {}
                    }
                }
            }
            .boxed()
        };
        multi_permit_lock.watch(acquire).await
    }

    /// Acquires several permits, as [`acquire_many`](Self::acquire_many) does, and waits for at most `wait`. If the
    /// permits cannot all be acquired in that time, the call checks whether a quorum answers, and then returns `None`.
    /// The check takes at most a further node timeout.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many); [`Error::NoQuorum`] also if no quorum answers the check.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_many`](Self::acquire_many).
    pub async fn try_acquire_many_for(
        &self,
        permits: u32,
        wait: Duration,
    ) -> Result<Option<Vec<Permit>>, Error> {
        self.request.client.context.in_process(self.try_acquire_many_for_in_process(permits, wait)).await
    }

    async fn try_acquire_many_for_in_process(
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
        // At this point, a call that timed out has released its permits.
        match acquired {
            Some(acquired) => acquired.map(Some),
            // The query distinguishes permits in use from nodes that do not answer.
            None => self.available_permits().await.map(|_| None),
        }
    }

    /// Acquires `permits` permits without waiting, all or none. Returns `None` if fewer slots can be acquired, or if
    /// the multi-permit lock is held or has waiters.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire); [`Error::Config`] (`OutOfRange`) also if `permits` is out of range.
    /// [`Error::LeaseLost`] if a permit ended before the last permit was acquired.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_many`](Self::acquire_many).
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Option<Vec<Permit>>, Error> {
        let (wanted, name) = self.checked_number(permits)?;
        let multi_permit_lock = self.multi_permit_lock(&name);
        let acquire = || {
            let (semaphore, multi_permit_lock) = (self.clone(), multi_permit_lock.clone().part_of_call());
            async move {
                let Some(_guard) = multi_permit_lock.try_lock().await? else { return Ok(None) };
                let mut permits: Vec<Permit> = Vec::with_capacity(wanted);
                while permits.len() < wanted {
                    // Parallel calls may take votes for a slot from each other, so a slot may stay free. Therefore the
                    // missing permits are attempted again, until an iteration acquires no permit.
                    let before = permits.len();
                    for attempt in join_all((before..wanted).map(|_| semaphore.try_acquire())).await {
                        permits.extend(attempt?);
                    }
                    if permits.len() == before {
                        return Ok(None);
                    }
                }
                permits.iter().try_for_each(|permit| permit.ensure())?;
                Ok(Some(permits))
            }
            .boxed()
        };
        multi_permit_lock.watch(acquire).await
    }

    /// Acquires a permit, runs a closure, and releases the permit, as [`RedLock::run`](crate::RedLock::run) does.
    ///
    /// # Errors
    ///
    /// As [`RedLock::run`](crate::RedLock::run) and [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::run`](crate::RedLock::run).
    pub async fn run<T>(&self, work: impl AsyncFnOnce(&Permit) -> T) -> Result<T, Error> {
        let permit = self.acquire().await?;
        let value = permit.while_valid(work(&permit)).await?;
        permit.release().await?;
        Ok(value)
    }

    /// Returns the number of slots that a quorum reports as vacant: free, and without waiters. The number may be out of
    /// date on return.
    ///
    /// # Errors
    ///
    /// [`Error::NoQuorum`] if fewer nodes than a quorum answered within a node timeout; [`Error::Config`] and
    /// [`Error::Closed`] as for [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on the nodes.
    pub async fn available_permits(&self) -> Result<usize, Error> {
        self.request.vacant().await
    }

    /// Returns the number of permits that another client counts for this semaphore, if the last check of this client
    /// has found a number other than its own. A client compares the numbers when it acquires a permit, at most once a
    /// minute, and does not wait for the answers. So the result may be `None` directly after the first call. During a
    /// change of the number, the first check of a new client usually finds the old number. So a program that treats a
    /// difference as an error should do so only after the change, or if a later check finds a difference, too.
    #[must_use]
    pub fn count_mismatch(&self) -> Option<u32> {
        // In a forked process, a thread that does not exist may have left the mutex locked.
        let Candidates { name, count, .. } =
            self.request.candidates.as_ref().ok().filter(|_| !self.home().is_left())?;
        self.request.client.context.permit_counts.mismatch(name, u32::try_from(*count).ok()?)
    }

    /// Returns the resource of a slot, to [inspect](Quorum::inspect) or [force-unlock](crate::admin::force_unlock).
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the semaphore has no slot of this number, or if its name or number of permits is invalid.
    pub fn slot_resource(&self, slot: usize) -> Result<Resource, ConfigError> {
        let Candidates { count, resource_at, .. } = self.request.candidates.clone()?;
        if slot >= count {
            return Err(out_of_range("slot", slot, format!("0 to {}, of {count} permits", count - 1)));
        }
        Ok(resource_at(slot))
    }

    /// Returns the resource of the multi-permit lock, by which calls of `acquire_many` take turns, to
    /// [inspect](Quorum::inspect) or [force-unlock](crate::admin::force_unlock). After a force-unlock, the call that
    /// had the lock releases the permits that it has acquired, and waits for the lock again.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the name or the number of permits is invalid.
    pub fn multi_permit_resource(&self) -> Result<Resource, ConfigError> {
        Ok(names::multi_permit(&self.request.candidates.clone()?.name))
    }

    /// Returns the slot to attempt first; `None` if the name or the number of permits is invalid. In a forked process,
    /// also returns `None`, because a thread that does not exist there may have left the mutex locked.
    fn first(&self) -> Option<usize> {
        if self.home().is_left() {
            return None;
        }
        let count = self.request.candidates.as_ref().ok()?.count;
        let mut slots = lock(&self.slots);
        slots.released.pop().or_else(|| {
            slots.next = (slots.next + 1) % count;
            Some(slots.next)
        })
    }

    fn permit(&self, (index, guard): (usize, LockGuard)) -> Permit {
        Permit { guard, slot: SlotReturn { index, slots: Arc::clone(&self.slots), home: self.home() } }
    }

    fn home(&self) -> HomeProcess {
        self.request.client.context.home()
    }

    /// Returns the request for the multi-permit lock. The request has the options of this semaphore, except that the
    /// lease is always renewed and has no `hold_at_most`.
    fn multi_permit_lock(&self, name: &Resource) -> LockRequest {
        self.request.singleton_lock(names::multi_permit(name), self.request.settings.clone())
    }

    /// Checks the number of permits that one call acquires. Returns the number, and the name of the semaphore.
    fn checked_number(&self, permits: u32) -> Result<(usize, Resource), Error> {
        let candidates = self.request.candidates.clone()?;
        if self.request.settings.hold_at_least.is_some() {
            let reason = "a minimum hold of several permits: a call that gives permits up would keep their slots, so leave \
                          `hold_at_least` out, or acquire one permit at a time";
            return Err(ConfigError::Unsupported { reason: reason.into() }.into());
        }
        let (wanted, most) = (permits as usize, MAX_PERMITS_AT_ONCE.min(candidates.count));
        if wanted == 0 || wanted > most {
            return Err(out_of_range("permits at once", permits, format!("1 to {most}")).into());
        }
        Ok((wanted, candidates.name))
    }

    /// Acquires `wanted` permits, all of which are valid on return.
    async fn collect(&self, wanted: usize) -> Result<Vec<Permit>, Error> {
        // Each missing permit has a call of its own, which waits. If each call waited in two queues, the last calls
        // would mostly wait for slots that this client already has. Therefore each call waits in more queues, unless
        // many permits are wanted.
        let mut single = self.clone();
        single.request.queues = (MAX_PERMITS_AT_ONCE / wanted).max(QUEUES_JOINED);
        let mut permits = Vec::with_capacity(wanted);
        while permits.len() < wanted {
            let missing = (permits.len()..wanted).map(|_| single.acquire());
            permits.extend(try_join_all(missing).await?);
            permits.retain(|permit: &Permit| permit.is_valid());
        }
        Ok(permits)
    }
}

impl Permit {
    /// Returns the slot, from 0.
    #[must_use]
    pub fn slot(&self) -> usize {
        self.slot.index
    }

    /// Releases the permit, as [`LockGuard::unlock`] unlocks.
    ///
    /// # Errors
    ///
    /// Only [`Error::LeaseLost`], if the lease had ended before the call.
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::unlock`].
    pub async fn release(self) -> Result<NodeReplies, Error> {
        let Self { guard, slot } = self;
        let released = guard.unlock().await;
        drop(slot);
        released
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

impl Drop for SlotReturn {
    fn drop(&mut self) {
        // In a forked process, a thread that does not exist may have left the mutex locked.
        if self.home.is_left() {
            return;
        }
        let mut slots = lock(&self.slots);
        slots.released.retain(|index| *index != self.index);
        slots.released.push(self.index);
    }
}

/// Returns the slots of a semaphore as candidates. For an invalid number of permits, returns an error.
fn slots_of(name: Resource, permits: u32) -> Result<Candidates, ConfigError> {
    if permits == 0 || permits > MAX_PERMITS {
        return Err(out_of_range("permits", permits, format!("1 to {MAX_PERMITS}")));
    }
    let count = permits as usize;
    let semaphore = name.clone();
    let resource_at = move |index| names::slot(&semaphore, index);
    Ok(Candidates {
        release_watcher: names::release_watcher_of_slots(&name, count),
        name,
        count,
        resource_at: Arc::new(resource_at),
        is_semaphore: true,
    })
}
