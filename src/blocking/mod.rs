//! The API of this crate without async, for threads and for programs that have no tokio runtime.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use redquorum::blocking::Quorum;
//!
//! // In production: redquorum::Quorum::builder().nodes(["redis://10.0.0.1", ...]).connect_blocking()?
//! let quorum = Quorum::in_memory(5)?;
//!
//! let guard = quorum.red_lock("invoice:42").lock()?; // waits; the lease is renewed while the guard lives
//! guard.ensure()?; // an error after the end of the lease
//! println!("charging invoice 42 with token {}", guard.fencing_token());
//! guard.unlock()?;
//! quorum.shutdown(); // at the end: waits for unlocks, and reports unlocks without a confirmation
//! # Ok(())
//! # }
//! ```
//!
//! Every type that can wait is a [`Blocking<T>`](Blocking) of an async type `T`, with the same settings, errors and
//! promises, and with the same calls except where this page says otherwise. The documentation of the async API also
//! applies here, because `Blocking` only forwards calls. Both APIs use the same types for plain values, options,
//! errors, inspections, [`QuorumBuilder`], [`Owner`](crate::Owner) and [`MemoryCluster`].
//!
//! The guards of a lease deref to the async [`Lease`](crate::Lease), for methods that do not wait, such as
//! [`ensure`](crate::Lease::ensure) and [`fencing_token`](crate::Lease::fencing_token). If the blocking guard and the
//! async lease have methods of the same name, such as `lost` and `renew`, a call on the guard uses the blocking method
//! of the guard.
//!
//! # Threads
//!
//! Every client (a [`Quorum`] with its clones) has a thread of its own, which runs connections, watchdog and unlocks.
//! Therefore a lease is renewed while its holder computes or sleeps, and the drop of a guard does not wait for the
//! unlock. The thread ends after the drop of the last clone and of all blocking values from the client, such as locks,
//! guards and streams of leaders, as soon as every message that must be delivered is confirmed or has expired.
//!
//! A call blocks the calling thread, and any thread may call. In a thread of a tokio runtime, a call does not panic
//! and does not use that runtime, but blocks all tasks of the thread. If a task of a single-threaded runtime waits for
//! a lock that another task of the same runtime holds, the call waits for ever. In async code, use the async API or
//! `spawn_blocking`.
//!
//! The thread does not exist in a forked copy of the process. There, no call waits, and no lease is valid. A lock call
//! returns an error with [`ClosedReason::Forked`](crate::error::ClosedReason::Forked) at once. Therefore a program that
//! forks, such as a daemon or a server with worker processes, has to connect after the fork, in each process.
//!
//! A blocked call cannot be cancelled. Instead, there are calls with a time limit, such as
//! [`try_lock_for`](RedLock::try_lock_for), [`lost_within`](Lease::lost_within) and
//! [`next_within`](Leaders::next_within). A [`shutdown`](Quorum::shutdown) from another thread ends all waiting calls.
//!
//! # The loss of a lease
//!
//! The loss of a lease does not stop the code under the lease, because a thread cannot be stopped from outside. Call
//! [`ensure`](crate::Lease::ensure) or [`is_valid`](crate::Lease::is_valid) between two steps. Both methods send no
//! request. Do not call [`while_valid`](crate::Lease::while_valid), to which the deref also gives access: this method
//! is async, and does nothing unless polled. Instead, another thread can wait for [`lost`](Lease::lost). A [`Lease`]
//! can be sent to that thread:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use std::sync::{Arc, atomic::{AtomicBool, Ordering}};
//! # let quorum = redquorum::blocking::Quorum::in_memory(3)?;
//! let guard = quorum.red_lock("report").lock()?;
//! let has_to_stop = Arc::new(AtomicBool::new(false));
//! let (lease, stop) = (guard.lease(), Arc::clone(&has_to_stop));
//! let watcher = std::thread::spawn(move || {
//!     lease.lost(); // ready after the unlock, too, so the thread ends
//!     stop.store(true, Ordering::SeqCst);
//! });
//! // ... work that checks `has_to_stop` ...
//! guard.unlock()?;
//! # watcher.join().unwrap();
//! # assert!(has_to_stop.load(Ordering::SeqCst));
//! # Ok(())
//! # }
//! ```
//!
//! # The end of a program
//!
//! The end of the process also ends the thread. If the unlock of a dropped guard was not sent by then, the resource
//! stays locked until the ttl is over. To prevent this, call [`unlock`](LockGuard::unlock), which waits for a quorum to
//! confirm this unlock, or [`shutdown`](Quorum::shutdown), which waits for the confirmations of all unlocks. Both calls
//! wait for a limited time, and return the replies or a report.

