//! The module [`admin`] for threads.

use super::{Quorum, runtime::Runtime};
use crate::{
    QuorumBuilder,
    admin::{self, InitOutcome},
    error::{AdminError, Error, NodeReplies},
    inspection::{Listing, LockName},
};

/// As [`crate::admin::init`]; blocks.
///
/// # Errors
///
/// As there; [`AdminError::Config`] (`NoRuntime`) if the thread cannot be started.
pub fn init(quorum: &QuorumBuilder) -> Result<(), AdminError> {
    Runtime::start()?.wait(admin::init(quorum))
}

/// As [`crate::admin::init_if_needed`]; blocks.
///
/// # Errors
///
/// As there; [`AdminError::Config`] (`NoRuntime`) if the thread cannot be started.
pub fn init_if_needed(quorum: &QuorumBuilder) -> Result<InitOutcome, AdminError> {
    Runtime::start()?.wait(admin::init_if_needed(quorum))
}

/// As [`crate::admin::reconfigure`]; blocks.
///
/// # Errors
///
/// As there; [`AdminError::Config`] (`NoRuntime`) if the thread cannot be started.
pub fn reconfigure(from: &QuorumBuilder, to: &QuorumBuilder) -> Result<(), AdminError> {
    Runtime::start()?.wait(admin::reconfigure(from, to))
}

/// As [`crate::admin::force_unlock`]; blocks.
///
/// # Errors
///
/// As there.
pub fn force_unlock(quorum: &Quorum, resource: impl AsRef<[u8]>) -> Result<NodeReplies, Error> {
    quorum.runtime().wait(admin::force_unlock(quorum.client(), resource))
}

/// As [`crate::admin::list`]; blocks.
///
/// # Errors
///
/// As there.
pub fn list(quorum: &Quorum, is_wanted: impl Fn(&LockName) -> bool) -> Result<Listing, Error> {
    quorum.runtime().wait(admin::list(quorum.client(), is_wanted))
}
