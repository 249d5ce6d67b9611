//! Getting a lease: attempts, and waiting for those that may succeed.

pub(crate) mod attempt;
pub(crate) mod notifier;
pub(crate) mod overseer;
pub(crate) mod queue_entries;
pub(crate) mod waiting;
