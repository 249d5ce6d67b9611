//! From a write lease to a read lease, with no writer between them.

use std::sync::Arc;

use crate::{
    acquire::{attempt::attempt_to_downgrade, checked_request::CheckedRequest, outcome::AttemptOutcome},
    config::LockOptions,
    error::{ConfigError, Error, LossReason},
    lock::guard::LockGuard,
    values::{NodeReply, Refusal},
};

/// Gives the write lease of a guard up for a read lease. No writer comes between: every node swaps
/// one key for the other in one step, and a quorum has done so before the write lease is over.
///
/// # Cancel safety
///
/// Dropping it gives up both.
pub(super) async fn downgrade(mut guard: LockGuard) -> Result<LockGuard, Error> {
    let (client, lease) = (Arc::clone(guard.client()), Arc::clone(guard.active_lease()));
    if lease.resources.are_all_shared() {
        return Ok(guard);
    }
    let context = &*client.context;
    let own = guard.own_lease();
    let entered = match &own {
        Some(own) => Some(own.enter_to_change().await),
        None => None,
    };
    guard.ensure()?;
    let holds = lease.holds();
    if holds > 1 {
        return Err(ConfigError::HeldMoreThanOnce { resource: lease.resource.clone(), holds }.into());
    }
    let start = context.now();
    let mut options = LockOptions::new().ttl(lease.ttl()).node_timeout(lease.node_timeout);
    options.hold_at_most = lease.hold_left(start);
    options.without_renewal = !lease.is_renewed;
    let settings = options.check(&context.settings)?;
    let checked = CheckedRequest::new(lease.resources.clone().shared(), settings)?;
    guard.is_handed_on();
    let handed_on = client.leases.hand_on(&lease)?;
    let outcome = attempt_to_downgrade(context, &checked, &lease.owner, lease.valid_until()).await;
    let read = match outcome {
        AttemptOutcome::Acquired(acquired) => {
            LockGuard::new(Arc::clone(&client), client.leases.adopt(acquired))
        }
        AttemptOutcome::Failed(failed) => {
            let is_gone = |reply: &&NodeReply| **reply == NodeReply::Refused(Refusal::RolledBack);
            if failed.replies.all().iter().filter(is_gone).count() > context.settings.electorate.spare() {
                return Err(lease.lost(LossReason::Revoked).into());
            }
            return Err(failed.into_error(context, &checked));
        }
    };
    drop(handed_on);
    let read = match &own {
        Some(own) => own.keep(read),
        None => read,
    };
    drop(entered);
    Ok(read)
}
