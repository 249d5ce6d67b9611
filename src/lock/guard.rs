//! The guards of leases.

use std::{fmt, ops::Deref, sync::Arc};

use futures::FutureExt;

use crate::{
    acquire::{
        attempt::attempt_to_downgrade, checked_request::CheckedRequest, outcome::AttemptOutcome,
        stall_watchdog::watch_once,
    },
    client::context::ClientContext,
    config::LockOptions,
    error::{ConfigError, Error, LossReason},
    lease::{
        active_lease::{ActiveLease, UnlockOutcome},
        unlock,
    },
    lock::{client::Client, lease::Lease, owner::OwnLease},
    observer::LeaseEnd,
    values::{NodeReplies, NodeReply, Refusal},
};

/// The guard of an exclusive lease on a resource or a group. The guard derefs to [`Lease`], which has the methods of the
/// lease. The lease is held for as long as it is valid and this guard lives.
///
/// The drop unlocks without waiting: it submits the unlock to the client's connections, and renewal stops at once. The
/// drop needs no runtime context, and works in a panic or a cancelled future. If the drop cannot send the unlock (the
/// process is killed, the runtime of the client has ended, the guard is leaked), the ttl ends the lease.
/// [`unlock`](Self::unlock) unlocks too, and returns the replies of the nodes. In a forked copy of the process, the guard
/// holds nothing: its lease is not valid, and its drop does not unlock the lease of the original process.
///
/// A guard is a statement about time, not a barrier: a process that is paused between a check of the guard and its next
/// write may write after the end of the lease. Give the [`fencing_token`](Lease::fencing_token) to the store that the
/// lock protects, and let the store refuse late writers, as [`Fence`](crate::Fence) does.
#[must_use = "dropping a guard unlocks at once: bind it to a name, `_` is none"]
pub struct LockGuard {
    lease: Lease,
    /// Whether [`unlock`](Self::unlock) has given back the hold of this guard, or the hold belongs to another lease.
    is_given_back: bool,
    /// The entry by which the owner of the guard re-enters the lease.
    own_lease: Option<Arc<OwnLease>>,
}

/// The guard of a shared lease, which is held together with other readers for as long as it is valid and this guard
/// lives. The guard derefs to [`Lease`], which has the methods of the lease.
///
/// The drop unlocks, as the drop of a [`LockGuard`] does. A reader that wants to write has to unlock first, because two
/// readers that upgrade would wait for each other.
///
/// ```compile_fail,E0599
/// # async fn downgrade(guard: redquorum::ReadGuard) {
/// guard.downgrade().await;
/// # }
/// ```
#[must_use = "dropping a guard unlocks at once: bind it to a name, `_` is none"]
pub struct ReadGuard(LockGuard);

impl LockGuard {
    /// The guard of a hold of a lease.
    pub(crate) fn new(client: Arc<Client>, active: Arc<ActiveLease>) -> Self {
        Self { lease: Lease { client, active }, is_given_back: false, own_lease: None }
    }

    /// Unlocks, and waits up to a node timeout for a quorum to confirm. `Ok` means that the lease was valid until
    /// the call.
    ///
    /// The replies show the nodes that have confirmed until now, and
    /// [`NodeReplies::has_quorum`](crate::error::NodeReplies::has_quorum) whether these nodes are a quorum. Too few
    /// confirmations are no error, because the work was protected. The unlock continues in the background until the
    /// last key of the lease has expired, except on a node that refuses it for good (a key of another type, a missing
    /// permission).
    ///
    /// If the lease has other guards (a re-entry of an [`Owner`](crate::Owner), or tasks that share a lease to read),
    /// only this guard is given back, and the resource stays locked. The replies are then the last replies of the nodes
    /// about the lease, without an unlock.
    ///
    /// # Errors
    ///
    /// Only [`Error::LeaseLost`], if the lease had ended before: another client may have held the resource meanwhile.
    ///
    /// # Cancel safety
    ///
    /// The unlock is submitted to all nodes before the first `await`. If the future is dropped before its first poll, the
    /// drop of the guard unlocks.
    pub async fn unlock(mut self) -> Result<NodeReplies, Error> {
        self.lease.ensure_home()?;
        self.is_given_back = true;
        let Lease { client, active } = &self.lease;
        self.lease.in_process(async { Ok(unlock::unlock(&client.leases, active).await?) }).await
    }

