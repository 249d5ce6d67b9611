//! Clients of quorums, on in-memory nodes, in virtual time.

#![allow(clippy::disallowed_methods, reason = "these tests pass the virtual time")]

mod admin;
mod connecting;
mod health;
mod listing;
mod moving;
mod replacement_search;
mod replacing;
#[cfg(feature = "__command")]
mod wait_graph;
