//! The transitions from one state to the next, and their text in a trace.

use crate::model::{
    NODES,
    message::{ModelAttempt, Reply, Request},
};

/// A transition. `node` is the index of a node in the state before the transition. The number in
/// `Begin` to `Redeem` is the index of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Begin(usize),
    Retry(usize),
    RollBack(usize),
    Renew(usize),
    Unlock(usize),
    /// The client replaces its write lease by a read lease.
    Downgrade(usize),
    /// The client turns its lease into a ticket.
    IssueTicket(usize),
    Redeem(usize),
    /// A client outside of the model releases the ticket.
    ReleaseTicket,
    /// A node executes a request. If `again` is true, the request also stays in flight, so that the
    /// node may execute the request a second time.
    Execute {
        node: usize,
        request: Request,
        again: bool,
        delivery: ModelDelivery,
    },
    Deliver {
        node: usize,
        reply: Reply,
    },
    /// The key of the lock expires, with all readers of a shared key.
    Expire {
        node: usize,
    },
    /// The ttl of one reader ends.
    ExpireReader {
        node: usize,
        reader: ModelAttempt,
    },
    LoseCounter {
        node: usize,
    },
    /// The node forgets all data.
    Crash {
        node: usize,
    },
    /// The node saves its state.
    Save {
        node: usize,
    },
    /// The node restarts with the saved state.
    Restart {
        node: usize,
    },
    Tick,
}

/// The time at which a client receives the answer of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelDelivery {
    /// At any later time, or never.
    AnyTime,
    AtOnce,
    Never,
}

impl Action {
    /// Returns the text of the transition, with these names of the nodes.
    pub(super) fn named(self, names: [usize; NODES]) -> String {
        let client = |client: usize| ["a", "b", "c"][client];
        match self {
            Self::Begin(by) => format!("{} begins an attempt", client(by)),
            Self::Retry(by) => format!("{} retries at nodes that refused", client(by)),
            Self::RollBack(by) => format!("{} rolls back", client(by)),
            Self::Renew(by) => format!("{} begins a renewal", client(by)),
            Self::Unlock(by) => format!("{} unlocks", client(by)),
            Self::Downgrade(by) => format!("{} begins to downgrade", client(by)),
            Self::IssueTicket(by) => format!("{} begins to issue a ticket", client(by)),
            Self::Redeem(by) => format!("{} begins to redeem the ticket", client(by)),
            Self::ReleaseTicket => "the ticket is released".into(),
            Self::Execute { node, request: Request { of, message }, again, delivery } => {
                let again = if again { ", and may execute it again" } else { "" };
                let answered = if delivery == ModelDelivery::AtOnce { ", answered at once" } else { "" };
                format!("node {} executes {of}'s {message:?}{again}{answered}", names[node])
            }
            Self::Deliver { node, reply: Reply { to, message } } => {
                format!("{to} receives {message:?} from node {}", names[node])
            }
            Self::Expire { node } => format!("the key on node {} expires", names[node]),
            Self::ExpireReader { node, reader } => format!("{reader} expires on node {}", names[node]),
            Self::LoseCounter { node } => format!("node {} loses its counter", names[node]),
            Self::Crash { node } => format!("node {} forgets everything", names[node]),
            Self::Save { node } => format!("node {} saves its state", names[node]),
            Self::Restart { node } => format!("node {} restarts with its saved state", names[node]),
            Self::Tick => "a tick passes".into(),
        }
    }
}
