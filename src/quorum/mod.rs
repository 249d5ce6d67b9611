//! Clients of quorums: construction, health, lists, shutdown, administration, moves and replacements.

mod admin;
pub(crate) mod builder;
mod connecting;
mod health;
mod listing;
mod moving;
#[expect(clippy::module_inception, reason = "a file is named after its type")]
mod quorum;
mod replacement_record;
pub(crate) mod replacing;
pub(crate) mod shutdown;
#[cfg(test)]
mod tests;
#[cfg(feature = "__command")]
mod wait_graph;

#[cfg(feature = "__command")]
pub use self::{
    admin::unconnected,
    builder::effective::{EffectiveSettings, connectors, effective},
    listing::list_answering,
    moving::reconfigure_unless_done,
    wait_graph::{AwaitedLock, WaitGraph, WaitStep},
};
pub use self::{
    admin::{InitOutcome, fingerprint, force_unlock, init, init_if_needed},
    builder::QuorumBuilder,
    health::Health,
    listing::{Listing, LockName, list},
    moving::{give_up_reconfigure, reconfigure},
    quorum::Quorum,
    replacing::{Abandoned, Replaced, Replacement, abandon_replacement, replace},
    shutdown::ShutdownReport,
};
