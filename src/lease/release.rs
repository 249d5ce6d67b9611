//! Unlocking, and what the nodes say to it.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    acquire::attempt::CheckedRequest,
    algorithm::{node_set::NodeSet, tally::Electorate},
    client::fanout::{Fanout, Heard},
    clock::Instant,
    error::{LeaseLost, LockError, LossReason, RenewError, UnlockError},
    lease::{
        active_lease::{ActiveLease, UnlockOutcome},
        renewal::{Purpose, renew_now},
    },
    lock::{
        core::Core,
        inspection::{ask, hear_all},
    },
    node::{Answer, ForceUnlock, Operation, Reply, Request, Tombstone, Unlock},
    observer::LeaseEnd,
    values::{NodeError, OwnerId, Vote, Votes},
};

/// What the nodes said to an unlock, as far as it was waited for: a quorum is enough.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unlocked {
    /// Nodes that have confirmed, by address.
    pub confirmed: Vec<Arc<str>>,
    /// Nodes that have not yet; the unlock is on its way to them, and goes on until the lease's
    /// last key is over. Only a node that will always refuse it (a key of another type, a
    /// permission that is missing) is not told again.
    pub open: Vec<Arc<str>>,
}

/// Gives one hold back, and waits until a quorum has confirmed or cannot. With the last one, that
/// is an unlock.
///
/// # Cancel safety
///
/// All nodes are told before anything is waited for.
pub(crate) async fn unlock(core: &Core, lease: &Arc<ActiveLease>) -> Result<Unlocked, UnlockError> {
    if let Some(reason) = lease.loss_at(core.now()) {
        core.lose(lease, reason);
    }
    match core.leave(lease, LeaseEnd::Unlocked) {
        (UnlockOutcome::Active, _) => tell_holds(core, lease).await,
        (UnlockOutcome::Over, _) => {
            let reason = lease.loss_at(core.now()).unwrap_or(LossReason::Expired);
            Err(UnlockError::LeaseLost { lost: lease.lost(reason), votes: lease.votes(core) })
        }
        (UnlockOutcome::Unlocked, replies) => hear_unlock(core, lease, replies).await,
    }
}

async fn hear_unlock(
    core: &Core,
    lease: &ActiveLease,
    replies: Vec<(usize, Reply)>,
) -> Result<Unlocked, UnlockError> {
    let start = core.now();
    let deadline = start + lease.node_timeout;
    let (release, open) = Release::heard(core, replies, deadline, Release::is_decided).await;
    let mut queue_node = lease.queue_node();
    for (node, is_awaited) in &release.awaited {
        queue_node.hear(core, &lease.resources, *node, *is_awaited);
    }
    queue_node.hear_later(core, &lease.resources, open);
    let ActiveLease { resource, owner, token, .. } = lease;
    tracing::debug!(%resource, %owner, %token, confirmed = ?release.report(core).confirmed, "unlock");
    if release.found_nothing() {
        Err(UnlockError::LeaseLost { lost: lease.lost(LossReason::TakenAway), votes: release.votes(core) })
    } else if release.is_confirmed() {
        Ok(release.report(core))
    } else {
        let open = release.report(core).open;
        Err(UnlockError::NoQuorum { resource: lease.resource.clone(), open, votes: release.votes(core) })
    }
}

/// Tells the nodes that there is one hold less, and waits for a quorum.
async fn tell_holds(core: &Core, lease: &Arc<ActiveLease>) -> Result<Unlocked, UnlockError> {
    let told = renew_now(core, lease, Purpose::Holds).await;
    let votes = lease.votes(core);
    let addresses = |is_wanted: fn(&Vote) -> bool| {
        votes.iter().filter(|(_, vote)| is_wanted(vote)).map(|(node, _)| node.into()).collect()
    };
    let open = addresses(|vote| *vote != Vote::Granted);
    match told {
        Ok(_) => Ok(Unlocked { confirmed: addresses(|vote| *vote == Vote::Granted), open }),
        // Another task has given back the last hold meanwhile, and reports that unlock.
        Err(RenewError::LeaseLost(LeaseLost { reason: LossReason::Unlocked, .. })) => {
            Ok(Unlocked { confirmed: addresses(|vote| *vote == Vote::Granted), open })
        }
        Err(RenewError::LeaseLost(lost)) => Err(UnlockError::LeaseLost { lost, votes }),
        Err(RenewError::NoQuorum { resource, .. }) => Err(UnlockError::NoQuorum { resource, open, votes }),
    }
}

/// Tells the nodes that there is one hold less, without waiting.
pub(crate) fn submit_holds(core: &Core, lease: &ActiveLease) {
    let now = core.now();
    lease.submit_holds(&core.nodes, lease.valid_until().saturating_duration_since(now), now);
}

