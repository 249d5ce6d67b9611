//! The calls of each blocking type. Most calls are made by the macro `forward`. Calls with closures, with type
//! parameters, with time limits of their own or with other results are written here. The test `tests/api/parity.rs`
//! compares the calls with the calls of the async types.

use std::{ops::Deref, time::Duration};

use super::{
    AnyOf, Blocking, Election, Leaders, Leadership, LockGuard, MultiLock, MultiLockGuard, MultiQuorumLock,
    Permit, Quorum, ReadGuard, RedLock, RwLock, Semaphore, TimedOut, forward::forward, runtime::Runtime,
};
use crate::{
    LockOptions, Owner, Resource, ShutdownReport, Ticket,
    election::Leader,
    error::{ConfigError, Error, LeaseLost, NodeReplies},
    inspection::{Health, Inspection},
    values::FencingToken,
};

forward!(crate::Quorum {
    make red_lock(resource: impl AsRef<[u8]>) -> crate::RedLock;
    make rw_lock(resource: impl AsRef<[u8]>) -> crate::RwLock;
    make semaphore(name: impl AsRef<[u8]>, permits: u32) -> crate::Semaphore;
    make latch(name: impl AsRef<[u8]>, arrivals: u32) -> crate::Latch;
    make election(name: impl AsRef<[u8]>) -> crate::election::Election;
    call inspect(resource: impl AsRef<[u8]>) -> Inspection;
    maybe redeem(ticket: &Ticket, options: LockOptions) -> crate::LockGuard;
    call release(ticket: &Ticket) -> NodeReplies;
    wait health() -> Health;
    wait shutdown() -> ShutdownReport;
    wait shutdown_within(grace: Duration) -> ShutdownReport;
});

impl Quorum {
    /// Calls [`crate::Quorum::multi_lock`].
    #[must_use]
    pub fn multi_lock<R: AsRef<[u8]>>(&self, resources: impl IntoIterator<Item = R>) -> MultiLock {
        self.runtime.wrap(self.inner.multi_lock(resources))
    }

    /// Calls [`crate::Quorum::any_of`].
    #[must_use]
    pub fn any_of<R: AsRef<[u8]>>(&self, resources: impl IntoIterator<Item = R>) -> AnyOf {
        self.runtime.wrap(self.inner.any_of(resources))
    }

    pub(super) fn client(&self) -> &crate::Quorum {
        &self.inner
    }

    pub(super) fn runtime(&self) -> &Runtime {
        &self.runtime
    }
}

/// Implements the calls of a lock with `lock`, `try_lock`, `try_lock_for` and `run`.
macro_rules! locks {
    ($($lock:ident -> $guard:ident;)*) => { $(
        forward!(crate::$lock {
            set options(options: LockOptions);
            guard lock() -> crate::$guard;
            maybe try_lock() -> crate::$guard;
            maybe try_lock_for(wait: Duration) -> crate::$guard;
        });

        impl $lock {
            #[doc = concat!("Locks, runs a closure, and unlocks, as [`crate::", stringify!($lock), "::run`] does.")]
            ///
            /// The loss of the lease does not stop the closure, so the closure has to call `ensure`.
            ///
            /// # Errors
            ///
            /// The errors of that call.
            pub fn run<T>(&self, work: impl FnOnce(&$guard) -> T) -> Result<T, Error> {
                let guard = self.lock()?;
                let value = work(&guard);
                guard.unlock()?;
                Ok(value)
            }
        }
    )* };
}

locks! {
    RedLock -> LockGuard;
    MultiLock -> LockGuard;
    MultiQuorumLock -> MultiLockGuard;
    AnyOf -> LockGuard;
}

forward!(crate::RedLock { set owned_by(owner: &Owner); });
forward!(crate::MultiLock { set owned_by(owner: &Owner); });
forward!(crate::MultiQuorumLock { set owned_by(owner: &Owner); });

impl MultiLock {
    /// Calls [`crate::MultiLock::and_read`].
    #[must_use]
    pub fn and_read<R: AsRef<[u8]>>(self, resources: impl IntoIterator<Item = R>) -> Self {
        Self { inner: self.inner.and_read(resources), runtime: self.runtime }
    }

    /// Calls [`crate::MultiLock::across`].
    #[must_use]
    pub fn across<L: Into<crate::MultiLock>>(
        locks: impl IntoIterator<Item = Blocking<L>>,
    ) -> MultiQuorumLock {
        let (locks, runtimes): (Vec<_>, Vec<_>) =
            locks.into_iter().map(|Blocking { inner, runtime }| (inner, runtime)).unzip();
        Runtime::joined(runtimes).wrap(crate::MultiLock::across(locks))
    }
}

