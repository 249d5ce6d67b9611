//! Clients of quorums: how they are made and shut down, and what they see of all nodes.

mod admin;
pub(crate) mod builder;
mod connecting;
mod health;
mod listing;
#[expect(clippy::module_inception, reason = "a file is named after its type")]
mod quorum;
pub(crate) mod shutdown;
#[cfg(test)]
mod tests;

pub use self::{
    admin::Initialized,
    builder::{QuorumBuilder, effective::EffectiveSettings},
    health::Health,
    listing::{ListedLock, Listing, LockName},
    quorum::Quorum,
    shutdown::Shutdown,
};
