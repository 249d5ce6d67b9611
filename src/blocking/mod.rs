//! The same locks without async: for threads, and for programs that have no tokio runtime.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use redquorum::blocking::Quorum;
//!
//! // In production: Quorum::connect(redquorum::Quorum::builder().nodes(["redis://10.0.0.1", ...]))?
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
//! Names, settings, errors and promises are those of the async API, over which this is a wrapper
//! that decides nothing by itself; what a type or a call is stands there. What both have in common
//! ([`QuorumBuilder`](crate::QuorumBuilder), [`Owner`](crate::Owner), tokens, errors, inspections,
//! [`MemoryCluster`](crate::MemoryCluster)) is the same type.
//!
//! # Threads
//!
//! Every [`Quorum`] has one thread of its own. Connections, watchdog and unlocks go on there, so a
//! lease is renewed while its holder computes, or sleeps, and what is dropped is unlocked without
//! waiting. The thread ends after the last clone, lock, guard, lease and observation is gone and
//! what had to be delivered to the nodes has been confirmed or is past its time.
//!
//! A call blocks the thread that makes it, and may be made from any: inside of a tokio runtime it
//! neither panics nor needs that runtime. But it is the thread that is blocked, with all the tasks
//! on it. Two tasks of one single-threaded runtime that wait for each other's locks in this way
//! wait for ever; in async code the async API is better, or `spawn_blocking`.
//!
//! A call that blocks cannot be cancelled. One that must end has a deadline
//! ([`try_lock_for`](RedLock::try_lock_for), [`Lease::lost_within`],
//! [`Observation::next_within`]), and [`Quorum::shutdown`] from another thread ends all calls that
//! wait.
//!
//! # Hearing of a loss
//!
//! Code that runs is not stopped when its lease is lost: nothing can stop a thread. It asks
//! [`ensure`](Lease::ensure), or [`is_valid`](Lease::is_valid), between two steps; both
//! read the clock on the spot and need nothing else to go on. A [`Lease`] can be sent to a thread
//! that waits for the loss:
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
//! may not have been sent: then the ttl ends those locks. [`Quorum::shutdown`] waits until a quorum
//! has confirmed each of them; so does [`LockGuard::unlock`] for its own.

mod any_of;
mod election;
mod guard;
mod latch;
mod leadership;
mod lease;
mod multi_guard;
mod multi_lock;
mod observation;
mod quorum;
mod red_lock;
mod runtime;
mod runtimes;
mod rw_lock;
mod semaphore;

pub use self::{
    any_of::AnyOf,
    election::Election,
    guard::LockGuard,
    latch::Latch,
    leadership::Leadership,
    lease::Lease,
    multi_guard::MultiLockGuard,
    multi_lock::MultiLock,
    observation::Observation,
    quorum::Quorum,
    red_lock::RedLock,
    rw_lock::RwLock,
    semaphore::{Permit, Semaphore},
};
