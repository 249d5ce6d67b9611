//! Locks that survive the loss of a minority of Redis masters.
//!
//! A lock is taken on several independent Redis servers at once and is held once a majority of them
//! has granted it in time (the algorithm known as [Redlock]). Every lease carries a
//! [`FencingToken`], is renewed by a watchdog for as long as its guard lives, and is announced as
//! lost no later than its validity ends.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use redquorum::{FencingToken, Quorum};
//!
//! // In production: Quorum::builder().nodes(["redis://10.0.0.1", ...]).connect().await?
//! let quorum = Quorum::in_memory(5)?;
//!
//! let guard = quorum.red_lock("invoice:42").lock().await?;
//! charge(guard.fencing_token()).await; // the ledger refuses a smaller token than it has seen
//! guard.unlock().await?;
//! # async fn charge(token: FencingToken) { assert!(token.as_u64() > 0) }
//! # Ok(())
//! # }
//! ```
//!
//! # Which lock do I want?
//!
//! | you want to | call | if another client holds it |
//! |---|---|---|
//! | work when it is your turn | [`RedLock::lock`] | waits |
//! | work unless another client does | [`RedLock::try_lock`] | `Ok(None)` |
//! | work soon or not at all | [`RedLock::try_lock_for`] | waits, then `Ok(None)` |
//! | run code that has to stop when the lease is lost | [`RedLock::run`] | waits |
//! | read together with other readers, and write alone | [`RwLock`], by [`Quorum::rw_lock`] | waits |
//! | let a number of clients work at a time | [`Semaphore`], by [`Quorum::semaphore`] | waits while all permits are taken |
//! | lock several resources, all or none | [`MultiLock`], by [`Quorum::multi_lock`] | waits for all of them |
//! | lock resources of several quorums | [`MultiQuorumLock`], by [`MultiLock::across`] | waits, quorum by quorum |
//! | lock any one of several resources | [`AnyOf`], by [`Quorum::any_of`] | waits while other clients have all of them |
//! | lead until it is lost, with one leader that all can see | [`Election`](election::Election), by [`Quorum::election`] | waits |
//! | wait until a number of processes have arrived | [`Latch`], by [`Quorum::latch`] | waits until the latch is open |
//! | lock again what your caller may hold already | an [`Owner`], with [`RedLock::owned_by`] | re-enters if that owner holds it |
//! | know which client holds it | [`Quorum::inspect`] | names the lease, and the answer of each node |
//! | end a lock whose holder is gone | [`admin::force_unlock`] | unlocks it for any holder |
//!
//! The `try_` calls return `Ok(None)` if another client holds the resource. Every call returns an error if no quorum
//! answers. There is one [`Error`] for all calls, with four variants by which a program decides.
//!
//! # A guard, or a closure?
//!
//! A [`LockGuard`] leaves the flow to you: call [`ensure`](Lease::ensure) where the lease has to be valid, or run the
//! work in [`while_valid`](Lease::while_valid). Dropping a guard unlocks, without waiting for the nodes.
//! [`RedLock::run`] does all of that for a closure:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let quorum = redquorum::Quorum::in_memory(3)?;
//! let token = quorum.red_lock("report").run(async |guard| {
//!     // Renewed while this runs; dropped at an await if the lease is lost.
//!     guard.fencing_token()
//! }).await?; // `Ok`: the lease was valid until the closure returned
//! println!("reported under token {token}");
//! # Ok(())
//! # }
//! ```
//!
//! # How long does it last?
//!
//! A lease is renewed until its guard is dropped. [`without_renewal`](LockOptions::without_renewal) lets it end with
//! its ttl, [`hold_at_most`](LockOptions::hold_at_most) ends it after a time, however often it is renewed.
//!
//! # What is promised, and on what it rests
//!
//! * *Exclusion*: two leases on one resource are never valid at the same time, unless both only read. Assumed: the
//!   rates of the clocks of clients and nodes differ by less than the configured drift. No node's clock steps forward
//!   by more than 2 ms while a lease lives. The client's clock counts on while the client stands still. No node forgets
//!   votes unseen by the [`RestartGuard`]. All clients name the same nodes and use the restart guard alike, and no two
//!   addresses lead to one server. No lease is force-unlocked, and no other program deletes keys.
//! * *Order*: fencing tokens are unique per resource and grow from lease to lease; readers may share a token. No clock
//!   is involved as long as the nodes remember their counters.
//! * *Honesty*: [`Lease::is_valid`] returns false and [`Lease::lost`] is ready no later than the end of the lease, in
//!   every state of nodes and network, if the client's clock counts on. No lock can cover the time between a check of
//!   the lease and the next write: the token does.
//! * *No residue*: a call that was cancelled, dropped, refused or timed out leaves no lock behind. On a node that
//!   cannot be reached, or does not accept the client, the key ends one ttl after the node last executed a request of
//!   that attempt.
//!
//! [GUARANTEES.md] has all assumptions, the arguments, and what a lock cannot do.
//!
//! # New nodes, and nodes that forget
//!
//! A node that restarts without its data, is flushed, or is a promoted replica has forgotten its votes. The
//! [`RestartGuard`], on by default, puts such a node into quarantine: it gives no votes until every lease that it may
//! have forgotten has ended. Only an administrator can distinguish such a node from a new node, so an administrator
//! makes a quorum of new servers once, by [`admin::init`]. [`QuorumBuilder::admit_new_nodes`] is for tests and first
//! steps. [OPERATIONS.md] has how to restart, replace and add nodes.
//!
//! # Features
//!
//! None is on by default.
//!
//! | feature | adds |
//! |---|---|
//! | `blocking` | the module `blocking`: the same API for threads, and `QuorumBuilder::connect_blocking` |
//! | `metrics` | the module `metrics`: figures for the facade of that name |
//! | `serde` | a [`FencingToken`] is a number wherever serde stores it, and a [`Fence`] two of them |
//! | `settings` | the module `settings`: quorums from a file and the environment |
//! | `sim` | the module `sim`: tests of critical sections and elections on misbehaving quorums |
//! | `tls` | nodes behind TLS: `rediss://`, `rediss+sentinel://` and `QuorumBuilder::ca_certificates` |
//! | `unstable-redis` | `QuorumBuilder::clients`, and the crate `redis` of the same version: may change in any version |
//!
//! # Pages of the repository
//!
//! [GUIDE.md] has programs to start from, [GUARANTEES.md] promises and assumptions, [OPERATIONS.md]
//! what an administrator does, [REDIS.md] servers, their settings and permissions,
//! [OBSERVABILITY.md] metrics and traces, and [SIMULATION.md] the simulator.
//!
//! [GUARANTEES.md]: https://github.com/redquorum/redquorum/blob/main/docs/GUARANTEES.md
//! [GUIDE.md]: https://github.com/redquorum/redquorum/blob/main/docs/GUIDE.md
//! [OBSERVABILITY.md]: https://github.com/redquorum/redquorum/blob/main/docs/OBSERVABILITY.md
//! [OPERATIONS.md]: https://github.com/redquorum/redquorum/blob/main/docs/OPERATIONS.md
//! [REDIS.md]: https://github.com/redquorum/redquorum/blob/main/docs/REDIS.md
//! [SIMULATION.md]: https://github.com/redquorum/redquorum/blob/main/docs/SIMULATION.md
//! [Redlock]: https://redis.io/docs/latest/develop/use/patterns/distributed-locks/
#![cfg_attr(docsrs, feature(doc_cfg))]

