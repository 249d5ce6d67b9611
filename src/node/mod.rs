//! The nodes of a quorum.
//!
//! The trait [`Node`] separates decisions from transport. The layers above decide, and do not depend on the
//! kind of node: a Redis server, an in-memory node, or a simulated machine behind a faulty network.

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;

#[cfg(test)]
pub(crate) mod conformance;
pub(crate) mod dial;
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

pub use self::parameters::RestartGuard;
pub(crate) use self::{
    operation::{
        Abstention, Answer, AnswerSize, CountPermits, DETAILS_SHOWN, Enqueue, ForceUnlock, Holder,
        HolderInfo, Init, Inspect, InspectAnswer, InspectDetails, Latch, LatchInfo, List, Lock,
        MAX_VALUE_BYTES, NewNodes, Observe, ObserveAnswer, Operation, Proclaim, Proclamation, Queued,
        READERS_SHOWN, ReadClock, Reconfigure, RecordReplacements, RecordStep, Register, Registration, Renew,
        Resources, Tombstone, Transfer, Unlock, Vacant, Withdraw, WriteBack,
    },
    parameters::{Incarnation, QuarantineParameters, QuorumParameters},
    reply::{Reply, Responder},
    request::{PendingUnlocks, Request},
};
use crate::values::Resource;

/// One independent master.
pub(crate) trait Node: fmt::Debug + Send + Sync {
    /// Returns the address, which messages show, and by which the queue node order ranks the node.
    fn address(&self) -> &Arc<str>;

    /// Submits a request. The node accepts or refuses the request at once. The reply of a refused request is ready, and
    /// has the same error for each operation.
    ///
    /// # Invariants
    ///
    /// 1. The order of calls is the order of execution on one connection.
    /// 2. A drop of the reply does not cancel an accepted request. The request is not sent if the request expires, the
    ///    connection breaks or cannot be opened, or the node becomes unresponsive, before the request is sent.
    ///    Unlocks and withdrawals remain pending in all these cases until they expire.
    /// 3. Unlocks and withdrawals are never refused because a queue is full.
    /// 4. Every reply resolves with an answer or an error, at the latest when the node has closed. The reply of a
    ///    silent node may resolve late, so the caller stops waiting at a deadline of its own.
    fn call(&self, request: Request) -> Reply;

    /// Returns the result of the registration of the present connection, or else of the next dial. If that dial fails,
    /// the reply is its error. `None` for a node that does not register its connections.
    fn registration(&self) -> Option<Reply> {
        None
    }

    /// Sends the notices of a topic to `listener` until the subscription is dropped. A topic is a resource, for its
    /// release notices, or a name from [`names`], such as that of the wakes of a waiter.
    fn subscribe(&self, topic: &Resource, listener: Arc<dyn Listener>) -> Subscription;

    /// Returns the unlocks and withdrawals that are neither confirmed nor expired.
    fn undelivered(&self) -> Vec<PendingUnlocks>;

    /// Returns the error of the last notice that the node refused to publish on its present connection. If a call has
    /// such a notice, the error is set before the answer to the call.
    #[cfg(any(test, feature = "__command"))]
    fn unpublished(&self) -> Option<crate::values::NodeError> {
        None
    }

    /// Closes the node: refuses new requests except unlocks and withdrawals. The future is ready when each accepted
    /// request is answered or has expired, and each pending unlock or withdrawal is confirmed or has expired. A node
    /// that was never connected drops its requests.
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
    /// A published notice. The topic shows the kind of notice: a release, a new value of a leader, the opening of a
    /// latch, a force-unlock, a wake, or a head notice.
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
