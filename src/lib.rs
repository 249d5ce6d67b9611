//! Locks that survive the loss of a minority of Redis masters.
//!
//! A lock is taken on several independent Redis servers at once and is held once a majority of them has granted it in time
//! (the algorithm known as [Redlock]). Every lease carries a [`FencingToken`], is renewed by a watchdog for as long as its guard
//! lives, and is announced as lost no later than its validity ends.
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
//! # Ok(())
//! # }
//! # async fn charge(token: FencingToken) { assert!(token.as_u64() > 0) }
//! ```
//!
//! # Which call do I want?
//!
//! | you want to | call | held by another |
//! |---|---|---|
//! | do it when it is your turn | [`RedLock::lock`] | waits |
//! | do it unless somebody else does | [`RedLock::try_lock`] | `Ok(None)` |
//! | do it soon or not at all | [`RedLock::try_lock_for`] | waits, then [`LockError::TimedOut`] |
//!
//! A lease is renewed until its guard is dropped; [`without_renewal`](RedLock::without_renewal) gives one that ends with its
//! ttl, [`max_hold`](RedLock::max_hold) one that ends for certain.
//!
//! # What is promised, and on what it rests
//!
//! * *Exclusion*: two leases on a resource never overlap, if the rates of all clocks differ by less than the configured
//!   drift, no node's clock steps by more than 2 ms while a lease is held, and no node forgets a vote that it gave.
//! * *Order*: fencing tokens are unique and increase from lease to lease, whatever the clocks do, as long as the nodes remember
//!   their counters.
//! * *Honesty*: [`LockGuard::is_valid`] turns false, and [`LockGuard::lost`] is ready, no later than the end of validity,
//!   under any fault. What this cannot cover is the time between looking and acting: that is what tokens are for.
//! * *No residue*: whatever is cancelled, dropped, refused or timed out is taken back. On a node that cannot be reached it
//!   ends one ttl after the node last executed something of it.
//!
//! [Redlock]: https://redis.io/docs/latest/develop/use/patterns/distributed-locks/

mod algorithm;
mod clock;
mod config;
mod error;
mod lock;
mod mutex;
mod node;
mod owner_id;
mod resource;
mod vote;

pub use crate::{
    algorithm::fencing::FencingToken,
    clock::Instant,
    config::RetryPolicy,
    error::{ConfigError, ConnectError, LeaseLost, LockError, LossReason, RenewError, RunError, UnlockError},
    lock::{
        Done, Inspection, Lease, LockGuard, LockState, MultiLock, MultiLockGuard, Owner, Quorum,
        QuorumBuilder, RedLock, Seen, Unlocked, Verification,
    },
    node::{Fault, Fingerprint, memory::MemoryCluster},
    owner_id::OwnerId,
    resource::Resource,
    vote::{Refusal, Vote, Votes},
};

/// The README's examples, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
