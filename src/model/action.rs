//! What happens from one state to the next.

use crate::model::{
    NODES,
    message::{AttemptId, Reply, Request},
};

/// One thing that happens. Nodes are named by their place in the state before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Begin(usize),
    AskAgain(usize),
    GiveUp(usize),
    Renew(usize),
    Unlock(usize),
    /// The client gives its write lease up for a read lease.
    Downgrade(usize),
    /// `again`: a copy stays in flight.
    Execute {
        site: usize,
        request: Request,
        again: bool,
        answer: Delivery,
    },
    Hear {
        site: usize,
        reply: Reply,
    },
    /// The key of the lock ends, with all readers if it is theirs.
    Expire {
        site: usize,
    },
    /// One reader's ttl ends.
    ExpireReader {
        site: usize,
        reader: AttemptId,
    },
    LoseCounter {
        site: usize,
    },
    /// The node forgets everything.
    Crash {
        site: usize,
    },
    /// The node saves what it has.
    Save {
        site: usize,
    },
    /// The node comes back with what it saved.
    Restart {
        site: usize,
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
            Self::AskAgain(by) => format!("{} asks again where it was refused", client(by)),
            Self::GiveUp(by) => format!("{} gives up", client(by)),
            Self::Renew(by) => format!("{} begins a renewal", client(by)),
            Self::Unlock(by) => format!("{} unlocks", client(by)),
            Self::Downgrade(by) => format!("{} begins to downgrade", client(by)),
            Self::Execute { site, request: Request { of, ask }, again, answer } => {
                let again = if again { ", and will again" } else { "" };
                let heard = if answer == Delivery::AtOnce { ", which is heard" } else { "" };
                format!("node {} executes {of}'s {ask:?}{again}{heard}", names[site])
            }
            Self::Hear { site, reply: Reply { to, say } } => {
                format!("{to} hears {say:?} from node {}", names[site])
            }
            Self::Expire { site } => format!("the key on node {} expires", names[site]),
            Self::ExpireReader { site, reader } => format!("{reader} expires on node {}", names[site]),
            Self::LoseCounter { site } => format!("node {} loses its counter", names[site]),
            Self::Crash { site } => format!("node {} forgets everything", names[site]),
            Self::Save { site } => format!("node {} saves what it has", names[site]),
            Self::Restart { site } => format!("node {} restarts with what it saved", names[site]),
            Self::Tick => "a tick passes".into(),
        }
    }
}
