//! What can go wrong, each family of operations with an enum of its own.
//!
//! An error carries its evidence: what each node said, as [`Votes`](crate::Votes), whose reasons
//! are [`Refusal`] and [`NodeError`].

pub(crate) mod admission;
mod config;
mod connect;
mod election;
mod latch;
mod list;
mod lock;
mod run;
#[cfg(feature = "settings")]
mod settings;

pub(crate) use self::admission::AdmissionError;
#[cfg(feature = "settings")]
pub use self::settings::{InvalidDuration, SettingsError};
pub use self::{
    config::ConfigError,
    connect::{ConnectError, SameServer},
    election::ProclaimError,
    latch::LatchError,
    list::ListError,
    lock::{LeaseLost, LockError, LossReason, RenewError, UnlockError},
    run::RunError,
};
pub use crate::values::{Fenced, InvalidResource, InvalidToken, NodeError, Refusal};

/// So many of something, in words.
fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
