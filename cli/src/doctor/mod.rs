//! Whether the nodes are a sound quorum.
//!
//! ```text
//!   nodes ──plain commands──► gather ──Facts──► judge ──Findings──► report
//! ```
//!
//! What is judged is data: `judge` asks nobody, so that every finding can be shown in each of its
//! levels without a server that is in that state. `gather` asks on connections of its own, as what
//! a client of the quorum does to nodes (it registers) would change what is to be seen.

pub(crate) mod facts;
pub(crate) mod finding;
pub(crate) mod gather;
pub(crate) mod judge;
pub(crate) mod report;
