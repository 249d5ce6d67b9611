//! A lease, as its guard and other tasks see it.

use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

use crate::{
    error::{Error, LeaseLost},
    lease::{
        active_lease::ActiveLease,
        expiry,
        renewal::{RenewalReason, renew_now},
    },
    lock::client::Client,
    values::{FencingToken, LeaseId, NodeReplies, Resource},
};

/// A lease, as its guard and other tasks see it.
///
/// Guards deref to it: what any guard can do stands here. A `Lease` that [`lease`](Self::lease) returns does not
/// keep the lease: when the guard is gone, the resource is unlocked even if such values are left. Of several
/// guards of one [`Owner`](crate::Owner), the last one unlocks.
///
/// It is not `Clone`: guards deref to it, so `guard.clone()` would compile and keep nothing.
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
    /// The same lease, for another task. It does not keep the lease.
    #[must_use]
    pub fn lease(&self) -> Self {
        Self { client: Arc::clone(&self.client), active: Arc::clone(&self.active) }
    }

    /// The token by which a store refuses late writers. It grows with each lease on the resource, as long as the
    /// nodes remember their counters; readers may share one.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.active.terms.token
    }

    /// The resource; of a group, the first.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.active.terms.resource
    }

    /// All resources, in order: one, or those of a group.
    #[must_use]
    pub fn resources(&self) -> &[Resource] {
        &self.active.terms.resources
    }

    /// The name of the lease on the nodes, as inspections and errors show it.
    #[must_use]
    pub fn id(&self) -> &LeaseId {
        &self.active.terms.owner
    }

    /// The number of guards: more than 1 after a re-entry of its [`Owner`](crate::Owner), or where tasks of one
    /// client share a lease to read.
    #[must_use]
    pub fn holds(&self) -> u32 {
        self.active.holds()
    }

    /// The time for which the lease is certainly valid without another renewal: zero from its end on.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.active.remaining(self.client.context.now())
    }

    /// Whether the lease is certainly valid at this instant. Once false, it stays false.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.ensure().is_ok()
    }

    /// Returns an error unless the lease is certainly valid at this instant.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`], and no other.
    pub fn ensure(&self) -> Result<(), Error> {
        Ok(self.active.ensure(self.client.context.now())?)
    }

    /// Ready when the lease is over, no later than the end of its validity: on a timer of its own, whatever
    /// happens to renewal, connections or nodes.
    ///
    /// A future makes progress only when it is polled: code that blocks its thread receives the loss late, and has
    /// to call [`ensure`](Self::ensure).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn lost(&self) -> LeaseLost {
        expiry::lost(&self.client.leases, &self.active).await
    }

    /// Ready when the lease is valid for at most `left` without another renewal: at once if that is so already, or
    /// if the lease is over. Each renewal postpones it. While the nodes answer and `left` is well below two thirds
    /// of the ttl, it is never ready.
    ///
    /// It is for work that takes time to stop, and must have stopped by the end: begin to stop when this is
    /// ready, usually a millisecond or two after the instant. The end itself is announced by
    /// [`lost`](Self::lost), and never late.
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
    /// Dropping the future changes nothing.
    pub async fn expiring_within(&self, left: Duration) {
        expiry::within(&self.client.context, &self.active, left).await;
    }

    /// Runs a future until it is done or the lease is lost. `Ok` means that the lease was valid until the future
    /// was done.
    ///
    /// The work takes no step after the end of the lease, also if its thread was blocked at that moment. A future that
    /// blocks its thread itself past the end of the lease is not stopped, and its output is dropped. Tasks
    /// that the future spawned run on and can call [`ensure`](Self::ensure).
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
    /// [`Error::LeaseLost`], and no other; the future is dropped at the `await` where it is.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the work at the `await` where it is. The lease goes on.
    pub async fn while_valid<F: Future>(&self, work: F) -> Result<F::Output, Error> {
        unless_lost(self.lost(), || self.ensure(), work).await
    }

    /// Renews the lease now, by the same rule as the watchdog: a quorum, inside the validity.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`] if the lease is over. [`Error::NoQuorum`] if too few nodes renewed it: the lease stays
    /// valid until its own end.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the renewals that were sent: keys may live up to one ttl longer than the lease
    /// says, and the unlock deletes them.
    pub async fn renew(&self) -> Result<(), Error> {
        renew_now(&self.client.leases, &self.active, RenewalReason::Time).await.map(drop)
    }

    /// Renews the lease, and returns whether it is proven, without any clock, that no later lease on the resource
    /// was granted before this call; for a reader, no later lease of a writer. `false` is no loss: too few nodes
    /// can exclude a later lease, for instance because failed attempts of other clients raised their counters.
    ///
    /// It is a renewal in which each node also reports whether its counter is above the token of this lease, or
    /// for a reader, whether the resource has been read there without a break since. A quorum of nodes where that
    /// is so proves that no later lease had been granted when the renewal began. The nodes have to remember their
    /// counters.
    ///
    /// # Errors
    ///
    /// As [`renew`](Self::renew).
    ///
    /// # Cancel safety
    ///
    /// As [`renew`](Self::renew).
    pub async fn verify(&self) -> Result<bool, Error> {
        renew_now(&self.client.leases, &self.active, RenewalReason::Proof).await
    }

    /// The last reply of each node about the lease: how many nodes could fail before the lease is in danger.
    #[must_use]
    pub fn node_replies(&self) -> NodeReplies {
        self.active.node_replies(&self.client.context)
    }
}

/// Runs a future until it is done, or until one of the leases is lost that `ensure` looks at. The future is polled only
/// while they are valid, and its output counts only if they still are.
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