pub mod admin;
mod calls;
mod forward;
mod runtime;

use std::fmt;

use self::runtime::Runtime;
use crate::{MemoryCluster, QuorumBuilder, error::Error};

/// A value of the async API, for threads. Each call that waits blocks the calling thread.
#[derive(Clone)]
pub struct Blocking<T> {
    // This field is declared before the runtime, because fields are dropped in the order of declaration. The drop of a
    // guard submits the unlock to the connections, which the runtime must still run.
    inner: T,
    runtime: Runtime,
}

macro_rules! aliases {
    ($($name:ident = $type:ty;)*) => { $(
        #[doc = concat!("[`", stringify!($type), "`] for threads.")]
        pub type $name = Blocking<$type>;
    )* };
}

aliases! {
    Quorum = crate::Quorum;
    RedLock = crate::RedLock;
    RwLock = crate::RwLock;
    MultiLock = crate::MultiLock;
    MultiQuorumLock = crate::MultiQuorumLock;
    AnyOf = crate::AnyOf;
    LockGuard = crate::LockGuard;
    ReadGuard = crate::ReadGuard;
    MultiLockGuard = crate::MultiLockGuard;
    Lease = crate::Lease;
    Semaphore = crate::Semaphore;
    Permit = crate::Permit;
    Latch = crate::Latch;
    Election = crate::election::Election;
    Leadership = crate::election::Leadership;
    Leaders = crate::election::Leaders;
}

impl<T: fmt::Debug> fmt::Debug for Blocking<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// The error of [`next_within`](Leaders::next_within): the time was over before a new leader or value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no new leader or value in time")]
#[non_exhaustive]
pub struct TimedOut;

impl QuorumBuilder {
    /// Connects as [`connect`](Self::connect) does, but blocks, and returns a client for threads. The client has a
    /// thread of its own.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect); [`Error::Config`] (`NoRuntime`) if the thread cannot be started.
    pub fn connect_blocking(self) -> Result<Quorum, Error> {
        let runtime = Runtime::start()?;
        let quorum = runtime.wait(self.connect())?;
        Ok(runtime.serve(quorum))
    }
}

impl Quorum {
    /// Returns a client with in-memory nodes of its own, for tests and first steps, as [`crate::Quorum::in_memory`]
    /// does. The nodes use real time. In a tokio runtime with paused time, use the async API.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if `nodes` is 0 or more than 64, or if the thread cannot be started (`NoRuntime`).
    pub fn in_memory(nodes: usize) -> Result<Self, Error> {
        Self::connect_in_memory(crate::Quorum::builder(), &MemoryCluster::new(nodes))
    }

    /// Returns a client of in-memory nodes that other clients can share, including async clients, as
    /// [`QuorumBuilder::connect_in_memory`] does. The nodes use real time, as for [`in_memory`](Self::in_memory).
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if the settings are invalid, or if the thread cannot be started (`NoRuntime`).
    pub fn connect_in_memory(builder: QuorumBuilder, cluster: &MemoryCluster) -> Result<Self, Error> {
        let runtime = Runtime::start()?;
        let quorum = runtime.enter(|| builder.connect_in_memory(cluster))?;
        Ok(runtime.serve(quorum))
    }
}
