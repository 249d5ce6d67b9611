//! What happens from one state to the next.

use crate::model::{
    NODES,
    message::{Reply, Request},
};

/// One thing that happens. Nodes are named by their place in the state before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Begin(usize),
    AskAgain(usize),
    GiveUp(usize),
    Renew(usize),
    Unlock(usize),
    /// `again`: a copy stays in flight.
    Execute {
        site: usize,
        request: Request,
        again: bool,
    },
    Hear {
        site: usize,
        reply: Reply,
    },
    /// The key of the lock ends.
    Expire {
        site: usize,
    },
    LoseCounter {
        site: usize,
    },
    /// The node forgets everything.
    Crash {
        site: usize,
    },
    Tick,
}

impl Action {
    /// In words, where the nodes have these names.
    pub(super) fn named(self, names: [usize; NODES]) -> String {
        let client = |client: usize| ["a", "b"][client];
        match self {
            Self::Begin(by) => format!("{} begins an attempt", client(by)),
            Self::AskAgain(by) => format!("{} asks again where it was refused", client(by)),
            Self::GiveUp(by) => format!("{} gives up", client(by)),
            Self::Renew(by) => format!("{} begins a renewal", client(by)),
            Self::Unlock(by) => format!("{} unlocks", client(by)),
            Self::Execute { site, request: Request { of, ask }, again } => {
                let again = if again { ", and will again" } else { "" };
                format!("node {} executes {of}'s {ask:?}{again}", names[site])
            }
            Self::Hear { site, reply: Reply { to, say } } => {
                format!("{to} hears {say:?} from node {}", names[site])
            }
            Self::Expire { site } => format!("the key on node {} expires", names[site]),
            Self::LoseCounter { site } => format!("node {} loses its counter", names[site]),
            Self::Crash { site } => format!("node {} forgets everything", names[site]),
            Self::Tick => "a tick passes".into(),
        }
    }
}
