//! The guards of leases: unlock, downgrade and drop.

use std::{fmt, ops::Deref, sync::Arc, time::Duration};

use futures::FutureExt;

use crate::{
    acquire::{
        attempt::attempt_to_transfer, checked_request::CheckedRequest, outcome::AttemptOutcome,
        stall_watchdog::watch_once,
    },
    client::context::ClientContext,
    config::LockOptions,
    error::{ConfigError, Error, LossReason},
    lease::{
        active_lease::{Acquired, ActiveLease, UnlockOutcome},
        unlock,
    },
    lock::{client::Client, lease::Lease, owner::OwnLease, ticket::ticket_request},
    observer::{LeaseEnd, TicketEvent},
    values::{LeaseId, NodeReplies, NodeReply, Refusal, Ticket},
};

/// The guard of a lease on a resource or a group. The lease is exclusive, except for a group that only reads. The guard
/// derefs to [`Lease`], which has the methods of the lease. The resource is held for as long as the lease is valid and
/// this guard lives.
///
/// The drop of the guard unlocks without waiting: the drop submits the unlock to the client's connections, and renewal
/// stops at once. The drop needs no runtime context, and works in a panic or a cancelled future. If the unlock cannot
/// be sent, because the process is killed or the runtime of the client has ended, the lease ends with its ttl. If the
/// guard is leaked, the lease is renewed as before, until the client is closed or `hold_at_most` is over. If the lease
/// has other guards, the drop only gives this guard back, and the drop of the last guard unlocks.
///
/// [`unlock`](Self::unlock) also unlocks, and returns the replies of the nodes. In a forked copy of the process, the
/// guard holds nothing: the lease is not valid, and the drop of the guard does not unlock the lease of the original
/// process.
///
/// A guard does not stop a late write: a process that is paused between a check of the guard and its next write may
/// write after the end of the lease. Give the [`fencing_token`](Lease::fencing_token) to the store that the lock
/// protects, and let the store refuse late writers, as [`Fence`](crate::Fence) does.
#[must_use = "dropping a guard unlocks at once: bind it to a name, `_` is none"]
pub struct LockGuard {
    lease: Lease,
    /// Whether the drop has no hold to give back, because [`unlock`](Self::unlock), [`downgrade`](Self::downgrade) or
    /// [`into_ticket`](Self::into_ticket) gave the hold back.
    is_given_back: bool,
    /// The entry by which the owner of the lease re-enters; `None` for a lease without an owner.
    own_lease: Option<Arc<OwnLease>>,
}

/// The guard of a shared lease. The guard derefs to [`Lease`], which has the methods of the lease. The resource is
/// held, together with other readers, for as long as the lease is valid and this guard lives.
///
/// The drop unlocks, as the drop of a [`LockGuard`] does. A reader that wants to write has to unlock first. There is no
/// upgrade, because two readers that upgrade would wait for each other.
///
/// ```compile_fail,E0599
/// # async fn downgrade(guard: redquorum::ReadGuard) {
/// guard.downgrade().await;
/// # }
/// ```
#[must_use = "dropping a guard unlocks at once: bind it to a name, `_` is none"]
pub struct ReadGuard(LockGuard);

impl LockGuard {
    /// Returns the guard of one hold of a lease. The caller has added the hold to the lease.
    pub(crate) fn new(client: Arc<Client>, active: Arc<ActiveLease>) -> Self {
        Self { lease: Lease { client, active }, is_given_back: false, own_lease: None }
    }

