//! The calls with tickets: a lease becomes a ticket, and another client redeems or releases the ticket.

use std::{sync::Arc, time::Duration};

use futures::FutureExt;

use crate::{
    acquire::{
        attempt::attempt_to_redeem, checked_request::CheckedRequest, outcome::AttemptOutcome,
        stall_watchdog::watch_call,
    },
    client::context::ClientContext,
    config::LockOptions,
    error::Error,
    lease::{
        active_lease::{Acquired, ActiveLease},
        unlock_tally::UnlockTally,
    },
    lock::{client::Client, guard::LockGuard, lock_call::LockCall, lock_request::LockRequest},
    mutation::{self, Mutation},
    node::{Operation, Request, Resources, Tombstone, Unlock},
    observer::{CallEnd, Mode, TicketEvent},
    values::{NodeReplies, NodeReply, Ticket},
};

/// Returns the request for a ticket of this lease, which lives for `ttl`.
pub(super) fn ticket_request(
    context: &ClientContext,
    lease: &ActiveLease,
    ttl: Duration,
) -> Result<CheckedRequest, Error> {
    let settings = LockOptions::new().ttl(ttl).check(&context.settings)?;
    Ok(CheckedRequest::new(lease.terms.resources.clone(), settings)?)
}

/// Redeems a ticket. Returns `None` if so many nodes refuse that no quorum can have the ticket any more.
///
/// # Errors
///
/// The errors of the checks of a lock call, and [`Error::NoQuorum`].
///
/// # Cancel safety
///
/// As [`attempt_to_redeem`].
pub(crate) async fn redeem(
    client: &Arc<Client>,
    ticket: &Ticket,
    options: LockOptions,
) -> Result<Option<LockGuard>, Error> {
    let resources: Resources = ticket.resources().iter().cloned().map(|resource| (resource, false)).collect();
    let mut request = LockRequest::new(Arc::clone(client), Ok(resources));
    request.settings = options;
    let checked = request.checked()?;
    let mut call = LockCall::begin(request.context(), Mode::of(&checked.resources));
    let work = || redeem_in(Arc::clone(client), checked.clone(), ticket.clone()).boxed();
    let redeemed = watch_call(&client.waiters, &checked.resources, work).await;
    let end = redeemed.as_ref().map(|guard| guard.as_ref().map(|_| CallEnd::Acquired));
    call.ended(end, CallEnd::Held);
    redeemed
}

async fn redeem_in(
    client: Arc<Client>,
    checked: CheckedRequest,
    ticket: Ticket,
) -> Result<Option<LockGuard>, Error> {
    let context = &*client.context;
    let name = ticket.id();
    let outcome = tokio::select! {
        biased;
        () = context.closed() => return Err(context.closed_error()),
        outcome = attempt_to_redeem(context, &checked, &name, ticket.fencing_token()) => outcome,
    };
    match outcome {
        AttemptOutcome::Acquired(mut acquired) => {
            let token = acquired.terms.token;
            acquired.terms.token =
                mutation::altered(Mutation::KeepTicketToken, token, |_| ticket.fencing_token());
            unlock_rest(context, &ticket, &acquired);
            let guard = LockGuard::new(Arc::clone(&client), client.leases.adopt(acquired));
            tracing::debug!(resource = %checked.resource, ticket = %name, id = %guard.id(), "redeemed");
            context.observer.ticket(TicketEvent::Redeemed);
            Ok(Some(guard))
        }
        AttemptOutcome::Failed(failed) if failed.is_refused_for_good(context) => {
            tracing::debug!(resource = %checked.resource, ticket = %name, replies = %failed.replies, "ticket spent");
            context.observer.ticket(TicketEvent::Spent);
            Ok(None)
        }
        AttemptOutcome::Failed(failed) => Err(failed.into_error(context, &checked)),
    }
}

/// Unlocks the ticket at the nodes that did not transfer its resources to the lease. The tombstone also refuses the
/// transfers to the ticket that are late.
fn unlock_rest(context: &ClientContext, ticket: &Ticket, acquired: &Acquired) {
    if mutation::is_on(Mutation::LeaveTicket) {
        return;
    }
    let request = unlock_request(context, ticket, false);
    for (node, state) in context.nodes.iter().zip(&acquired.nodes) {
        if state.vote != NodeReply::Done {
            drop(node.call(request.clone()));
        }
    }
}

fn unlock_request(context: &ClientContext, ticket: &Ticket, notify: bool) -> Request {
    let resources = ticket.resources().iter().cloned().map(|resource| (resource, false)).collect();
    let lease_id = ticket.id();
    let tombstone =
        mutation::altered(Mutation::NoTombstoneForTicket, Tombstone::Always, |_| Tombstone::Never);
    let unlock = Unlock { resources, lease_id, notify, tombstone, has_waiters: false, rest: None };
    Request::one(Operation::Unlock(unlock), context.latest_expiry())
}

/// Unlocks the resources of a ticket on all nodes, and waits until a quorum has confirmed, for at most a node timeout.
///
/// # Errors
///
/// [`Error::Config`] (`ReadOnly`) and [`Error::Closed`].
///
/// # Cancel safety
///
/// The unlock is submitted to all nodes before the first `await`.
pub(crate) async fn release(client: &Arc<Client>, ticket: &Ticket) -> Result<NodeReplies, Error> {
    let context = &*client.context;
    let resources: Resources = ticket.resources().iter().cloned().map(|resource| (resource, false)).collect();
    let checked = LockRequest::new(Arc::clone(client), Ok(resources)).checked()?;
    let request = unlock_request(context, ticket, true);
    let replies = context.nodes.iter().map(|node| node.call(request.clone())).enumerate().collect();
    let deadline = context.now() + checked.settings.attempt.node_timeout;
    let (tally, _) = UnlockTally::count(context, replies, deadline, UnlockTally::is_decided).await;
    let replies = tally.node_replies(context);
    tracing::debug!(resource = %checked.resource, ticket = %ticket.id(), %replies, "ticket released");
    context.observer.ticket(TicketEvent::Released);
    Ok(replies)
}
