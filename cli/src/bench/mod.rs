//! Locks under load: tasks that lock and unlock, and what comes of it.

pub(crate) mod histogram;
pub(crate) mod load;
pub(crate) mod nodes;
pub(crate) mod report;
pub(crate) mod residue;