    /// Turns the exclusive lease into a shared lease. Other clients may read from then on, and no writer comes between,
    /// so this client reads its own writes. The exclusive lease ends at the call, and the shared lease has a token of its
    /// own.
    ///
    /// The call takes one round trip to a quorum, within the validity of the exclusive lease.
    ///
    /// # Errors
    ///
    /// After any error, this guard does not hold the resource any more. [`Error::Config`] (`HeldMoreThanOnce`) if the
    /// lease has several guards, of which only this guard is given back. [`Error::LeaseLost`] if the lease had ended
    /// before. [`Error::NoQuorum`] if no quorum answered in time.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future unlocks, before and after its first poll. If the future was woken and is not polled for the
    /// quorum's attempt timeout, the resource is unlocked, and the future returns [`Error::LeaseLost`] (`Unlocked`) when it
    /// is polled again.
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

    /// Exchanges the exclusive lease for a shared lease.
    async fn exchange(mut self) -> Result<ReadGuard, Error> {
        let (client, lease) = (Arc::clone(&self.lease.client), Arc::clone(&self.lease.active));
        let context = &*client.context;
        let own_lease = self.own_lease.clone();
        let _entered = match &own_lease {
            Some(own_lease) => Some(own_lease.entrance.enter().await),
            None => None,
        };
        self.ensure()?;
        let holds = lease.holds();
        if holds > 1 {
            return Err(
                ConfigError::HeldMoreThanOnce { resource: lease.terms.resource.clone(), holds }.into()
            );
        }
        let checked = read_request(context, &lease)?;
        self.is_given_back = true;
        let transferred = client.leases.transfer(&lease)?;
        // Every node replaces the key in one step, and a quorum has done so before the end of the write lease.
        let outcome =
            attempt_to_downgrade(context, &checked, &lease.terms.lease_id, lease.valid_until()).await;
        let read = match outcome {
            AttemptOutcome::Acquired(acquired) => {
                Self::new(Arc::clone(&client), client.leases.adopt(acquired))
            }
            AttemptOutcome::Failed(failed) => {
                let is_revoked = |reply: &&NodeReply| **reply == NodeReply::Refused(Refusal::RolledBack);
                let revoked = failed.replies.all().iter().filter(is_revoked).count();
                if revoked > context.settings.electorate.spare() {
                    return Err(lease.lost(LossReason::Revoked).into());
                }
                return Err(failed.into_error(context, &checked));
            }
        };
        drop(transferred);
        Ok(ReadGuard(match &own_lease {
            Some(own_lease) => read.of_owner(Arc::clone(own_lease)),
            None => read,
        }))
    }

    /// Runs a closure under the lease, and unlocks. A closure that panics drops the guard, which unlocks.
    pub(crate) async fn run<T>(self, work: impl AsyncFnOnce(&Self) -> T) -> Result<T, Error> {
        let value = self.while_valid(work(&self)).await?;
        self.unlock().await?;
        Ok(value)
    }

    /// Returns the guard of a lease that its owner can re-enter.
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
    /// If other tasks of the client share the lease, only this guard is given back, and the lease continues. The replies
    /// are then the last replies of the nodes about the lease, without an unlock.
    ///
    /// # Errors
    ///
    /// Only [`Error::LeaseLost`], if the lease had ended before.
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

/// Returns the request for the read lease that follows a write lease: with the same settings, and the rest of
/// `hold_at_most`.
fn read_request(context: &ClientContext, lease: &ActiveLease) -> Result<CheckedRequest, Error> {
    let mut options = LockOptions::new().ttl(lease.ttl()).node_timeout(lease.terms.node_timeout);
    options.hold_at_most = lease.hold_left(context.now());
    options.without_renewal = !lease.terms.is_renewed;
    let settings = options.check(&context.settings)?;
    Ok(CheckedRequest::new(lease.terms.resources.clone().shared(), settings)?)
}
