//! Locks that survive the loss of a minority of Redis masters.
//!
//! A client locks a resource on several independent Redis servers at once. The client has a lease once a majority of
//! the servers has granted in time. This algorithm is known as [Redlock]. Every lease has a [`FencingToken`]. A
//! watchdog renews the lease while its guard lives, and the client reports a loss no later than the end of the
//! validity.
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
//! charge(guard.fencing_token()).await; // the ledger refuses a token that is smaller than an earlier token
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
//! | run code that stops if the lease is lost | [`RedLock::run`] | waits |
//! | read together with other readers, and write alone | [`RwLock`], by [`Quorum::rw_lock`] | waits |
//! | let a limited number of clients work at a time | [`Semaphore`], by [`Quorum::semaphore`] | waits while all permits are taken |
//! | lock several resources, all or none | [`MultiLock`], by [`Quorum::multi_lock`] | waits until all are free |
//! | lock resources of several quorums | [`MultiQuorumLock`], by [`MultiLock::across`] | waits, quorum by quorum |
//! | lock any one of several resources | [`AnyOf`], by [`Quorum::any_of`] | waits while other clients have all of them |
//! | elect a leader that all clients can query | [`Election`](election::Election), by [`Quorum::election`] | waits |
//! | wait until a number of processes have arrived | [`Latch`], by [`Quorum::latch`] | waits until the latch is open |
//! | lock a resource that your caller may hold already | an [`Owner`], with [`RedLock::owned_by`] | re-enters if that owner holds it |
//! | know which client holds a resource | [`Quorum::inspect`] | names the lease, and the answer of each node |
//! | end a lease whose holder has stopped | [`admin::force_unlock`] | ends the lease of any holder |
//!
//! The `try_` calls return `Ok(None)` if another client holds the resource. Every call returns an error if no quorum
//! answers. All calls have the same [`Error`] type, with four variants by which a program decides.
//!
//! # A guard, or a closure?
//!
//! With a [`LockGuard`], call [`ensure`](Lease::ensure) at each step that needs a valid lease, or run the work in
//! [`while_valid`](Lease::while_valid). The drop of a guard unlocks, without waiting for the nodes. [`RedLock::run`]
//! calls a closure with a guard, stops the closure at a loss, and unlocks:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let quorum = redquorum::Quorum::in_memory(3)?;
//! let token = quorum.red_lock("report").run(async |guard| {
//!     // The lease is renewed while the closure runs. If the lease is lost, the closure is dropped at its present await.
//!     guard.fencing_token()
//! }).await?; // `Ok`: the lease was valid until the closure returned
//! println!("reported under token {token}");
//! # Ok(())
//! # }
//! ```
//!
//! # The duration of a lease
//!
//! A lease is renewed until its guard is dropped. [`without_renewal`](LockOptions::without_renewal) lets the lease end
//! with its ttl. [`hold_at_most`](LockOptions::hold_at_most) ends the lease after a time, in spite of renewals.
//! [`hold_at_least`](LockOptions::hold_at_least) keeps the resource taken for a time, even if the lease ends earlier.
//!
//! # What is promised, and on what it rests
//!
//! * *Exclusion*: two leases on one resource are never valid at the same time, unless both only read. This depends on
//!   assumptions. The rates of the clocks of clients and nodes differ by less than the configured drift. No node's
//!   clock steps forward by more than 2 ms while a lease lives. The client's clock continues while the client is
//!   suspended. If a node forgets votes, the [`RestartGuard`] notices. All clients name the same nodes and have the
//!   same restart guard, and no two addresses lead to one server. No lease is force-unlocked, and no other program
//!   deletes keys.
//! * *Order*: fencing tokens are unique per resource and grow from lease to lease. Readers may share a token. This does
//!   not depend on clocks as long as the nodes remember their counters.
//! * *Honesty*: [`Lease::is_valid`] returns false and [`Lease::lost`] is ready no later than the end of the lease, in
//!   every state of nodes and network, if the client's clock continues. No lock can cover the time between a check of
//!   the lease and the next write. The token covers that time.
//! * *No residue*: a call that was cancelled, dropped, refused or timed out leaves no key on the nodes. On a node that
//!   is unreachable, or refuses the client, the key expires one ttl after the node last executed a request of that
//!   attempt.
//!
//! [GUARANTEES.md] has all assumptions, the arguments, and the limits of a lock.
//!
//! # Processes and runtimes
//!
//! A client belongs to its process and to the tokio runtime of its [`connect`](QuorumBuilder::connect). In a forked
//! copy of the process, and after the end of the runtime, no lease is valid, and every call returns [`Error::Closed`]
//! at once, with the reason. A program that forks connects in each process, after the fork.
//!
//! # New nodes, and nodes that forget
//!
//! A node may forget votes if it restarts without its data, if it is flushed, or if it is a promoted replica. The
//! [`RestartGuard`], on by default, puts such a node into quarantine: the node gives no votes until every lease that it
//! may have forgotten has ended. Only an administrator can distinguish such a node from a new node. Therefore an
//! administrator makes a quorum of new servers once, by [`admin::init`]. [`QuorumBuilder::admit_new_nodes`] is for
//! tests and first steps. [OPERATIONS.md] describes how to restart, replace and add nodes.
//!
//! # Features
//!
//! No feature is on by default.
//!
//! | feature | adds |
//! |---|---|
//! | `blocking` | the module `blocking`: the same API for threads, and `QuorumBuilder::connect_blocking` |
//! | `metrics` | the module `metrics`: counters, gauges and histograms for the facade of that name |
//! | `serde` | serde stores a [`FencingToken`] as a number, and a [`Fence`] as two numbers |
//! | `settings` | the module `settings`: quorums from a file and the environment |
//! | `sim` | the module `sim`: tests of critical sections and elections on misbehaving quorums |
//! | `tls` | nodes behind TLS: `rediss://`, `rediss+sentinel://` and `QuorumBuilder::ca_certificates` |
//! | `unstable-redis` | `QuorumBuilder::clients`, and the crate `redis` of the same version: may change in any version |
//!
//! # Pages of the repository
//!
//! [GUIDE.md] has example programs, [GUARANTEES.md] promises and assumptions, [OPERATIONS.md] the tasks of an
//! administrator, [REDIS.md] servers, their settings and permissions, [OBSERVABILITY.md] metrics and traces, and
//! [SIMULATION.md] the simulator.
//!
//! [GUARANTEES.md]: https://github.com/redquorum/redquorum/blob/main/docs/GUARANTEES.md
//! [GUIDE.md]: https://github.com/redquorum/redquorum/blob/main/docs/GUIDE.md
//! [OBSERVABILITY.md]: https://github.com/redquorum/redquorum/blob/main/docs/OBSERVABILITY.md
//! [OPERATIONS.md]: https://github.com/redquorum/redquorum/blob/main/docs/OPERATIONS.md
//! [REDIS.md]: https://github.com/redquorum/redquorum/blob/main/docs/REDIS.md
//! [SIMULATION.md]: https://github.com/redquorum/redquorum/blob/main/docs/SIMULATION.md
//! [Redlock]: https://redis.io/docs/latest/develop/use/patterns/distributed-locks/
#![cfg_attr(docsrs, feature(doc_cfg))]

