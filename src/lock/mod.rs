//! Locks: what `algorithm` decides, performed on nodes.
//!
//! Submitting to a node never blocks, so everything that must happen in any case (rolling back,
//! unlocking) is submitted on the spot, from `Drop` too, and needs no task to survive for it.

pub(crate) mod active_lease;
mod admin;
pub(crate) mod builder;
mod closure;
mod connecting;
pub(crate) mod core;
pub(crate) mod expiry;
pub(crate) mod fanout;
mod guard;
mod in_flight_counter;
mod inspection;
mod lock_call;
pub(crate) mod lock_request;
pub(crate) mod locking;
mod multi_guard;
mod multi_lock;
mod node_inspection;
mod notifier;
mod overseer;
mod owner;
mod queue_entries;
mod queue_node;
mod queues;
mod quorum;
mod red_lock;
mod release;
pub(crate) mod renewal;
mod schedule;
pub(crate) mod shutdown;
#[cfg(test)]
pub(crate) mod tests;
mod waiting;
mod watchdog;

pub use self::{
    admin::Initialized,
    builder::QuorumBuilder,
    closure::{Lease, RunOutput},
    guard::{LockGuard, Verification},
    inspection::{Inspection, LockState, NodeHolder},
    multi_guard::MultiLockGuard,
    multi_lock::MultiLock,
    node_inspection::NodeInspection,
    owner::Owner,
    quorum::Quorum,
    red_lock::RedLock,
    release::Unlocked,
    shutdown::Shutdown,
};
