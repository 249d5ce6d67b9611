//! Leases that are held: renewed while they are, and unlocked when they end.

pub(crate) mod active_lease;
pub(crate) mod expiry;
pub(crate) mod release;
pub(crate) mod renewal;
pub(crate) mod schedule;
pub(crate) mod watchdog;

pub use self::release::Unlocked;
