//! The decisions of the protocol, as pure state machines and functions: time, randomness and identities are arguments,
//! and decisions are return values. No code here reads a clock, draws a random number, sends a request or logs.
//!
//! The largest state machines are the attempt, the schedule of a waiter (`waiter_schedule.rs`) and the view of a latch
//! (`latch.rs`). An attempt uses these parts:
//!
//! ```text
//!   answers, timeouts, the time            what to send next, or the decision
//!  ───────────────────────────► Attempt ─────────────────────────────────────►
//!                                 │ two rounds: lock, then write-back
//!                               Round ── the nodes that were asked, and their deadlines
//!                                 │
//!                               Tally ── votes over all configured nodes
//! ```

pub(crate) mod attempt;
pub(crate) mod attempt_limit;
pub(crate) mod failed_attempt;
pub(crate) mod fencing;
pub(crate) mod holder;
pub(crate) mod inspection_patience;
pub(crate) mod latch;
pub(crate) mod lease;
pub(crate) mod node_set;
pub(crate) mod orphaned_keys;
pub(crate) mod outage;
pub(crate) mod queue_node_order;
pub(crate) mod residue;
pub(crate) mod response_times;
pub(crate) mod round;
pub(crate) mod silent_nodes;
pub(crate) mod tally;
pub(crate) mod usual_response_times;
pub(crate) mod validity;
#[cfg(feature = "__command")]
pub(crate) mod wait_cycles;
pub(crate) mod waiter_schedule;
