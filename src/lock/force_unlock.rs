//! The force-unlock of a resource, for `admin::force_unlock`.

use std::collections::BTreeSet;

use crate::{
    acquire::checked_request::CheckedRequest,
    client::{
        broadcast::{collect, send_inspect_with_readers},
        context::ClientContext,
    },
    error::{Error, Goal, NoQuorum},
    lease::unlock_tally::UnlockTally,
    node::{Answer, ForceUnlock, Operation, Request, Tombstone, Unlock},
    values::{LeaseId, NodeReplies},
};

/// Deletes the lock of any holder on every node, and waits until every node has answered or timed out. Returns the
/// reply of each node.
///
/// A node that lost the key, or is unreachable now, would accept the holder's next renewal. Therefore this function
/// also sends every node an unlock of each lease id that any node names. These unlocks leave tombstones, and are sent
/// again until they are delivered or the longest ttl is over. Readers are unlocked by their own lease ids, never by the
/// common lease id of all readers, because later readers have the same common id.
///
/// # Errors
///
/// [`Error::NoQuorum`] if fewer nodes than a quorum confirmed. The unlocks above are sent nevertheless.
///
/// # Cancel safety
///
/// Requests that were submitted are not withdrawn. If the future is dropped before the nodes have named lease ids, the
/// unlocks of these lease ids are not sent.
pub(crate) async fn force_unlock(
    context: &ClientContext,
    checked: &CheckedRequest,
) -> Result<NodeReplies, Error> {
    let deadline = context.now() + checked.settings.attempt.node_timeout;
    let inspecting = send_inspect_with_readers(context, &checked.resource, deadline);
    let resources = checked.resources.clone();
    let force = Request::one(Operation::ForceUnlock(ForceUnlock { resources }), deadline);
    let replies = context.nodes.iter().map(|node| node.call(force.clone())).enumerate().collect();
    for (lease_id, is_reader) in named_leases(collect(context, inspecting, deadline).await) {
        let resources = checked.resources.clone();
        let resources = if is_reader { resources.shared() } else { resources.exclusive() };
        let tombstone = Tombstone::Always;
        let unlock = Unlock { resources, lease_id, notify: false, tombstone, has_waiters: false, rest: None };
        let unlock = Request::one(Operation::Unlock(unlock), context.latest_expiry());
        context.nodes.iter().for_each(|node| drop(node.call(unlock.clone())));
    }
    let (tally, _) = UnlockTally::count(context, replies, deadline, |tally| tally.open.is_empty()).await;
    let replies = tally.node_replies(context);
    if tally.is_confirmed() {
        tracing::warn!(resource = %checked.resource, %replies, "force-unlocked");
        return Ok(replies);
    }
    tracing::warn!(resource = %checked.resource, %replies, "force-unlocked without a quorum");
    Err(NoQuorum::new(Goal::ForceUnlock(checked.resource.clone()), replies).into())
}

/// Returns the lease ids that the nodes name, each with whether the lease id is of a reader.
fn named_leases(answers: Vec<Answer>) -> BTreeSet<(LeaseId, bool)> {
    let lease_ids = |answer| {
        let Answer::Inspected(inspection) = answer else { return Vec::new() };
        let lease_id =
            inspection.held.and_then(|held| held.lease_id).filter(|lease_id| !lease_id.is_of_readers());
        let readers = inspection.readers.into_iter().map(|(lease_id, _)| (lease_id, true));
        lease_id.map(|lease_id| (lease_id, false)).into_iter().chain(readers).collect()
    };
    answers.into_iter().flat_map(lease_ids).collect()
}
