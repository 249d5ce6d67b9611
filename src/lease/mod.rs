//! Active leases: their renewal, expiry and unlock.

pub(crate) mod active_lease;
pub(crate) mod expiry;
mod force_unlock_listener;
mod lease_timers;
pub(crate) mod leases;
mod rate_limit;
pub(crate) mod renewal;
mod renewal_tally;
pub(crate) mod unlock;
pub(crate) mod unlock_tally;
pub(crate) mod watchdog;
