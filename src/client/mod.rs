//! What all calls of one client need: its nodes, its settings, the world that it lives in, and how
//! nodes are asked. The type `Client`, which has locks and leases, too, is above: `lock/client.rs`.
//!
//! Submitting to a node never blocks, so everything that must happen in any case (rolling back,
//! unlocking) is submitted on the spot, from `Drop` too, and needs no task to survive for it.

pub(crate) mod broadcast;
pub(crate) mod context;
pub(crate) mod dependencies;
pub(crate) mod fanout;
pub(crate) mod in_flight_counter;
pub(crate) mod queue_node_view;
pub(crate) mod queues;
pub(crate) mod wake;
