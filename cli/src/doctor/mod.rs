//! The checks of `redquorum doctor`.
//!
//! ```text
//!   nodes ──plain commands──► gather ──Facts──► judge ──Findings──► report
//! ```
//!
//! `judge` is pure, so that tests can show every finding at each level without a server in that state.
//! `gather` uses plain connections only. A client of the quorum would register with the nodes, and the registration
//! would change the facts.

pub(crate) mod facts;
pub(crate) mod finding;
pub(crate) mod gather;
pub(crate) mod judge;
pub(crate) mod refusal;
pub(crate) mod report;
