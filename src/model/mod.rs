//! A model of the protocol, searched exhaustively.
//!
//! ```text
//!   client a ──┐  Lock, WriteBack, Renew, Unlock    ┌── NodeModel: NodeState::apply
//!              ├── in flight, in any order ──────── ┼── NodeModel
//!   client b ──┤  votes                             └── NodeModel
//!   client c ──┘
//! ```
//!
//! The nodes are real: each step of one is [`NodeState::apply`], the function that in-memory nodes
//! wrap and that the scripts are compared with. The clients are the model's own, small enough that
//! every state of them can be visited: they lock, decide at any quorum, write back, renew, unlock,
//! and may give up at any moment. The network delivers what is in flight in any order, some of it
//! twice, some of it never. That is harsher than a connection, which keeps the order of what it
//! carries.
//!
//! Two kinds of search run over it. Without [`Timing`](bounds::Timing) the clocks of the nodes
//! stand still and a key may expire at any moment: what holds there needs no clock. With it there
//! are ticks, ttls end as they do in the node, and a node may forget all that it knew.
//!
//! That a property holds is worth little if the search is blind. So each rule is broken in turn, and
//! the search has to find where the property fails. What is modelled, what is not, and what was
//! found stands in `docs/MODEL.md`.
//!
//! The model is there only with `RUSTFLAGS="--cfg redquorum_model"`, so that nobody else has to
//! build what it is searched with. A `cargo test` without this flag passes without any of it.
//!
//! [`NodeState::apply`]: crate::node::state::NodeState::apply

mod action;
mod bounds;
mod holding;
mod locking;
mod message;
mod node_model;
mod protocol;
mod rules;
mod search;
mod world;

mod downgrading;
mod exclusion;
mod forgetting;
mod order;
mod residue;
mod sharing;
mod verification;

/// As many as tell a majority from a minority.
const NODES: usize = 3;

/// A writer and two readers. The third does nothing in searches of two.
const CLIENTS: usize = 3;
