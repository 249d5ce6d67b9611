//! The public handle of a lease, to which the guards of a lease deref: its terms, its loss, and renewals on request.

use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

use crate::{
    error::{ClosedReason, Error, LeaseLost, LossReason, NodeError},
    lease::{
        active_lease::ActiveLease,
        expiry,
        renewal::{RenewalReason, renew_now},
    },
    lock::client::Client,
    process::Forked,
    values::{FencingToken, LeaseId, NodeReplies, NodeReply, Resource},
};

/// The handle of a lease. Each guard of a lease derefs to `Lease`, so its methods are methods of the guard. The guard
/// of leases at several quorums has a list of [`leases`](crate::MultiLockGuard::leases) instead.
///
/// A `Lease` that [`lease`](Self::lease) returns does not keep the resource locked: the drop of the guard unlocks
/// although the handle lives. If a lease has several guards, because an [`Owner`](crate::Owner) has re-entered or
/// because tasks share a read lease, the drop of the last guard unlocks.
///
/// `Lease` is not `Clone`. Otherwise `guard.clone()` would compile because of the deref, and return a handle that does
/// not keep the resource locked.
///
/// ```compile_fail,E0599
/// # async fn clone(guard: redquorum::LockGuard) {
/// guard.clone();
/// # }
/// ```
#[derive(Debug)]
pub struct Lease {
    pub(super) client: Arc<Client>,
    pub(crate) active: Arc<ActiveLease>,
}

impl Lease {
    /// Returns a handle of the same lease, for another task. The handle does not keep the resource locked.
    #[must_use]
    pub fn lease(&self) -> Self {
        Self { client: Arc::clone(&self.client), active: Arc::clone(&self.active) }
    }

