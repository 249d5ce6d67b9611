//! Unlocking, and what the nodes say to it.

use std::sync::Arc;

use crate::{
    algorithm::{node_set::NodeSet, tally::Electorate},
    error::{LossReason, UnlockError},
    lock::{
        core::Core,
        fanout::{Fanout, Heard},
        held::Held,
    },
    node::{Answer, Fault},
    vote::{Vote, Votes},
};

/// What the nodes said to an unlock, as far as it was waited for: a quorum is enough.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unlocked {
    /// Nodes that have confirmed, by address.
    pub confirmed: Vec<Arc<str>>,
    /// Nodes that have not yet; the unlock is on its way to them, and goes on until the lease's last key is over.
    pub open: Vec<Arc<str>>,
}

/// The count of one unlock.
struct Release {
    electorate: Electorate,
    /// Deleted there.
    deleted: NodeSet,
    /// It was not there (any more).
    absent: NodeSet,
    votes: Vec<Vote>,
    open: NodeSet,
}

/// Unlocks, and waits until a quorum has confirmed or cannot.
///
/// # Cancel safety
///
/// The unlock is submitted to all nodes before anything is waited for.
pub(crate) async fn unlock(core: &Core, held: &Held) -> Result<Unlocked, UnlockError> {
    if let Some(reason) = held.loss_at(core.now()) {
        core.lose(held, reason);
    }
    let Some(replies) = core.unlock(held) else {
        let reason = held.loss_at(core.now()).unwrap_or(LossReason::Expired);
        return Err(UnlockError::LeaseLost { lost: held.lost(reason), votes: held.votes(&core.nodes) });
    };
    let mut release = Release::new(core, replies.iter().map(|(node, _)| *node).collect());
    let deadline = core.now() + core.settings.node_timeout_for(held.ttl());
    let mut fanout = Fanout::of(replies);
    while !release.is_decided() {
        match fanout.next(&*core.clock, deadline).await {
            Heard::Answer { node, answer, .. } => release.hear(node, &answer),
            Heard::Silence => release.give_up(),
        }
    }
    let addresses = |nodes: NodeSet| {
        let all = core.nodes.iter().enumerate();
        all.filter(|(node, _)| nodes.contains(*node)).map(|(_, node)| Arc::clone(node.address())).collect()
    };
    let confirmed = release.confirmed();
    let open: Vec<Arc<str>> = addresses(release.electorate.all().without(confirmed));
    let votes = || {
        let votes = core.nodes.iter().zip(&release.votes);
        Votes::new(votes.map(|(node, vote)| (Arc::clone(node.address()), vote.clone())).collect())
    };
    tracing::debug!(resource = %held.resource, owner = %held.owner, ?confirmed, "unlock");
    if release.found_nothing() {
        Err(UnlockError::LeaseLost { lost: held.lost(LossReason::TakenAway), votes: votes() })
    } else if release.electorate.is_quorum(confirmed) {
        Ok(Unlocked { confirmed: addresses(confirmed), open })
    } else {
        Err(UnlockError::NoQuorum { resource: held.resource.clone(), open, votes: votes() })
    }
}

impl Release {
    fn new(core: &Core, asked: NodeSet) -> Self {
        let nodes = core.nodes.len();
        let vote = |node| if asked.contains(node) { Vote::Pending } else { Vote::NotAsked };
        Self {
            electorate: core.settings.electorate,
            deleted: NodeSet::EMPTY,
            // Nothing of the lease ever went where nothing needs to be unlocked.
            absent: core.settings.electorate.all().without(asked),
            votes: (0..nodes).map(vote).collect(),
            open: asked,
        }
    }

    fn hear(&mut self, node: usize, answer: &Answer) {
        self.open.remove(node);
        if let Some(vote) = self.votes.get_mut(node) {
            *vote = Vote::of(answer);
        }
        match answer {
            Answer::Unlocked { deleted: 0 } => self.absent.insert(node),
            Answer::Unlocked { .. } => self.deleted.insert(node),
            _ => {}
        }
    }

    /// Nobody is waited for any longer.
    fn give_up(&mut self) {
        for node in std::mem::replace(&mut self.open, NodeSet::EMPTY).iter() {
            if let Some(vote) = self.votes.get_mut(node) {
                *vote = Vote::Unknown(Fault::TimedOut);
            }
        }
    }

    fn confirmed(&self) -> NodeSet {
        self.deleted.union(self.absent)
    }

    /// A quorum says that it is not there, one of them that it was; or nobody is left to say anything.
    fn is_decided(&self) -> bool {
        self.open.is_empty()
            || (self.electorate.is_quorum(self.confirmed()) && !self.deleted.is_empty())
            || !self.electorate.is_quorum(self.confirmed().union(self.open))
    }

    /// Whether a quorum has answered and nobody had the lease.
    fn found_nothing(&self) -> bool {
        self.deleted.is_empty() && self.electorate.is_quorum(self.absent)
    }
}
