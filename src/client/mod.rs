//! What all calls of one client need: its nodes, and how they are asked.

pub(crate) mod fanout;
pub(crate) mod in_flight_counter;
pub(crate) mod queue_node;
pub(crate) mod queues;