    /// Returns the token by which a store refuses late writers. The token grows with each lease on the resource, as
    /// long as the nodes remember their counters. Readers may share a token.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.active.terms.token
    }

    /// Returns the resource, or the first resource of a group.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.active.terms.resource
    }

    /// Returns all resources of the lease, sorted.
    #[must_use]
    pub fn resources(&self) -> &[Resource] {
        &self.active.terms.resources
    }

    /// Returns the lease id, as inspections and errors show the id.
    #[must_use]
    pub fn id(&self) -> &LeaseId {
        &self.active.terms.lease_id
    }

    /// Returns the number of guards: more than 1 after a re-entry of the [`Owner`](crate::Owner), or if tasks of one
    /// client share a read lease. Returns 0 in a forked process.
    #[must_use]
    pub fn holds(&self) -> u32 {
        if self.is_forked() { 0 } else { self.active.holds() }
    }

    /// Returns the time for which the lease is certainly valid without a further renewal: zero from its end on.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.is_forked() { Duration::ZERO } else { self.active.remaining(self.client.context.now()) }
    }

    /// Whether the lease is certainly valid at this instant. A lease that is not valid never becomes valid again. In a
    /// forked copy of the process that acquired the lease, the lease is never valid.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.ensure().is_ok()
    }

    /// Returns an error unless the lease is certainly valid at this instant.
    ///
    /// # Errors
    ///
    /// Only [`Error::LeaseLost`].
    pub fn ensure(&self) -> Result<(), Error> {
        self.ensure_home()?;
        Ok(self.active.ensure(self.client.context.now())?)
    }

    /// Waits for the end of the lease: a loss, or the unlock by its last guard. The future is ready no later than the
    /// end of the validity. The future has a timer of its own, which depends on no renewal, connection or node.
    ///
    /// A future makes progress only if it is polled. Code that blocks its thread receives the loss late, and has to
    /// call [`ensure`](Self::ensure).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on the lease.
    pub async fn lost(&self) -> LeaseLost {
        let lost = self.client.context.unless_forked(expiry::lost(&self.client.leases, &self.active)).await;
        lost.unwrap_or_else(|Forked| self.lost_by_fork())
    }

    /// Waits until the lease is valid for at most `left` without a further renewal. If the lease has ended, or is valid
    /// for at most `left` already, the future is ready at once. Each renewal postpones the end of the wait. Therefore
    /// the future of a renewed lease is not ready while a quorum answers and `left` is well below two thirds of the
    /// ttl.
    ///
    /// This wait is for work that takes time to stop, and must have stopped by the end of the lease. The future may be
    /// ready a millisecond or two late. In contrast, [`lost`](Self::lost) is never late.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # let quorum = redquorum::Quorum::in_memory(3)?;
    /// # async fn serve() {}
    /// # async fn stop_serving() {}
    /// let guard = quorum.red_lock("port:80").lock().await?;
    /// tokio::select! {
    ///     () = serve() => {}
    ///     // Renewals have failed for a while.
    ///     () = guard.expiring_within(Duration::from_secs(5)) => stop_serving().await,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on the lease.
    pub async fn expiring_within(&self, left: Duration) {
        let context = &self.client.context;
        let (Ok(()) | Err(Forked)) = context.unless_forked(expiry::within(context, &self.active, left)).await;
    }

    /// Runs a future until the future is done or the lease ends. `Ok` means that the lease was valid until the end of
    /// the future.
    ///
    /// The future is not polled after the end of the lease, even if the thread was blocked at that moment. A future
    /// that blocks the thread past the end of the lease is not stopped, but its output is dropped. Tasks that the
    /// future spawned continue, and can call [`ensure`](Self::ensure).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let quorum = redquorum::Quorum::in_memory(3)?;
    /// # async fn write_report() -> std::io::Result<u64> { Ok(7) }
    /// let guard = quorum.red_lock("report").lock().await?;
    /// let pages = guard.while_valid(write_report()).await??; // the loss first, then the error of the work
    /// guard.unlock().await?;
    /// # assert_eq!(pages, 7);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Only [`Error::LeaseLost`], after the drop of the work at its present `await`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work at its present `await`. The lease continues.
    pub async fn while_valid<F: Future>(&self, work: F) -> Result<F::Output, Error> {
        unless_lost(self.lost(), || self.ensure(), work).await
    }

    /// Renews the lease now, even a lease without renewal by the watchdog. The renewal counts only if a quorum answers
    /// before the present validity ends.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`] if the lease has ended. [`Error::NoQuorum`] if too few nodes renewed the lease. The lease
    /// then stays valid until its present end.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not withdraw the renewals that were sent. Therefore keys may exist for up to one ttl
    /// longer than the lease. The unlock deletes these keys.
    pub async fn renew(&self) -> Result<(), Error> {
        let renewing = renew_now(&self.client.leases, &self.active, RenewalReason::Time);
        self.in_process(renewing).await.map(drop)
    }

    /// Renews the lease, and returns whether a quorum proves, without any clock, that no later lease on the resource
    /// was granted before this call. For a reader, the proof is that no later lease of a writer was granted. `false` is
    /// no loss, but the lack of a proof: too few nodes can exclude a later lease, for instance because failed attempts
    /// of other clients raised the counters.
    ///
    /// In this renewal, each node also reports whether its counter is at most the token of this lease. For a reader,
    /// the node reports whether the resource has had readers there without a break since this lease. If a quorum
    /// reports so, no later lease had been granted when the renewal began. The proof assumes that the nodes remember
    /// their counters.
    ///
    /// # Errors
    ///
    /// As [`renew`](Self::renew).
    ///
    /// # Cancel safety
    ///
    /// As [`renew`](Self::renew).
    pub async fn verify(&self) -> Result<bool, Error> {
        self.in_process(renew_now(&self.client.leases, &self.active, RenewalReason::Proof)).await
    }

    /// Returns the last reply of each node about the lease. The replies show the number of nodes that may still fail
    /// before the lease cannot be renewed.
    ///
    /// If the client no longer works, the reply of every node is [`NodeError::Closed`], with the reason.
    #[must_use]
    pub fn node_replies(&self) -> NodeReplies {
        let context = &self.client.context;
        match context.end_reason() {
            Some(reason) => context.same_replies(&NodeReply::Failed(NodeError::Closed(reason))),
            None => self.active.node_replies(context),
        }
    }

    /// Runs the work of a call on this lease. In a forked process, returns the loss of the lease instead, and also if
    /// the work gets no quorum because the client is closed.
    pub(crate) async fn in_process<T>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        let context = &self.client.context;
        match context.unless_forked(work).await {
            Err(Forked) => Err(self.lost_by_fork().into()),
            Ok(Err(Error::NoQuorum(shortage))) => Err(match context.no_quorum(shortage) {
                Error::Closed(reason) => self.active.lost(LossReason::Closed(reason)).into(),
                error => error,
            }),
            Ok(done) => done,
        }
    }

    /// Returns the loss of the lease as an error in a forked process.
    pub(crate) fn ensure_home(&self) -> Result<(), LeaseLost> {
        if self.is_forked() { Err(self.lost_by_fork()) } else { Ok(()) }
    }

    pub(crate) fn is_forked(&self) -> bool {
        self.client.context.home().is_left()
    }

    fn lost_by_fork(&self) -> LeaseLost {
        self.active.lost(LossReason::Closed(ClosedReason::Forked))
    }
}

/// Runs a future until the future is done, or until `lost` or `ensure` reports a loss. The future is polled only while
/// `ensure` succeeds, and the output is dropped if `ensure` fails after the last poll.
pub(super) async fn unless_lost<F: Future>(
    lost: impl Future<Output = LeaseLost>,
    ensure: impl Fn() -> Result<(), Error>,
    work: F,
) -> Result<F::Output, Error> {
    let (mut lost, mut work) = (pin!(lost), pin!(work));
    poll_fn(|context| {
        if let Poll::Ready(lost) = lost.as_mut().poll(context) {
            return Poll::Ready(Err(lost.into()));
        }
        if let Err(error) = ensure() {
            return Poll::Ready(Err(error));
        }
        let Poll::Ready(output) = work.as_mut().poll(context) else { return Poll::Pending };
        Poll::Ready(ensure().map(|()| output))
    })
    .await
}
