//! The same locks without async: for threads, and for programs that have no tokio runtime.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use redquorum::blocking::Quorum;
//!
//! // In production: redquorum::Quorum::builder().nodes(["redis://10.0.0.1", ...]).connect_blocking()?
//! let quorum = Quorum::in_memory(5)?;
//!
//! let guard = quorum.red_lock("invoice:42").lock()?; // waits its turn; renewed while the guard lives
//! guard.ensure()?; // an error once the lease is over
//! println!("charging invoice 42 with token {}", guard.fencing_token());
//! guard.unlock()?;
//! quorum.shutdown(); // at the end: says which nodes have not confirmed
//! # Ok(())
//! # }
//! ```
//!
//! Every type is [`Blocking<T>`](Blocking) of its async twin, with the same calls, settings, errors and promises: each
//! page of the async API holds here, too. The wrapper decides nothing by itself. Plain values, options, errors,
//! inspections, [`QuorumBuilder`], [`Owner`](crate::Owner) and [`MemoryCluster`] are the same types. Guards deref to
//! the async [`Lease`](crate::Lease), for what does not wait: [`ensure`](crate::Lease::ensure),
//! [`fencing_token`](crate::Lease::fencing_token) and the like. A method that both have (`lost`, `renew`) is the one of
//! the blocking guard, and blocks.
//!
//! # Threads
//!
//! Every [`Quorum`] has one thread of its own. Connections, watchdog and unlocks go on there, so a
//! lease is renewed while its holder computes, or sleeps, and what is dropped is unlocked without
//! waiting. The thread ends after the last clone, lock, guard, lease and stream of leaders is gone and
//! what had to be delivered to the nodes has been confirmed or is past its time.
//!
//! A call blocks the thread that makes it, and may be made from any: inside of a tokio runtime it
//! neither panics nor needs that runtime. But it is the thread that is blocked, with all the tasks
//! on it. Two tasks of one single-threaded runtime that wait for each other's locks in this way
//! wait for ever; in async code the async API is better, or `spawn_blocking`.
//!
//! A call that blocks cannot be cancelled. One that must end has a deadline
//! ([`try_lock_for`](RedLock::try_lock_for), [`lost_within`](Lease::lost_within),
//! [`next_within`](Leaders::next_within)), and [`shutdown`](Quorum::shutdown) from another thread ends all calls that
//! wait.
//!
//! # Hearing of a loss
//!
//! The loss of a lease does not stop the code that works under it, because nothing can stop a thread. Call
//! [`ensure`](crate::Lease::ensure), or [`is_valid`](crate::Lease::is_valid), between two steps: both only read the
//! clock. [`while_valid`](crate::Lease::while_valid) shows through the deref, but is async: it does nothing unless its
//! future is polled, so threads use `ensure`, or a thread that waits for [`lost`](Lease::lost). A [`Lease`] can be sent
//! to that thread:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use std::sync::{Arc, atomic::{AtomicBool, Ordering}};
//! # let quorum = redquorum::blocking::Quorum::in_memory(3)?;
//! let guard = quorum.red_lock("report").lock()?;
//! let has_to_stop = Arc::new(AtomicBool::new(false));
//! let (lease, stop) = (guard.lease(), Arc::clone(&has_to_stop));
//! let watcher = std::thread::spawn(move || {
//!     lease.lost(); // also once it is unlocked, so the thread ends
//!     stop.store(true, Ordering::SeqCst);
//! });
//! // ... work that looks at `has_to_stop` ...
//! guard.unlock()?;
//! # watcher.join().unwrap();
//! # assert!(has_to_stop.load(Ordering::SeqCst));
//! # Ok(())
//! # }
//! ```
//!
//! # At the end of a program
//!
//! A process that ends takes the thread with it, and the unlocks of guards that were just dropped
//! may not have been sent: then the ttl ends those locks. [`shutdown`](Quorum::shutdown) waits until a quorum
//! has confirmed each of them; so does [`unlock`](LockGuard::unlock) for its own.

pub mod admin;
mod calls;
mod forward;
mod runtime;

use std::fmt;

use self::runtime::Runtime;
use crate::{MemoryCluster, QuorumBuilder, error::Error};

/// A type of the async API, for threads: its calls block the thread that makes them.
#[derive(Clone)]
pub struct Blocking<T> {
    // Before the runtime, because fields are dropped in this order: a guard that is dropped hands its unlock to the
    // connections of the runtime.
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

/// No leader was seen in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no leader was seen in time")]
#[non_exhaustive]
pub struct TimedOut;

impl QuorumBuilder {
    /// Connects as [`connect`](Self::connect) does, for threads: the client works on a thread of its own.
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
    /// A client of in-memory nodes of its own, for tests and first steps, as [`crate::Quorum::in_memory`]. Time is real
    /// time: in a tokio runtime whose time is paused, use the async API.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if `nodes` is 0 or more than 64, or the thread cannot be started.
    pub fn in_memory(nodes: usize) -> Result<Self, Error> {
        Self::connect_in_memory(crate::Quorum::builder(), &MemoryCluster::new(nodes))
    }

    /// A client of in-memory nodes that other clients share, async clients too, as
    /// [`QuorumBuilder::connect_in_memory`]. Time is real time, as of [`in_memory`](Self::in_memory).
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
