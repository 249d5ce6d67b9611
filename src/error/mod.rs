//! What can go wrong, each family of operations with an enum of its own.

mod config;
mod connect;
mod lock;
mod run;

pub use self::{
    config::ConfigError,
    connect::{AdmissionError, ConnectError},
    lock::{LeaseLost, LockError, LossReason, RenewError, UnlockError},
    run::RunError,
};