// For the programs that tests of the simulator share with the example `campaign`.
#[cfg(all(test, feature = "sim"))]
extern crate self as redquorum;

#[cfg(feature = "__command")]
#[doc(hidden)]
pub mod __command;
mod acquire;
mod algorithm;
#[cfg(feature = "blocking")]
pub mod blocking;
mod client;
mod clock;
mod config;
pub mod election;
pub mod error;
mod latch;
mod lease;
mod lock;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(all(test, redquorum_model))]
mod model;
mod mutation;
mod mutex;
mod node;
mod observer;
mod quorum;
mod semaphore;
#[cfg(feature = "settings")]
pub mod settings;
#[cfg(feature = "sim")]
pub mod sim;
mod spawner;
mod values;

/// What an administrator does: making and moving a quorum, listing locks, unlocking for other clients.
pub mod admin {
    pub use crate::quorum::{
        InitOutcome, fingerprint, force_unlock, init, init_if_needed, list, reconfigure,
    };
}

/// The state of locks and nodes, as the nodes report it. All types are opaque, with accessors.
pub mod inspection {
    pub use crate::{
        lock::{Inspection, LockState, NodeInspection},
        quorum::{Health, Listing, LockName},
    };
}

/// What depends on the crate `redis` of one version: may change in any version of this crate.
#[cfg(feature = "unstable-redis")]
pub mod unstable_redis {
    pub use ::redis;
}

pub use crate::{
    config::LockOptions,
    error::Error,
    latch::Latch,
    lock::{Lease, LockGuard, MultiLock, MultiLockGuard, MultiQuorumLock, Owner, ReadGuard, RedLock, RwLock},
    node::{RestartGuard, memory::MemoryCluster},
    quorum::{Quorum, QuorumBuilder, ShutdownReport},
    semaphore::{AnyOf, Permit, Semaphore},
    values::{Fence, FencingToken, LeaseId, Resource},
};