    /// Unlocks, and waits for the confirmation of a quorum for at most a node timeout. `Ok` means that the lease was
    /// valid until the call.
    ///
    /// The replies show the nodes that have confirmed by the return of the call, and
    /// [`NodeReplies::has_quorum`](crate::error::NodeReplies::has_quorum) returns whether these nodes are a quorum.
    /// Too few confirmations are no error, because the lease protected the work until the call. The unlock continues
    /// in the background until the last key of the lease has expired, except on a node that refuses the unlock for
    /// good (a key of another type, a missing permission).
    ///
    /// If the lease has other guards (a re-entry of an [`Owner`](crate::Owner), or tasks that share a read lease), only
    /// this guard is given back, and the resource stays locked. Nothing is unlocked then, and the replies are the last
    /// replies of the nodes about the lease.
    ///
    /// # Errors
    ///
    /// Only [`Error::LeaseLost`], if the lease had ended before the call. In that case, another client may have held
    /// the resource before the call.
    ///
    /// # Cancel safety
    ///
    /// The unlock is submitted to the nodes before the first `await`. If the future is dropped before its first poll,
    /// the drop of the guard unlocks.
    pub async fn unlock(mut self) -> Result<NodeReplies, Error> {
        self.lease.ensure_home()?;
        self.is_given_back = true;
        let Lease { client, active } = &self.lease;
        self.lease.in_process(async { Ok(unlock::unlock(&client.leases, active).await?) }).await
    }

    /// Exchanges the exclusive lease for a shared lease. No writer can hold the resource between the two leases, so
    /// this client reads its own writes. From the shared lease on, other clients may read, too. The exclusive lease
    /// ends at the call, and the shared lease has a token of its own.
    ///
    /// The call takes one round trip to a quorum, or two if the votes of the nodes differ, and must succeed within the
    /// validity of the exclusive lease. The lease of a group that only reads is shared already. For this
    /// lease, the call returns at once.
    ///
    /// # Errors
    ///
    /// After any error, this guard holds nothing.
    ///
    /// * [`Error::Config`] (`HeldMoreThanOnce`) if the lease has several guards. The other guards still hold the
    ///   resource.
    /// * [`Error::LeaseLost`] if the lease had ended before the exchange, such as during the wait for another call of
    ///   the owner.
    /// * [`Error::NoQuorum`] if no quorum answered in time.
    /// * [`Error::Closed`] if the client was closed during the exchange.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future unlocks, before and after its first poll. If the future was woken, and is then not polled
    /// for twice the quorum's node timeout, the resource is unlocked. The next poll of the future returns
    /// [`Error::LeaseLost`] (`Unlocked`).
    pub async fn downgrade(self) -> Result<ReadGuard, Error> {
        let lease = self.lease.lease();
        lease.in_process(self.downgrade_in_process()).await
    }

    async fn downgrade_in_process(self) -> Result<ReadGuard, Error> {
        let (client, lease) = (Arc::clone(&self.lease.client), Arc::clone(&self.lease.active));
        if lease.terms.resources.are_all_shared() {
            return Ok(ReadGuard(self));
        }
        let read = watch_once(&client.waiters, &lease.terms.resources, self.exchange().boxed()).await;
        read.unwrap_or_else(|| Err(lease.lost(LossReason::Unlocked).into()))
    }

    /// Exchanges the exclusive lease for a shared lease. This future is the work of [`downgrade`](Self::downgrade) that
    /// the stall watchdog watches.
    async fn exchange(self) -> Result<ReadGuard, Error> {
        let (client, own_lease) = (Arc::clone(&self.lease.client), self.own_lease.clone());
        let to = None;
        let acquired = self.transfer(to, read_request).await?;
        let read = Self::new(Arc::clone(&client), client.leases.adopt(acquired));
        Ok(ReadGuard(match own_lease {
            Some(own_lease) => read.of_owner(own_lease),
            None => read,
        }))
    }