forward!(crate::RwLock {
    set options(options: LockOptions);
    set owned_by(owner: &Owner);
    guard read() -> crate::ReadGuard;
    maybe try_read() -> crate::ReadGuard;
    maybe try_read_for(wait: Duration) -> crate::ReadGuard;
    guard write() -> crate::LockGuard;
    maybe try_write() -> crate::LockGuard;
    maybe try_write_for(wait: Duration) -> crate::LockGuard;
});

impl RwLock {
    /// Locks for reading, runs a closure, and unlocks, as [`crate::RwLock::run_read`] does.
    ///
    /// The loss of the lease does not stop the closure, so the closure has to call `ensure`.
    ///
    /// # Errors
    ///
    /// The errors of that call.
    pub fn run_read<T>(&self, work: impl FnOnce(&ReadGuard) -> T) -> Result<T, Error> {
        let guard = self.read()?;
        let value = work(&guard);
        guard.unlock()?;
        Ok(value)
    }

    /// Locks for writing, runs a closure, and unlocks, as [`crate::RwLock::run_write`] does.
    ///
    /// The loss of the lease does not stop the closure, so the closure has to call `ensure`.
    ///
    /// # Errors
    ///
    /// The errors of that call.
    pub fn run_write<T>(&self, work: impl FnOnce(&LockGuard) -> T) -> Result<T, Error> {
        let guard = self.write()?;
        let value = work(&guard);
        guard.unlock()?;
        Ok(value)
    }
}

/// Implements the calls of the lease and of the guards that deref to a lease.
macro_rules! leases {
    ($($type:ty;)*) => { $(
        impl Deref for Blocking<$type> {
            type Target = crate::Lease;

            fn deref(&self) -> &crate::Lease {
                &self.inner
            }
        }

        forward!($type as crate::Lease {
            make lease() -> crate::Lease;
            wait lost() -> LeaseLost;
            wait expiring_within(left: Duration) -> ();
            call renew() -> ();
            call verify() -> bool;
        });

        impl Blocking<$type> {
            /// Waits for the end of the lease as [`lost`](Self::lost) does, but for at most `wait`. Returns `None` if
            /// the lease has not ended by then.
            #[must_use]
            pub fn lost_within(&self, wait: Duration) -> Option<LeaseLost> {
                self.runtime.wait_for(wait, self.inner.lost())
            }
        }
    )* };
}

leases! {
    crate::Lease;
    crate::LockGuard;
    crate::ReadGuard;
    crate::Permit;
    crate::election::Leadership;
}

forward!(crate::LockGuard {
    end unlock() -> NodeReplies;
    convert downgrade() -> crate::ReadGuard;
    end into_ticket(ttl: Duration) -> Ticket;
});
forward!(crate::ReadGuard { end unlock() -> NodeReplies; });
forward!(crate::MultiLockGuard {
    wait lost() -> LeaseLost;
    wait expiring_within(left: Duration) -> ();
    call renew() -> ();
    end unlock() -> Vec<NodeReplies>;
});

/// Gives access to the methods that do not wait: `leases`, `is_valid`, `ensure` and `remaining`.
impl Deref for MultiLockGuard {
    type Target = crate::MultiLockGuard;

    fn deref(&self) -> &crate::MultiLockGuard {
        &self.inner
    }
}

impl MultiLockGuard {
    /// Waits for the first end of a lease as [`lost`](Self::lost) does, but for at most `wait`. Returns `None` if no
    /// lease has ended by then.
    #[must_use]
    pub fn lost_within(&self, wait: Duration) -> Option<LeaseLost> {
        self.runtime.wait_for(wait, self.inner.lost())
    }
}

forward!(crate::Semaphore {
    set options(options: LockOptions);
    guard acquire() -> crate::Permit;
    maybe try_acquire() -> crate::Permit;
    maybe try_acquire_for(wait: Duration) -> crate::Permit;
    call available_permits() -> usize;
});

impl Semaphore {
    /// Calls [`crate::Semaphore::count_mismatch`].
    #[must_use]
    pub fn count_mismatch(&self) -> Option<u32> {
        self.inner.count_mismatch()
    }

    /// Calls [`crate::Semaphore::acquire_many`], and blocks until the result.
    ///
    /// # Errors
    ///
    /// The errors of that call.
    pub fn acquire_many(&self, permits: u32) -> Result<Vec<Permit>, Error> {
        let permits = self.runtime.wait(self.inner.acquire_many(permits))?;
        Ok(self.wrap_all(permits))
    }

    /// Calls [`crate::Semaphore::try_acquire_many`], and blocks until the result.
    ///
    /// # Errors
    ///
    /// The errors of that call.
    pub fn try_acquire_many(&self, permits: u32) -> Result<Option<Vec<Permit>>, Error> {
        let permits = self.runtime.wait(self.inner.try_acquire_many(permits))?;
        Ok(permits.map(|permits| self.wrap_all(permits)))
    }

