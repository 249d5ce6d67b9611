//! Leases that are held: renewed while they are, and unlocked when they end.

pub(crate) mod active_lease;
pub(crate) mod expiry;
mod forced;
pub(crate) mod leases;
pub(crate) mod renewal;
mod renewal_tally;
mod schedule;
pub(crate) mod unlock;
pub(crate) mod unlock_tally;
pub(crate) mod watchdog;
