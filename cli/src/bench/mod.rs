//! The benchmark of `bench`: the load, the measurements, and the removal of keys.

pub(crate) mod histogram;
pub(crate) mod load;
pub(crate) mod nodes;
pub(crate) mod report;
pub(crate) mod residue;
