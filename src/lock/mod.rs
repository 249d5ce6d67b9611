//! What callers hold in their hands: clients of quorums, locks, guards, and what they report.

mod admin;
mod any_of;
pub(crate) mod builder;
mod choice;
pub(crate) mod client;
mod closure;
mod connecting;
mod downgrade;
mod force_unlock;
mod guard;
mod health;
mod inspection;
mod lease;
mod listing;
mod lock_call;
pub(crate) mod lock_request;
mod multi_guard;
mod multi_lock;
mod node_inspection;
mod owner;
mod permits;
mod quorum;
mod red_lock;
mod rw_lock;
mod semaphore;
mod shared_lease;
pub(crate) mod shutdown;
mod surplus;
#[cfg(test)]
pub(crate) mod tests;

pub use self::{
    admin::Initialized,
    any_of::AnyOf,
    builder::{QuorumBuilder, effective::EffectiveSettings},
    closure::RunOutput,
    guard::{LockGuard, Verification},
    health::Health,
    inspection::{Inspection, LockState, NodeHolder},
    lease::Lease,
    listing::{ListedLock, Listing, LockName},
    multi_guard::MultiLockGuard,
    multi_lock::MultiLock,
    node_inspection::NodeInspection,
    owner::Owner,
    quorum::Quorum,
    red_lock::RedLock,
    rw_lock::RwLock,
    semaphore::{Permit, Semaphore, SlotToken},
    shutdown::Shutdown,
};