/// Unlocks the resource for any holder, and waits until every node has answered or its time is
/// over.
///
/// A node that lost the key, or cannot be reached now, would take the holder's next renewal. So the
/// owners that any node names are unlocked by name as well, at every node and as something that
/// must be delivered: that leaves a tombstone everywhere.
pub(crate) async fn force_unlock(core: &Core, checked: &CheckedRequest) -> Result<Unlocked, LockError> {
    let deadline = core.now() + checked.settings.node_timeout;
    let asked = ask(core, &checked.resource, deadline);
    let resources = Arc::clone(&checked.resources);
    let force = Request::one(Operation::ForceUnlock(ForceUnlock { resources }), deadline);
    let replies = core.nodes.iter().map(|node| node.call(force.clone())).enumerate().collect();
    for owner in named_owners(hear_all(core, asked, deadline).await) {
        let resources = Arc::clone(&checked.resources);
        let unlock =
            Unlock { resources, owner, notify: false, tombstone: Tombstone::Always, is_awaited: false };
        let unlock = Request::one(Operation::Unlock(unlock), core.must_deliver_until());
        core.nodes.iter().for_each(|node| drop(node.call(unlock.clone())));
    }
    let (release, _) = Release::heard(core, replies, deadline, |release| release.open.is_empty()).await;
    tracing::warn!(resource = %checked.resource, confirmed = ?release.report(core).confirmed, "unlocked by force");
    if release.is_confirmed() {
        return Ok(release.report(core));
    }
    let (resource, votes) = (checked.resource.clone(), release.votes(core));
    Err(LockError::NoQuorum { resource, needed: core.settings.electorate.needed(), votes })
}

/// Everybody whom some node names as the resource's owner.
fn named_owners(answers: Vec<Answer>) -> BTreeSet<OwnerId> {
    let owner = |answer| match answer {
        Answer::Inspected(inspection) => inspection.held?.owner,
        _ => None,
    };
    answers.into_iter().filter_map(owner).collect()
}

/// The count of one unlock.
struct Release {
    electorate: Electorate,
    /// Deleted there.
    deleted: NodeSet,
    /// It was not there (any more).
    absent: NodeSet,
    /// Whether others are queued, as each node said that said anything of it.
    awaited: Vec<(usize, bool)>,
    votes: Vec<Vote>,
    open: NodeSet,
}

impl Release {
    /// Hears answers until `is_enough` of what was heard, or the deadline; and the replies that are
    /// still open.
    async fn heard(
        core: &Core,
        replies: Vec<(usize, Reply)>,
        deadline: Instant,
        is_enough: impl Fn(&Self) -> bool,
    ) -> (Self, Vec<(usize, Reply)>) {
        let mut release = Self::new(core, replies.iter().map(|(node, _)| *node).collect());
        let mut fanout = Fanout::of(replies);
        while !is_enough(&release) {
            match fanout.next(&*core.clock, deadline).await {
                Heard::Answer { node, answer, .. } => release.hear(node, answer),
                Heard::Silence => {
                    release.time_out();
                    break;
                }
            }
        }
        (release, fanout.take_open(|()| true))
    }

    fn new(core: &Core, asked: NodeSet) -> Self {
        let nodes = core.nodes.len();
        let vote = |node| if asked.contains(node) { Vote::Pending } else { Vote::NotAsked };
        Self {
            electorate: core.settings.electorate,
            deleted: NodeSet::EMPTY,
            // Nothing of the lease ever went where nothing needs to be unlocked.
            absent: core.settings.electorate.all().without(asked),
            awaited: Vec::new(),
            votes: (0..nodes).map(vote).collect(),
            open: asked,
        }
    }

    fn hear(&mut self, node: usize, answer: Answer) {
        let (answer, is_awaited) = answer.into_parts();
        self.awaited.extend(is_awaited.map(|is_awaited| (node, is_awaited)));
        self.open.remove(node);
        if let Some(vote) = self.votes.get_mut(node) {
            *vote = Vote::from(&answer);
        }
        match answer {
            Answer::Unlocked { deleted: 0 } => self.absent.insert(node),
            // Who deleted nothing now may have done so when the unlock was sent before: no evidence
            // of a loss.
            Answer::Unlocked { .. } | Answer::UnlockedBefore => self.deleted.insert(node),
            _ => {}
        }
    }

    /// A node that has not answered by now is not waited for any longer.
    fn time_out(&mut self) {
        for vote in self.votes.iter_mut().filter(|vote| **vote == Vote::Pending) {
            *vote = Vote::Unknown(NodeError::TimedOut);
        }
    }

    fn report(&self, core: &Core) -> Unlocked {
        let addresses = |nodes: NodeSet| {
            let all = core.nodes.iter().enumerate();
            all.filter(|(node, _)| nodes.contains(*node))
                .map(|(_, node)| Arc::clone(node.address()))
                .collect()
        };
        let confirmed = self.confirmed();
        Unlocked {
            confirmed: addresses(confirmed),
            open: addresses(self.electorate.all().without(confirmed)),
        }
    }

    fn votes(&self, core: &Core) -> Votes {
        core.votes(self.votes.iter().cloned())
    }

    fn is_confirmed(&self) -> bool {
        self.electorate.is_quorum(self.confirmed())
    }

    fn confirmed(&self) -> NodeSet {
        self.deleted.union(self.absent)
    }

    /// A quorum says that it is not there, one of them that it was; or nobody is left to say
    /// anything.
    fn is_decided(&self) -> bool {
        self.open.is_empty()
            || (self.is_confirmed() && !self.deleted.is_empty())
            || !self.electorate.is_quorum(self.confirmed().union(self.open))
    }

    /// Whether a quorum has answered and nobody had the lease.
    fn found_nothing(&self) -> bool {
        self.deleted.is_empty() && self.electorate.is_quorum(self.absent)
    }
}
