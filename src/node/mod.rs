//! The nodes of a quorum.
//!
//! The trait [`Node`] separates decisions from transport. The layers above decide, and do not depend on the
//! kind of node: a Redis server, an in-memory node, or a simulated machine behind a faulty network.

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;

#[cfg(test)]
pub(crate) mod conformance;
#[cfg(test)]
pub(crate) mod examples;
pub(crate) mod memory;
pub(crate) mod names;
pub(crate) mod operation;
pub(crate) mod parameters;
pub(crate) mod redis;
pub(crate) mod remote;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod send_queue;
pub(crate) mod state;
pub(crate) mod transport;
pub(crate) mod ttl;

#[cfg(test)]
pub(crate) use self::operation::Abstention;
pub use self::parameters::RestartGuard;
pub(crate) use self::{
    operation::{
        Answer, Downgrade, Enqueue, ForceUnlock, Holder, HolderInfo, Init, Inspect, InspectAnswer, Latch,
        List, Lock, MAX_VALUE_BYTES, NewNodes, Observe, ObserveAnswer, Operation, Proclaim, Proclamation,
        Queued, READERS_SHOWN, Reconfigure, Register, Registration, Renew, Resources, Tombstone, Unlock,
        Vacant, WaitersInfo, Withdraw, WriteBack,
    },
    parameters::{Incarnation, QuarantineParameters, QuorumParameters},
    reply::{Reply, Responder},
    request::{PendingUnlocks, Request},
};
use crate::values::{NodeError, Resource};

/// One independent master.
pub(crate) trait Node: fmt::Debug + Send + Sync {
    /// Returns the address, which messages show, and by which the queue node order ranks the node.
    fn address(&self) -> &Arc<str>;

    /// Submits a request, which is accepted or refused at the call.
    ///
    /// # Invariants
    ///
    /// 1. The order of calls is the order of execution on one connection.
    /// 2. An accepted request is sent even if the reply is not polled or is dropped, unless the request
    ///    expires or the connection breaks. Unlocks and withdrawals survive a broken connection until they
    ///    expire.
    /// 3. Unlocks and withdrawals are never refused because a queue is full.
    /// 4. Every reply resolves with an answer or an error, at the latest when the node has closed. The reply of a
    ///    silent node may resolve late, so the caller sets a deadline.
    fn call(&self, request: Request) -> Reply;

    /// Sends the notices of a resource or topic to `listener` until the subscription is dropped. A resource has release
    /// notices. The topics are those of [`names`], such as the wakes of a waiter.
    fn subscribe(&self, resource: &Resource, listener: Arc<dyn Listener>) -> Subscription;

    /// Returns the unlocks and withdrawals that are neither confirmed nor expired.
    fn undelivered(&self) -> Vec<PendingUnlocks>;

    /// Returns the error of the last notice that the node refused to publish on its present connection. If a call has
    /// such a notice, the error is set before the answer to the call.
    fn unpublished(&self) -> Option<NodeError> {
        None
    }

    /// Closes the node: refuses new requests except unlocks and withdrawals, and delivers the pending unlocks and
    /// withdrawals. The future is ready when each of them is confirmed or has expired.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// A receiver of notices.
pub(crate) trait Listener: fmt::Debug + Send + Sync {
    /// Handles a notice. A node calls this from any thread, so the listener must not block.
    fn notice(&self, notice: Notice);
}

/// A notice of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The confirmation that the subscription is active. From now on, no notice is missed. If the connection broke
    /// before, notices may have been missed until now.
    Subscribed,
    /// The end of the connection. No notice arrives until the next [`Subscribed`](Self::Subscribed).
    Interrupted,
    /// A published notice: of the release of a resource, a new value of a leader, an open latch or a force-unlock, or
    /// the wake or head notice of a waiter.
    Released,
}

/// The subscription of a listener. The drop ends the subscription, without waiting.
pub(crate) struct Subscription {
    end: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Subscription {
    pub(crate) fn new(end: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self { end: Some(Box::new(end)) }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end();
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}
