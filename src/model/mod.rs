//! A model of the protocol, searched exhaustively.
//!
//! ```text
//!  client a ──┐  Lock, WriteBack, Renew, Unlock    ┌── NodeModel: NodeState::apply
//!             ├── in flight, in any order ──────── ┼── NodeModel
//!  client b ──┤  votes                             └── NodeModel
//!  client c ──┘
//! ```
//!
//! The nodes are real: each step of a node is [`NodeState::apply`], the function that in-memory
//! nodes wrap and that the scripts are compared with. The clients belong to the model, and are
//! small enough that every state of them can be visited: they lock, decide at any quorum, write
//! back, renew, unlock, and may roll back at any moment. The network delivers messages in flight in
//! any order, some of them twice, some never. This is harsher than a connection, which keeps the
//! order of its messages.
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
//!  unlock ────────────> holding                    ─> send unlocks, idle
//! ```
//!
//! Two kinds of searches exist. Without [`Timing`](bounds::Timing) the clocks of the nodes stand
//! still and a key may expire at any moment, so the properties found there need no clock. With
//! timing there are ticks, ttls end as they do in the node, and a node may forget its data.
//!
//! A property that holds says little if the search is blind. Therefore each rule is broken in turn,
//! and the search must find a state that violates the property. The scope of the model, its limits
//! and its findings are in `docs/MODEL.md`.
//!
//! The model is compiled only with `RUSTFLAGS="--cfg redquorum_model"`, so that other builds do not
//! need the search library. A `cargo test` without this flag passes without the model.
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

/// The number of nodes: the smallest at which a majority differs from a minority.
const NODES: usize = 3;

/// The number of clients: a writer and two readers. The third client is idle in searches of two.
const CLIENTS: usize = 3;
