//! What all calls of one client need: its nodes, its settings, the world that it lives in, and how
//! nodes are asked.

pub(crate) mod asking;
pub(crate) mod environment;
pub(crate) mod fanout;
pub(crate) mod in_flight_counter;
pub(crate) mod queue_node;
pub(crate) mod queues;
pub(crate) mod surroundings;
