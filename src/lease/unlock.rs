//! Unlocking a lease, or one of its holds.

use std::sync::Arc;

use crate::{
    client::environment::Environment,
    error::{LeaseLost, LossReason, RenewError, UnlockError},
    lease::{
        Unlocked,
        active_lease::{ActiveLease, UnlockOutcome},
        leases::Leases,
        renewal::{Purpose, renew_now},
        unlock_tally::UnlockTally,
    },
    node::Reply,
    observer::LeaseEnd,
    values::Vote,
};

/// Gives one hold back, and waits until a quorum has confirmed or cannot. With the last one, that
/// is an unlock.
///
/// # Cancel safety
///
/// All nodes are told before anything is waited for.
pub(crate) async fn unlock(leases: &Leases, lease: &Arc<ActiveLease>) -> Result<Unlocked, UnlockError> {
    let environment = &*leases.environment;
    let left = lease.leave(environment.now());
    if let UnlockOutcome::Lost(reason) = left {
        drop(leases.end(lease, LeaseEnd::Lost(reason)));
    }
    match left {
        UnlockOutcome::Unlocked => {
            let replies = leases.end(lease, LeaseEnd::Unlocked);
            hear_unlock(environment, lease, replies).await
        }
        UnlockOutcome::Active => tell_holds(leases, lease).await,
        UnlockOutcome::Lost(reason) | UnlockOutcome::Over(reason) => {
            Err(UnlockError::LeaseLost { lost: lease.lost(reason), votes: lease.votes(environment) })
        }
    }
}

async fn hear_unlock(
    environment: &Environment,
    lease: &ActiveLease,
    replies: Vec<(usize, Reply)>,
) -> Result<Unlocked, UnlockError> {
    let start = environment.now();
    let deadline = start + lease.node_timeout;
    let (tally, open) = UnlockTally::heard(environment, replies, deadline, UnlockTally::is_decided).await;
    let mut queue_node = lease.queue_node();
    for (node, is_awaited) in &tally.awaited {
        queue_node.hear(&environment.queues, &lease.resources, *node, *is_awaited);
    }
    queue_node.hear_later(&environment.queues, &lease.resources, open);
    let ActiveLease { resource, owner, token, .. } = lease;
    tracing::debug!(%resource, %owner, %token, confirmed = ?tally.report(environment).confirmed, "unlock");
    if tally.found_nothing() {
        Err(UnlockError::LeaseLost {
            lost: lease.lost(LossReason::TakenAway),
            votes: tally.votes(environment),
        })
    } else if tally.is_confirmed() {
        Ok(tally.report(environment))
    } else {
        let open = tally.report(environment).open;
        Err(UnlockError::NoQuorum { resource: lease.resource.clone(), open, votes: tally.votes(environment) })
    }
}

/// Tells the nodes that there is one hold less, and waits for a quorum.
async fn tell_holds(leases: &Leases, lease: &Arc<ActiveLease>) -> Result<Unlocked, UnlockError> {
    let told = match lease.counts_holds() {
        true => renew_now(leases, lease, Purpose::Holds).await,
        false => Ok(false),
    };
    let votes = lease.votes(&leases.environment);
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
pub(crate) fn submit_holds(environment: &Environment, lease: &ActiveLease) {
    if !lease.counts_holds() {
        return;
    }
    let now = environment.now();
    lease.submit_holds(&environment.nodes, lease.valid_until().saturating_duration_since(now), now);
}
