//! Blocking versions of the async functions of the module [`crate::admin`]. [`crate::admin::fingerprint`] is not
//! async, and is for both APIs.
//!
//! [`force_unlock`] and [`list`] use the thread of their client. Each other function starts a thread for the
//! connections of the call. That thread ends after the call.

use super::{Quorum, runtime::Runtime};
use crate::{
    QuorumBuilder,
    admin::{self, Abandoned, InitOutcome, Replaced, Replacement},
    error::{AdminError, Error, NodeReplies},
    inspection::{Listing, LockName},
};

/// Calls [`crate::admin::init`], and blocks until the result.
///
/// # Errors
///
/// The errors of that call; [`AdminError::Config`] (`NoRuntime`) if the thread for the connections cannot be started.
pub fn init(quorum: &QuorumBuilder) -> Result<(), AdminError> {
    Runtime::start()?.wait(admin::init(quorum))
}

/// Calls [`crate::admin::init_if_needed`], and blocks until the result.
///
/// # Errors
///
/// The errors of that call; [`AdminError::Config`] (`NoRuntime`) if the thread for the connections cannot be started.
pub fn init_if_needed(quorum: &QuorumBuilder) -> Result<InitOutcome, AdminError> {
    Runtime::start()?.wait(admin::init_if_needed(quorum))
}

/// Calls [`crate::admin::reconfigure`], and blocks until the result.
///
/// # Errors
///
/// The errors of that call; [`AdminError::Config`] (`NoRuntime`) if the thread for the connections cannot be started.
pub fn reconfigure(from: &QuorumBuilder, to: &QuorumBuilder) -> Result<(), AdminError> {
    Runtime::start()?.wait(admin::reconfigure(from, to))
}

/// Calls [`crate::admin::give_up_reconfigure`], and blocks until the result.
///
/// # Errors
///
/// The errors of that call; [`AdminError::Config`] (`NoRuntime`) if the thread for the connections cannot be started.
pub fn give_up_reconfigure(from: &QuorumBuilder, to: &QuorumBuilder) -> Result<(), AdminError> {
    Runtime::start()?.wait(admin::give_up_reconfigure(from, to))
}

/// Calls [`crate::admin::replace`], and blocks until the result.
///
/// # Errors
///
/// The errors of that call; [`AdminError::Config`] (`NoRuntime`) if the thread for the connections cannot be started.
pub fn replace(quorum: &QuorumBuilder, replacement: &Replacement) -> Result<Replaced, AdminError> {
    Runtime::start()?.wait(admin::replace(quorum, replacement))
}

/// Calls [`crate::admin::abandon_replacement`], and blocks until the result.
///
/// # Errors
///
/// The errors of that call; [`AdminError::Config`] (`NoRuntime`) if the thread for the connections cannot be started.
pub fn abandon_replacement(
    quorum: &QuorumBuilder,
    replacement: &Replacement,
) -> Result<Abandoned, AdminError> {
    Runtime::start()?.wait(admin::abandon_replacement(quorum, replacement))
}

/// Calls [`crate::admin::force_unlock`], and blocks until the result.
///
/// # Errors
///
/// The errors of that call.
pub fn force_unlock(quorum: &Quorum, resource: impl AsRef<[u8]>) -> Result<NodeReplies, Error> {
    quorum.runtime().wait(admin::force_unlock(quorum.client(), resource))
}

/// Calls [`crate::admin::list`], and blocks until the result.
///
/// # Errors
///
/// The errors of that call.
pub fn list(quorum: &Quorum, is_wanted: impl Fn(&LockName) -> bool) -> Result<Listing, Error> {
    quorum.runtime().wait(admin::list(quorum.client(), is_wanted))
}