    /// Turns the lease into a ticket that lives for `ttl`: at most for the quorum's `max_ttl` (a minute by default). A
    /// ticket cannot be renewed. Another process continues with the lock by the ticket: no other client can hold the
    /// resources in between.
    ///
    /// The lease ends at the call. The call takes one round trip to a quorum, or two if the votes of the nodes differ,
    /// and must succeed within the validity of the lease. The [`Ticket`] has a token of its own, and its text can be
    /// sent to the other process, which [redeems](crate::Quorum::redeem) the ticket. A store that has seen a later
    /// token refuses the late writes of this process. A minimum hold of the lease ends.
    ///
    /// # Errors
    ///
    /// After any error, this guard holds nothing, and there is no ticket.
    ///
    /// * [`Error::Config`] (`HeldMoreThanOnce`) if the lease has several guards. The other guards still hold the
    ///   resource. (`Unsupported`) if the lease reads any resource. (`OutOfRange`) if `ttl` is not between 10 ms and
    ///   `max_ttl`.
    /// * [`Error::LeaseLost`] if the lease had ended before, such as during the wait for another call of the owner.
    /// * [`Error::NoQuorum`] if no quorum answered in time.
    /// * [`Error::Closed`] if the client was closed meanwhile.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future unlocks, before and after its first poll, and there is no ticket. If the future was woken,
    /// and is then not polled for twice the quorum's node timeout, the resource is unlocked. The next poll of the future
    /// returns [`Error::LeaseLost`] (`Unlocked`).
    pub async fn into_ticket(self, ttl: Duration) -> Result<Ticket, Error> {
        let lease = self.lease.lease();
        lease.in_process(self.into_ticket_in_process(ttl)).await
    }

    async fn into_ticket_in_process(self, ttl: Duration) -> Result<Ticket, Error> {
        let (client, lease) = (Arc::clone(&self.lease.client), Arc::clone(&self.lease.active));
        if lease.terms.resources.is_any_shared() {
            let reason =
                "a ticket of a lease that reads: other readers hold the resource, too, so lock to write";
            return Err(ConfigError::Unsupported { reason: reason.into() }.into());
        }
        let work = self.exchange_for_ticket(ttl).boxed();
        let ticket = watch_once(&client.waiters, &lease.terms.resources, work).await;
        ticket.unwrap_or_else(|| Err(lease.lost(LossReason::Unlocked).into()))
    }

    /// Exchanges the lease for a ticket. This future is the work of [`into_ticket`](Self::into_ticket) that the stall
    /// watchdog watches.
    async fn exchange_for_ticket(self, ttl: Duration) -> Result<Ticket, Error> {
        let client = Arc::clone(&self.lease.client);
        let context = &*client.context;
        let secret = context.lease_ids.fresh_ticket();
        let request = |context: &ClientContext, lease: &ActiveLease| ticket_request(context, lease, ttl);
        // The lease of the ticket is nobody's: it is not renewed, and the nodes end it with the ttl.
        let Acquired { terms, .. } = self.transfer(Some(secret.lease_id()), request).await?;
        let ticket = Ticket::new(secret, terms.resources.iter().cloned(), terms.token);
        tracing::debug!(resource = %terms.resource, ticket = %terms.lease_id, token = %terms.token, "ticket issued");
        context.observer.ticket(TicketEvent::Issued);
        Ok(ticket)
    }

    /// Ends the lease, and transfers its resources to a lease that `request` describes, with the lease id `to` or a new
    /// one. The attempt is won only if a quorum has transferred the resources before the end of this lease.
    async fn transfer(
        mut self,
        to: Option<LeaseId>,
        request: impl FnOnce(&ClientContext, &ActiveLease) -> Result<CheckedRequest, Error>,
    ) -> Result<Acquired, Error> {
        let (client, lease) = (Arc::clone(&self.lease.client), Arc::clone(&self.lease.active));
        let context = &*client.context;
        let own_lease = self.own_lease.clone();
        let _entered = match &own_lease {
            // The wait ends with the lease, because the call that has entered may be neither polled nor rolled back.
            Some(own_lease) => Some(self.while_valid(own_lease.entrance.enter()).await?),
            None => None,
        };
        self.ensure()?;
        let holds = lease.holds();
        if holds > 1 {
            return Err(
                ConfigError::HeldMoreThanOnce { resource: lease.terms.resource.clone(), holds }.into()
            );
        }
        let checked = request(context, &lease)?;
        self.is_given_back = true;
        // The unlock of this lease is submitted at the return.
        let _transferred = client.leases.transfer(&lease)?;
        // Each node replaces the key of the lease in one step.
        match attempt_to_transfer(context, &checked, (&lease, lease.valid_until()), to).await {
            AttemptOutcome::Acquired(acquired) => Ok(acquired),
            AttemptOutcome::Failed(failed) => {
                let is_revoked = |reply: &&NodeReply| **reply == NodeReply::Refused(Refusal::RolledBack);
                let revoked = failed.replies.all().iter().filter(is_revoked).count();
                if revoked > context.settings.electorate.spare() {
                    return Err(lease.lost(LossReason::Revoked).into());
                }
                Err(failed.into_error(context, &checked))
            }
        }
    }

