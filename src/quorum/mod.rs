//! Clients of quorums: construction, shutdown, health, lists and administration.

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

#[cfg(feature = "__command")]
pub use self::builder::effective::{EffectiveSettings, connectors, effective};
pub use self::{
    admin::{InitOutcome, fingerprint, force_unlock, init, init_if_needed, reconfigure},
    builder::QuorumBuilder,
    health::Health,
    listing::{Listing, LockName, list},
    quorum::Quorum,
    shutdown::ShutdownReport,
};
