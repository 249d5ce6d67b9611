//! Leader election by the lock on the name of the election, for `Quorum::election`.
//!
//! ```text
//! campaign ── lock ── proclaim the value ──▶ Leadership ── while_valid, lost, proclaim, resign
//!                          │ again after every third of the ttl
//!                          ▼
//!                     nodes: the lock, and beside the lock the lease id, term and value of the leader
//!                          │ notices
//!                          ▼
//! leader, observe ── the holder of the lock on q nodes, and its last value ──▶ Leader
//! ```
//!
//! The leader is the holder of the lock on the name of the election. The term of the leader is the fencing token of its
//! lease. Therefore the promises of locks are also the promises of elections. An election adds only the value, which
//! the leader proclaims.

#[expect(clippy::module_inception, reason = "a file is named after its type")]
mod election;
mod leader;
mod leader_query;
mod leaders;
mod leadership;
mod publisher;
#[cfg(test)]
mod tests;
mod value;

pub use self::{election::Election, leader::Leader, leaders::Leaders, leadership::Leadership};
