//! Leader election, on top of the lock.
//!
//! ```text
//! campaign ── lock ── proclaim the value ──▶ Leadership ── while_valid, lost, proclaim, resign
//!                          │ again at every third of the ttl
//!                          ▼
//!                     nodes: the lock, and beside it who leads, in which term, with which value
//!                          │ notices
//!                          ▼
//! leader, observe ── who holds the lock on q nodes, and what that owner said ──▶ Leader
//! ```
//!
//! The leader is the holder of the lock on the election's name, and its term is the lock's fencing
//! token: all that is true of locks is true of leaders. What is added is the value.

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
