//! Locks of one or several resources, their guards, and the inspection of holders.
//!
//! The public locks ([`RedLock`], [`RwLock`], [`MultiLock`], [`MultiQuorumLock`]) describe calls, and [`lock_request`]
//! makes the calls. Programs get the locks from a `Quorum`, except [`MultiQuorumLock`], which combines several
//! [`MultiLock`]s. `semaphore/` and `election/` make lock requests of their own.

pub(crate) mod client;
mod coalesced_read_lease;
mod entrance;
pub(crate) mod force_unlock;
pub(crate) mod guard;
pub(crate) mod inspection;
mod latch_inspection;
pub(crate) mod lease;
pub(crate) mod lock_call;
pub(crate) mod lock_request;
mod multi_lock;
mod multi_quorum;
pub(crate) mod node_inspection;
mod owner;
mod red_lock;
mod rw_lock;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod ticket;

pub use self::{
    guard::{LockGuard, ReadGuard},
    inspection::{Inspection, LockState},
    latch_inspection::LatchInspection,
    lease::Lease,
    multi_lock::MultiLock,
    multi_quorum::{MultiLockGuard, MultiQuorumLock},
    node_inspection::NodeInspection,
    owner::Owner,
    red_lock::RedLock,
    rw_lock::RwLock,
};
