//! A model of the protocol, searched exhaustively.
//!
//! ```text
//!  client a ──┐  Lock, WriteBack, Renew, Unlock    ┌── NodeModel: NodeState::apply
//!             ├── in flight, in any order ──────── ┼── NodeModel
//!  client b ──┤  votes                             └── NodeModel
//!  client c ──┘
//! ```
//!
//! The nodes run real code: a node executes each request by [`NodeState::apply`], the function that
//! in-memory nodes wrap and that tests compare with the scripts. The clients belong to the model,
//! and are so small that a search can visit every state. A client may roll back at any moment
//! before its attempt is decided. The network delivers messages in flight in any order. If the
//! bounds of a search allow duplicates, a node may execute a request twice. A message may stay in
//! flight until the end of the search, except in searches for leftover keys. A real connection
//! gives fewer orders, because a connection keeps the order of its messages.
//!
//! ```text
//!  event                phase of a client             decision
//!  ─────                ─────────────────             ────────
//!  begin ─────────────> idle                       ─> send locks
//!  vote ──────────────> locking, a quorum          ─> token: the largest vote, write back below it
//!  written back ──────> confirming, a quorum       ─> grant
//!  retry ─────────────> locking, refused by nodes  ─> send those locks again, as a queued waiter
//!  roll back ─────────> locking, confirming        ─> send unlocks, idle
//!  renew, answers ────> holding, a quorum counts   ─> extend or verify the lease
//!  downgrade ─────────> holding a write lease      ─> locking, as a reader
//!  issue ticket ──────> holding                    ─> locking, as the ticket
//!  redeem ────────────> idle, a ticket exists      ─> locking, by transfers from the ticket
//!  unlock ────────────> holding                    ─> send unlocks, idle
//! ```
//!
//! There are two kinds of searches. Without [`Timing`](bounds::Timing), the clocks of the nodes
//! stand still, and a key may expire at any moment if the [bounds](bounds::Bounds) allow expiries.
//! A property that holds for any number of expiries does not depend on clocks. With timing, time
//! passes in ticks, and ttls end by the clocks of the nodes.
//!
//! A property that holds shows little if the search cannot find violations. Therefore further tests
//! break one rule each, and the search of such a test must find a state that violates the property.
//! `docs/MODEL.md` describes the scope of the model, its limits and its findings.
//!
//! The model is compiled only with `RUSTFLAGS="--cfg redquorum_model"`, so that other builds do not
//! need the search library. Without this flag, `cargo test` does not run the model.
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
mod tickets;
mod verification;

/// The number of nodes: the smallest number at which a majority may miss a node.
const NODES: usize = 3;

/// The number of clients: enough for a writer and two readers. In searches with two clients, the
/// third client is idle.
const CLIENTS: usize = 3;