// The programs that the tests of `sim` share with the example `campaign` refer to this crate by its name.
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
mod process;
mod quorum;
mod semaphore;
#[cfg(feature = "settings")]
pub mod settings;
#[cfg(feature = "sim")]
pub mod sim;
mod spawner;
mod values;

/// The calls of an administrator: making and moving a quorum, replacing a node, listing locks, force-unlocking
/// resources.
pub mod admin {
    pub use crate::quorum::{
        Abandoned, InitOutcome, Replaced, Replacement, abandon_replacement, fingerprint, force_unlock,
        give_up_reconfigure, init, init_if_needed, list, reconfigure, replace,
    };
}

/// The state of locks and nodes, according to the answers of the nodes. All types are opaque, with accessors.
pub mod inspection {
    pub use crate::{
        lock::{Inspection, LatchInspection, LockState, NodeInspection},
        quorum::{Health, Listing, LockName},
    };
}

/// The crate `redis` in the version that this crate uses. This version may change in any version of this crate.
#[cfg(feature = "unstable-redis")]
pub mod unstable_redis {
    pub use ::redis;
}

pub use crate::{
    config::LockOptions,
    error::Error,
    latch::Latch,
    lock::{Lease, LockGuard, MultiLock, MultiLockGuard, MultiQuorumLock, Owner, ReadGuard, RedLock, RwLock},
    node::{RestartGuard, memory::MemoryCluster, redis::Credentials},
    quorum::{Quorum, QuorumBuilder, ShutdownReport},
    semaphore::{AnyOf, Permit, Semaphore},
    values::{Fence, FencingToken, LeaseId, Resource, Ticket},
};
