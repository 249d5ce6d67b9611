//! The acquisition of a lease: attempts, and the wait for the next attempt.

pub(crate) mod any_of;
pub(crate) mod attempt;
pub(crate) mod checked_request;
pub(crate) mod last_attempt;
mod local_waiter;
mod notifier;
pub(crate) mod outcome;
mod queue_entries;
pub(crate) mod shared_outage;
pub(crate) mod stall_watchdog;
pub(crate) mod waiters;
pub(crate) mod waiting;
