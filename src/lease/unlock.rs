//! The unlock of a lease, and the return of a hold.

use std::sync::Arc;

use crate::{
    client::context::ClientContext,
    error::{Error, LeaseLost, LossReason},
    lease::{
        active_lease::{ActiveLease, LeaseTerms, UnlockOutcome},
        leases::Leases,
        renewal::{RenewalReason, renew_now},
        unlock_tally::UnlockTally,
    },
    node::Reply,
    observer::LeaseEnd,
    values::NodeReplies,
};

/// Gives a hold back, and waits until a quorum has confirmed, or until no quorum can confirm any more. The return of
/// the last hold unlocks the lease.
///
/// # Errors
///
/// [`LeaseLost`] if the lease was unlocked or lost before, if the validity is over, or if the answers of the nodes show
/// that the lease is revoked.
///
/// # Cancel safety
///
/// The unlock is submitted to all nodes before the first `await`.
pub(crate) async fn unlock(leases: &Leases, lease: &Arc<ActiveLease>) -> Result<NodeReplies, LeaseLost> {
    let context = &*leases.context;
    let outcome = lease.leave(context.now());
    if let UnlockOutcome::Lost(reason) = outcome {
        drop(leases.end(lease, LeaseEnd::Lost(reason)));
    }
    match outcome {
        UnlockOutcome::Unlocked => {
            let replies = leases.end(lease, LeaseEnd::Unlocked);
            confirm_unlock(context, lease, replies).await
        }
        UnlockOutcome::Active => renew_holds(leases, lease).await,
        UnlockOutcome::Lost(reason) | UnlockOutcome::Over(reason) => Err(lease.lost(reason)),
    }
}

/// Waits for the answers to the unlock. Passes the reports of waiters, and the outstanding replies, to the client's
/// view of the queue node.
async fn confirm_unlock(
    context: &ClientContext,
    lease: &ActiveLease,
    replies: Vec<(usize, Reply)>,
) -> Result<NodeReplies, LeaseLost> {
    let start = context.now();
    let deadline = start + lease.terms.node_timeout;
    let (tally, open) = UnlockTally::count(context, replies, deadline, UnlockTally::is_decided).await;
    let mut queue_node = lease.queue_node();
    for (node, has_waiters) in &tally.has_waiters {
        queue_node.on_answer(context, &lease.terms.resources, *node, *has_waiters);
    }
    queue_node.defer(context, &lease.terms.resources, open, start);
    let node_replies = tally.node_replies(context);
    let LeaseTerms { resource, lease_id, token, .. } = &lease.terms;
    tracing::debug!(%resource, id = %lease_id, %token, replies = %node_replies, "unlock");
    if tally.found_nothing() { Err(lease.lost(LossReason::Revoked)) } else { Ok(node_replies) }
}

/// Sends the number of remaining holds, and waits for a quorum.
async fn renew_holds(leases: &Leases, lease: &Arc<ActiveLease>) -> Result<NodeReplies, LeaseLost> {
    let renewed = match lease.counts_holds() {
        true => renew_now(leases, lease, RenewalReason::Holds).await,
        false => Ok(false),
    };
    match renewed {
        // The nodes no longer had the lease when this hold was given back. Any other loss came later, and does not
        // concern the guard of this hold.
        Err(Error::LeaseLost(lost)) if lost.reason == LossReason::Revoked => Err(lost),
        _ => Ok(lease.node_replies(&leases.context)),
    }
}

/// Sends the number of remaining holds, without waiting.
pub(crate) fn submit_holds(context: &ClientContext, lease: &ActiveLease) {
    if !lease.counts_holds() {
        return;
    }
    lease.submit_holds(&context.nodes, context.now());
}
