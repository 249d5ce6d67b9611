//! The same locks without async, for threads and for programs that have no tokio runtime.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use redquorum::blocking::Quorum;
//!
//! // In production: redquorum::Quorum::builder().nodes(["redis://10.0.0.1", ...]).connect_blocking()?
//! let quorum = Quorum::in_memory(5)?;
//!
//! let guard = quorum.red_lock("invoice:42").lock()?; // waits its turn; renewed while the guard lives
//! guard.ensure()?; // an error after the end of the lease
//! println!("charging invoice 42 with token {}", guard.fencing_token());
//! guard.unlock()?;
//! quorum.shutdown(); // at the end: returns the nodes that have not confirmed
//! # Ok(())
//! # }
//! ```
//!
//! Every type that can wait is a [`Blocking<T>`](Blocking) of an async type `T`, with the same calls, settings, errors
//! and promises. The documentation of the async API also holds here, because the wrapper only forwards calls. Both APIs
//! use the same types for plain values, options, errors, inspections, [`QuorumBuilder`], [`Owner`](crate::Owner) and
//! [`MemoryCluster`]. Guards deref to the async [`Lease`](crate::Lease) for methods that do not wait, such as
//! [`ensure`](crate::Lease::ensure) and [`fencing_token`](crate::Lease::fencing_token). If the blocking guard and the
//! async lease both have a method, such as `lost` and `renew`, a call uses the method of the blocking guard, which
//! blocks.
//!
//! # Threads
//!
//! Every [`Quorum`] has its own thread, which runs connections, watchdog and unlocks. Therefore a lease is renewed
//! while its holder computes or sleeps, and the drop of a guard does not wait for the unlock. The thread ends when the
//! last clone, lock, guard, lease and stream of leaders is dropped, and when every message that must be delivered is
//! confirmed or has expired.
//!
//! A call blocks the calling thread, and any thread may call. Inside of a tokio runtime, a call neither panics nor
//! needs that runtime, but blocks all tasks on the thread. If two tasks of a single-threaded runtime each wait for a
//! lock that the other task holds, both wait for ever. In async code, use the async API or `spawn_blocking`.
//!
//! The thread does not exist in a forked copy of the process. There, every call returns
//! [`ClosedReason::Forked`](crate::error::ClosedReason::Forked) at once, and no lease is valid. So fork first, as
//! servers with worker processes and daemons do, and then connect in each process.
//!
//! A blocked call cannot be cancelled. Use the calls with a time limit ([`try_lock_for`](RedLock::try_lock_for),
//! [`lost_within`](Lease::lost_within), [`next_within`](Leaders::next_within)), or end all waiting calls by
//! [`shutdown`](Quorum::shutdown) from another thread.
//!
//! # The loss of a lease
//!
//! The loss of a lease does not stop the code under the lease, because a thread cannot be stopped from outside. Call
//! [`ensure`](crate::Lease::ensure) or [`is_valid`](crate::Lease::is_valid) between two steps. Both only read the
//! clock. The deref also gives access to [`while_valid`](crate::Lease::while_valid), which is async and does nothing
//! unless polled. Use `ensure` instead, or a thread that waits for [`lost`](Lease::lost). A [`Lease`] can be sent to
//! such a thread:
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
//! The end of the process also ends the thread. If the unlock of a dropped guard was not sent by then, the lock ends
//! with its ttl. To prevent this, call [`shutdown`](Quorum::shutdown), which waits until a quorum has confirmed every
//! unlock, or [`unlock`](LockGuard::unlock), which waits for its own confirmation.

pub mod admin;
mod calls;
mod forward;
mod runtime;

use std::fmt;

use self::runtime::Runtime;
use crate::{MemoryCluster, QuorumBuilder, error::Error};

/// A type of the async API, for threads. Each call blocks the calling thread.
#[derive(Clone)]
pub struct Blocking<T> {
    // This field is declared before the runtime, because fields are dropped in the order of declaration, and the drop
    // of a guard submits the unlock to the connections of the runtime.
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

/// The error of a wait that ended without a new leader or value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no leader was seen in time")]
#[non_exhaustive]
pub struct TimedOut;

impl QuorumBuilder {
    /// Connects like [`connect`](Self::connect), for use by threads. The client has its own thread.
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
    /// Returns a client with its own in-memory nodes, for tests and first steps, like [`crate::Quorum::in_memory`].
    /// Time is real time. In a tokio runtime with paused time, use the async API.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if `nodes` is 0 or more than 64, or the thread cannot be started.
    pub fn in_memory(nodes: usize) -> Result<Self, Error> {
        Self::connect_in_memory(crate::Quorum::builder(), &MemoryCluster::new(nodes))
    }

    /// Returns a client of in-memory nodes that other clients share, including async clients, like
    /// [`QuorumBuilder::connect_in_memory`]. Time is real time, as for [`in_memory`](Self::in_memory).
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if the settings cannot work, or the thread cannot be started.
    pub fn connect_in_memory(builder: QuorumBuilder, cluster: &MemoryCluster) -> Result<Self, Error> {
        let runtime = Runtime::start()?;
        let quorum = runtime.enter(|| builder.connect_in_memory(cluster))?;
        Ok(runtime.serve(quorum))
    }
}
