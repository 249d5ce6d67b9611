//! The acquisition of a lease: attempts, and the wait for the next attempt. `lock/` and `semaphore/` use this folder.
//!
//! The word *turn* has two meanings here. The *local turn* passes between the tasks of one client that wait for the
//! same resources: only the task with the local turn makes attempts. A client has *its turn* at a queue node if no
//! waiter is ahead in the wait queue.

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
