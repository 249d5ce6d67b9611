//! A lease, as all see it who may look at it.

use std::{sync::Arc, time::Duration};

use crate::{
    error::LeaseLost,
    lease::{active_lease::ActiveLease, expiry},
    lock::client::Client,
    values::{FencingToken, OwnerId, Resource, Votes},
};

/// A lease, to be looked at: through the [`LockGuard`](crate::LockGuard) that keeps it, by the
/// closure of [`RedLock::run`](crate::RedLock::run), or by other tasks.
///
/// Cheap to clone and to send. It shows the lease and does not keep it: when the guard is gone, or
/// `run` is done, the resource is unlocked even if clones are left (of several holds of an owner,
/// one is given back).
#[derive(Clone, Debug)]
pub struct Lease {
    pub(super) client: Arc<Client>,
    pub(crate) active: Arc<ActiveLease>,
}

impl Lease {
    /// The number that grows with every lease on the resource, but that readers may share one, as long
    /// as the nodes remember their counters.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.active.token
    }

    /// What is locked: of a group, the first resource.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.active.resource
    }

    /// What is locked: one resource, or those of a group, in order.
    #[must_use]
    pub fn resources(&self) -> &[Resource] {
        &self.active.resources
    }

    /// How long the lease is still certainly valid, unless it is renewed: zero from its end on.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.active.remaining(self.client.environment.now())
    }

    /// Whether the lease is certainly valid at this instant. Once false, it stays false.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.ensure().is_ok()
    }

    /// Asks for the validity where it has to be there.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`] once the lease is over, with the reason.
    pub fn ensure(&self) -> Result<(), LeaseLost> {
        self.active.ensure(self.client.environment.now())
    }

    /// Ready when the lease is over, and no later than the end of its validity: on a timer of its
    /// own, whatever happens to renewal, connections or nodes.
    ///
    /// A future sees that only when it is polled: code that blocks its thread is told late, and has
    /// to ask [`ensure`](Self::ensure).
    ///
    /// # Cancel safety
    ///
    /// It only watches; dropping it changes nothing.
    pub async fn lost(&self) -> LeaseLost {
        expiry::lost(&self.client.leases, &self.active).await
    }

    /// Ready when no more than `left` of the validity is left: at once if it is so already, or the
    /// lease is over. Every renewal puts it off, so while the nodes answer and `left` is well below
    /// two thirds of the ttl, it never comes.
    ///
    /// It is for work that takes time to stop, and must have stopped by the end: begin with it when
    /// this is ready. It comes as soon after that instant as the timer and the runtime allow,
    /// usually within a millisecond or two: allow for that. The end itself is told by
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
    /// It only watches; dropping it changes nothing.
    pub async fn expiring_within(&self, left: Duration) {
        expiry::within(&self.client.environment, &self.active, left).await;
    }

    /// Each node's last word on the lease: how many could fail before it is in danger.
    #[must_use]
    pub fn votes(&self) -> Votes {
        self.active.votes(&self.client.environment)
    }

    /// How many holds the lease has: one for each guard, so more than 1 where its
    /// [`Owner`](crate::Owner) has re-entered, or tasks share what they read; one of these may be for
    /// tasks that are about to join.
    #[must_use]
    pub fn holds(&self) -> u32 {
        self.active.holds()
    }

    /// The owner of the lease on the wire, as inspection of the nodes shows it.
    #[must_use]
    pub fn owner(&self) -> &OwnerId {
        &self.active.owner
    }
}
