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
//! | you want to | call | held by another |
//! |---|---|---|
//! | do it when it is your turn | [`RedLock::lock`] | waits |
//! | do it unless somebody else does | [`RedLock::try_lock`] | `Ok(None)` |
//! | do it soon or not at all | [`RedLock::try_lock_for`] | waits, then [`TimedOut`](error::LockError::TimedOut) |
//! | run a piece of code that has to stop when the lease is lost | [`RedLock::run`] | waits |
//! | read together with others, and write alone | [`Quorum::rw_lock`] | waits |
//! | let so many work at a time | [`Quorum::semaphore`] | waits while all permits are taken |
//! | lock any one of several resources | [`Quorum::any_of`] | waits while others have all of them |
//! | lock several resources, all or none | [`Quorum::multi_lock`] | waits for all of them |
//! | lock resources of several quorums | [`MultiLock::new`] | waits, quorum by quorum |
//! | lock again what your caller may hold already | an [`Owner`], with [`RedLock::owned_by`] | re-enters if it is held by that owner |
//! | only know who holds it | [`RedLock::inspect`] | says who, and what each node answered |
//! | end a lock whose holder is gone | [`RedLock::force_unlock`] | unlocks it for any holder |
//! | lead until it is lost, with one leader whom others can see | [`Election::campaign`] | waits |
//!
//! Being held by another is no error of `try_lock`; that no quorum answered is one, of every call.
//!
//! # A guard, or a closure?
//!
//! A [`LockGuard`] leaves the flow to you: ask [`ensure`](Lease::ensure) where validity has to
//! be there, or wait for [`lost`](Lease::lost) beside the work. Dropping it unlocks, without
//! waiting for the nodes. [`RedLock::run`] waits for the loss and unlocks round a closure, and
//! returns its value whatever becomes of the unlock:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let quorum = redquorum::Quorum::in_memory(3)?;
//! let done = quorum.red_lock("report").run(async |lease| {
//!     // Renewed while this runs; dropped at an await if the lease is lost.
//!     lease.fencing_token()
//! }).await?;
//! println!("reported under token {}", done.value);
//! # Ok(())
//! # }
//! ```
//!
//! # How long does it last?
//!
//! A lease is renewed until its guard is dropped. [`without_renewal`](RedLock::without_renewal)
//! gives one that ends with its ttl, [`max_hold`](LockOptions::max_hold) one that ends for certain,
//! however often it is renewed.
//!
//! # What is promised, and on what it rests
//!
//! * *Exclusion*: two leases on a resource never overlap, unless both only read it, if the rates of
//!   all clocks differ by less than the configured drift, no node's clock steps forward by more
//!   than 2 ms while a lease is held, the client's clock counts on while the client stands still,
//!   no node forgets a vote unseen by the [`RestartGuard`], all clients name the same nodes, no two
//!   of which are one server, and nobody unlocks by force or deletes keys by hand.
//! * *Order*: fencing tokens are unique and increase from lease to lease, but that readers may share
//!   one, whatever the clocks do, as long as the nodes remember their counters.
//! * *Honesty*: [`Lease::is_valid`] turns false, and [`Lease::lost`] is ready, no later
//!   than the end of validity, whatever happens to nodes and network. What this cannot cover is the
//!   time between looking and acting: that is what tokens are for.
//! * *No residue*: whatever is cancelled, dropped, refused or timed out is taken back. On a node
//!   that cannot be reached, or does not let the client register, it ends one ttl after the node
//!   last executed something of it.
//!
//! The arguments, and what to do where a lock cannot help, are in [GUARANTEES.md].
//!
//! # New nodes, and nodes that forget
//!
//! A node that restarts without its votes, is flushed, or is a promoted replica votes for nobody
//! until every lease is over that it may have forgotten; that is what [`RestartGuard`] is for, and
//! it is on by default. Nobody but an administrator can tell such a node from a new one. So a
//! quorum of new servers is made once, by [`QuorumBuilder::init`];
//! [`QuorumBuilder::admit_new_nodes`] is for tests and first steps. How to restart, replace and add
//! nodes is in [OPERATIONS.md].
//!
//! # Features
//!
//! None is on by default.
//!
//! | feature | adds |
//! |---|---|
//! | `blocking` | the module `blocking`: the same locks and elections without async |
//! | `metrics` | the module `metrics`: figures for the facade of that name |
//! | `serde` | a [`FencingToken`] is a number wherever serde stores it |
//! | `settings` | the module `settings`: quorums from a file and the environment |
//! | `sim` | the module `sim`: tests of critical sections and elections on misbehaving quorums |
//! | `tls` | nodes behind TLS: `rediss://`, `rediss+sentinel://` and `QuorumBuilder::tls` |
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

mod acquire;
mod algorithm;
#[cfg(feature = "blocking")]
pub mod blocking;
mod client;
mod clock;
mod config;
mod election;
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

/// Types of the calls that make, move and watch over quorums: [`QuorumBuilder::init`],
/// [`init_if_needed`](QuorumBuilder::init_if_needed), [`reconfigure`](QuorumBuilder::reconfigure),
/// [`fingerprint`](QuorumBuilder::fingerprint), [`effective`](QuorumBuilder::effective) and
/// [`connectors`](QuorumBuilder::connectors).
pub mod admin {
    pub use crate::{
        error::admission::AdmissionError,
        node::redis::{NodeConnector, node_urls},
        quorum::{EffectiveSettings, Initialized},
        values::Fingerprint,
    };
}

/// Who holds a resource, as [`RedLock::inspect`] reports it, and what is locked, as [`Quorum::list`] does.
pub mod inspection {
    pub use crate::{
        lock::{Inspection, LockState, NodeHolder, NodeInspection},
        quorum::{Health, ListedLock, Listing, LockName},
    };
}

/// The crate whose clients [`QuorumBuilder::clients`] takes, in the version that it takes them in:
/// redis 1.8. A new minor version of it is a new minor version of this crate, and a new major one a
/// new major one.
pub use ::redis;

#[cfg(feature = "tls")]
pub use crate::node::redis::Tls;
pub use crate::{
    config::LockOptions,
    election::{Election, Leader, Leadership, Observation},
    latch::Latch,
    lease::Unlocked,
    lock::{Lease, LockGuard, MultiLock, MultiLockGuard, Owner, RedLock, RunOutput, RwLock, Verification},
    node::{RestartGuard, memory::MemoryCluster},
    quorum::{Quorum, QuorumBuilder, Shutdown},
    semaphore::{AnyOf, Permit, Semaphore, SlotToken},
    values::{Fence, FencingToken, OwnerId, Resource, Vote, Votes},
};

/// The README's examples, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The guide's examples, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../docs/GUIDE.md")]
struct Guide;

/// The examples of the simulator's page, run as tests.
#[cfg(all(doctest, feature = "sim"))]
#[doc = include_str!("../docs/SIMULATION.md")]
struct Simulations;