    /// Calls [`crate::Semaphore::try_acquire_many_for`], and blocks until the result.
    ///
    /// # Errors
    ///
    /// The errors of that call.
    pub fn try_acquire_many_for(&self, permits: u32, wait: Duration) -> Result<Option<Vec<Permit>>, Error> {
        let permits = self.runtime.wait(self.inner.try_acquire_many_for(permits, wait))?;
        Ok(permits.map(|permits| self.wrap_all(permits)))
    }

    /// Acquires a permit, runs a closure, and releases the permit, as [`crate::Semaphore::run`] does.
    ///
    /// The loss of the lease does not stop the closure, so the closure has to call `ensure`.
    ///
    /// # Errors
    ///
    /// The errors of that call.
    pub fn run<T>(&self, work: impl FnOnce(&Permit) -> T) -> Result<T, Error> {
        let permit = self.acquire()?;
        let value = work(&permit);
        permit.release()?;
        Ok(value)
    }

    /// Calls [`crate::Semaphore::slot_resource`].
    ///
    /// # Errors
    ///
    /// The errors of that call.
    pub fn slot_resource(&self, slot: usize) -> Result<Resource, ConfigError> {
        self.inner.slot_resource(slot)
    }

    /// Calls [`crate::Semaphore::multi_permit_resource`].
    ///
    /// # Errors
    ///
    /// The errors of that call.
    pub fn multi_permit_resource(&self) -> Result<Resource, ConfigError> {
        self.inner.multi_permit_resource()
    }

    fn wrap_all(&self, permits: Vec<crate::Permit>) -> Vec<Permit> {
        permits.into_iter().map(|permit| self.runtime.wrap(permit)).collect()
    }
}

forward!(crate::Permit { end release() -> NodeReplies; });

impl Permit {
    /// Calls [`crate::Permit::slot`].
    #[must_use]
    pub fn slot(&self) -> usize {
        self.inner.slot()
    }
}

forward!(crate::Latch {
    set retention(retention: Duration);
    call arrive() -> ();
    call arrive_as(id: impl AsRef<[u8]>) -> ();
    call open() -> ();
    call wait() -> ();
    call wait_for(wait: Duration) -> bool;
    call arrivals() -> u32;
});

forward!(crate::election::Election {
    set options(options: LockOptions);
    guard campaign(value: impl AsRef<[u8]>) -> crate::election::Leadership;
    maybe try_campaign(value: impl AsRef<[u8]>) -> crate::election::Leadership;
    maybe try_campaign_for(value: impl AsRef<[u8]>, wait: Duration) -> crate::election::Leadership;
    call leader() -> Option<Leader>;
});

impl Election {
    /// Calls [`crate::election::Election::observe`].
    ///
    /// # Errors
    ///
    /// The errors of that call.
    pub fn observe(&self) -> Result<Leaders, Error> {
        self.runtime.enter(|| self.inner.observe()).map(|leaders| self.runtime.wrap(leaders))
    }
}

forward!(crate::election::Leadership {
    call proclaim(value: impl AsRef<[u8]>) -> ();
    end resign() -> NodeReplies;
});

impl Leadership {
    /// Calls [`crate::election::Leadership::term`].
    #[must_use]
    pub fn term(&self) -> FencingToken {
        self.inner.term()
    }
}

impl Leaders {
    /// Waits for the next leader or value, for at most `wait`. Returns `Ok(None)` after a shutdown.
    ///
    /// # Errors
    ///
    /// [`TimedOut`] if there was no new leader or value within `wait`.
    pub fn next_within(&mut self, wait: Duration) -> Result<Option<Leader>, TimedOut> {
        self.runtime.wait_for(wait, self.inner.next()).ok_or(TimedOut)
    }
}

/// The leaders and values of an election. Each call of `next` blocks until the next leader or value. The iterator ends
/// after a shutdown.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use redquorum::blocking::Quorum;
/// # let quorum = Quorum::in_memory(3)?;
/// let election = quorum.election("scheduler");
/// let leadership = election.campaign("host-7")?;
///
/// let mut leaders = election.observe()?;
/// assert_eq!(leaders.next().unwrap().value_str(), "host-7");
/// leadership.proclaim("host-7, draining")?;
/// assert_eq!(leaders.next().unwrap().value_str(), "host-7, draining");
/// # Ok(())
/// # }
/// ```
impl Iterator for Leaders {
    type Item = Leader;

    fn next(&mut self) -> Option<Leader> {
        self.runtime.wait(self.inner.next())
    }
}
