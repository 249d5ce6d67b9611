//! The work of `bench`: the load, the measurements, and the deletion of the keys that remain.

pub(crate) mod histogram;
pub(crate) mod load;
pub(crate) mod nodes;
pub(crate) mod report;
pub(crate) mod residue;
