//! Active leases: their renewal, expiry and unlock.
//!
//! ```text
//!                                 the last hold is given back
//!   won attempt ──> Active ──┬────────────────────────────────────────> Unlocked ──┐
//!                    │  ▲    │  expired, revoked, hold limit or closed             ├──> unlock at all nodes
//!                    └──┘    └────────────────────────────────────────> Lost ──────┘
//!                   renewal
//! ```
//!
//! `lock/` and `semaphore/` register the lease of a won attempt here. The watchdog renews leases and finds revoked
//! leases. The expiry ends leases at the end of their validity.

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