    /// Runs a closure until the closure returns or the lease is lost, and unlocks. If the closure panics, the drop of
    /// the guard unlocks.
    pub(crate) async fn run<T>(self, work: impl AsyncFnOnce(&Self) -> T) -> Result<T, Error> {
        let value = self.while_valid(work(&self)).await?;
        self.unlock().await?;
        Ok(value)
    }

    /// Records the lease in the entry of the owner, for later calls to re-enter. Returns the same guard.
    pub(super) fn of_owner(mut self, own_lease: Arc<OwnLease>) -> Self {
        own_lease.record(&self.lease.active);
        self.own_lease = Some(own_lease);
        self
    }

    pub(crate) fn active_lease(&self) -> &Arc<ActiveLease> {
        &self.lease.active
    }

    fn debug(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("resource", self.resource())
            .field("id", self.id())
            .field("fencing_token", &self.fencing_token())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

impl Deref for LockGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if self.is_given_back || self.lease.is_forked() {
            return;
        }
        match self.lease.client.leases.leave_without_waiting(&self.lease.active, LeaseEnd::Dropped) {
            UnlockOutcome::Active => unlock::submit_holds(&self.lease.client.context, &self.lease.active),
            UnlockOutcome::Unlocked => {
                let lease = &self.lease.active;
                tracing::debug!(
                    resource = %lease.terms.resource, id = %lease.terms.lease_id, token = %lease.terms.token,
                    "unlock by drop"
                );
            }
            UnlockOutcome::Lost(_) | UnlockOutcome::Over(_) => {}
        }
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.debug("LockGuard", f)
    }
}

impl ReadGuard {
    pub(crate) fn new(guard: LockGuard) -> Self {
        Self(guard)
    }

    /// Unlocks, as [`LockGuard::unlock`] does.
    ///
    /// If the lease has other guards (a re-entry of an [`Owner`](crate::Owner), or tasks of the client that share the
    /// lease), only this guard is given back, and the lease continues. Nothing is unlocked then, and the replies are
    /// the last replies of the nodes about the lease.
    ///
    /// # Errors
    ///
    /// Only [`Error::LeaseLost`], if the lease had ended before the call.
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::unlock`].
    pub async fn unlock(self) -> Result<NodeReplies, Error> {
        self.0.unlock().await
    }
}

impl Deref for ReadGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.0
    }
}

impl fmt::Debug for ReadGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.debug("ReadGuard", f)
    }
}

/// Returns the request for the read lease that follows a write lease. The request has the ttl, the node timeout and the
/// renewal of the write lease, and the rest of its `hold_at_most`.
fn read_request(context: &ClientContext, lease: &ActiveLease) -> Result<CheckedRequest, Error> {
    let mut options = LockOptions::new().ttl(lease.ttl()).node_timeout(lease.terms.node_timeout);
    options.hold_at_most = lease.hold_left(context.now());
    options.without_renewal = !lease.terms.is_renewed;
    let settings = options.check(&context.settings)?;
    Ok(CheckedRequest::new(lease.terms.resources.clone().shared(), settings)?)
}
