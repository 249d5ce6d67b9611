//! What can go wrong, each family of operations with an enum of its own.

mod config;
mod connect;
mod election;
mod lock;
mod run;

pub use self::{
    config::ConfigError,
    connect::{AdmissionError, ConnectError, SameServer},
    election::ProclaimError,
    lock::{LeaseLost, LockError, LossReason, RenewError, UnlockError},
    run::RunError,
};

/// So many of something, in words.
fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
