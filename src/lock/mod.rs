//! Locks: what `algorithm` decides, performed on nodes.
//!
//! Submitting to a node never blocks, so everything that must happen in any case (rolling back, unlocking) is submitted
//! on the spot, from `Drop` too, and needs no task to survive for it.

mod builder;
mod core;
mod expiry;
mod fanout;
mod guard;
mod held;
mod inspection;
mod locking;
mod quorum;
mod red_lock;
mod release;
mod renewal;
mod schedule;
#[cfg(test)]
mod tests;
mod waiting;
mod watchdog;

pub use self::{
    builder::QuorumBuilder,
    guard::{LockGuard, Verification},
    quorum::Quorum,
    red_lock::RedLock,
    release::Unlocked,
};
