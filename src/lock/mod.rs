//! Locks of one resource or several, their guards, and who holds them.

pub(crate) mod client;
pub(crate) mod closure;
mod downgrade;
mod force_unlock;
pub(crate) mod guard;
pub(crate) mod inspection;
mod joint_lease;
pub(crate) mod lease;
pub(crate) mod lock_call;
pub(crate) mod lock_request;
mod multi_guard;
mod multi_lock;
pub(crate) mod node_inspection;
mod owner;
mod red_lock;
mod rw_lock;
#[cfg(test)]
pub(crate) mod tests;

pub use self::{
    closure::RunOutput,
    guard::{LockGuard, Verification},
    inspection::{Inspection, LockState, NodeHolder},
    lease::Lease,
    multi_guard::MultiLockGuard,
    multi_lock::MultiLock,
    node_inspection::NodeInspection,
    owner::Owner,
    red_lock::RedLock,
    rw_lock::RwLock,
};
