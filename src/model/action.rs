//! What happens from one state to the next.

use crate::model::{
    NODES,
    message::{AttemptId, Reply, Request},
};

/// One thing that happens. Nodes are named by their place in the state before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Begin(usize),
    Retry(usize),
    RollBack(usize),
    Renew(usize),
    Unlock(usize),
    /// The client gives its write lease up for a read lease.
    Downgrade(usize),
    /// `again`: a copy stays in flight.
    Execute {
        node: usize,
        request: Request,
        again: bool,
        delivery: Delivery,
    },
    Deliver {
        node: usize,
        reply: Reply,
    },
    /// The key of the lock ends, with all readers if it is theirs.
    Expire {
        node: usize,
    },
    /// One reader's ttl ends.
    ExpireReader {
        node: usize,
        reader: AttemptId,
    },
    LoseCounter {
        node: usize,
    },
    /// The node forgets everything.
    Crash {
        node: usize,
    },
    /// The node saves what it has.
    Save {
        node: usize,
    },
    /// The node comes back with what it saved.
    Restart {
        node: usize,
    },
    Tick,
}

/// When a client hears what a node answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// At any time, or never.
    AnyTime,
    AtOnce,
    Never,
}

impl Action {
    /// In words, where the nodes have these names.
    pub(super) fn named(self, names: [usize; NODES]) -> String {
        let client = |client: usize| ["a", "b", "c"][client];
        match self {
            Self::Begin(by) => format!("{} begins an attempt", client(by)),
            Self::Retry(by) => format!("{} retries at nodes that refused", client(by)),
            Self::RollBack(by) => format!("{} rolls back", client(by)),
            Self::Renew(by) => format!("{} begins a renewal", client(by)),
            Self::Unlock(by) => format!("{} unlocks", client(by)),
            Self::Downgrade(by) => format!("{} begins to downgrade", client(by)),
            Self::Execute { node, request: Request { of, message }, again, delivery } => {
                let again = if again { ", and will repeat it" } else { "" };
                let answered = if delivery == Delivery::AtOnce { ", answered at once" } else { "" };
                format!("node {} executes {of}'s {message:?}{again}{answered}", names[node])
            }
            Self::Deliver { node, reply: Reply { to, message } } => {
                format!("{to} receives {message:?} from node {}", names[node])
            }
            Self::Expire { node } => format!("the key on node {} expires", names[node]),
            Self::ExpireReader { node, reader } => format!("{reader} expires on node {}", names[node]),
            Self::LoseCounter { node } => format!("node {} loses its counter", names[node]),
            Self::Crash { node } => format!("node {} forgets everything", names[node]),
            Self::Save { node } => format!("node {} saves what it has", names[node]),
            Self::Restart { node } => format!("node {} restarts with what it saved", names[node]),
            Self::Tick => "a tick passes".into(),
        }
    }
}
