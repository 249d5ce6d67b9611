//! The client context, which is the state that all calls of one client share, and fan-outs to the nodes. All code that
//! sends the requests of calls uses this folder. The type `Client` in `lock/client.rs` adds leases and waiters.
//!
//! The submission of a request to a node never blocks. Therefore rollbacks and unlocks are submitted at once, even in
//! `Drop`, and depend on no task.

pub(crate) mod broadcast;
mod closed_signal;
pub(crate) mod context;
pub(crate) mod dependencies;
pub(crate) mod fanout;
pub(crate) mod in_flight_counter;
pub(crate) mod notice_waker;
pub(crate) mod outage_warnings;
pub(crate) mod permit_counts;
pub(crate) mod queue_node_view;
pub(crate) mod responsiveness;
mod unawaited_replies;
pub(crate) mod waiter_cache;
