//! One node of the quorum, as the lock sees it.
//!
//! [`Node`] is the seam: everything above it decides and never knows what is below, a Redis server,
//! a map in memory or a simulated machine behind a bad network.

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
        Answer, Downgrade, Enqueue, ForceUnlock, Holder, HolderInfo, Init, Inspect, InspectAnswer,
        LONGEST_VALUE, Latch, List, Lock, NewNodes, Observe, ObserveAnswer, Operation, Proclaim,
        Proclamation, Queued, READERS_SHOWN, Reconfigure, Register, Registration, Renew, Resources,
        Tombstone, Unlock, Vacant, WaitersInfo, Withdraw, WriteBack,
    },
    parameters::{Incarnation, QuarantineParameters, QuorumParameters},
    reply::{Reply, Responder},
    request::{PendingUnlocks, Request},
};
use crate::values::Resource;

/// One independent master.
pub(crate) trait Node: fmt::Debug + Send + Sync {
    /// The address, as it is shown to people and as the queue node order ranks it.
    fn address(&self) -> &Arc<str>;

    /// Submits a request; accepted or refused at the call.
    ///
    /// # Invariants
    ///
    /// 1. The order of calls is the order of execution on one connection.
    /// 2. What is accepted is sent whether or not the reply is polled or dropped, unless its time
    ///    is over first or the connection breaks; an unlock and a withdrawal survive even that,
    ///    until their time is over.
    /// 3. Neither of those is ever refused for want of room.
    /// 4. Every reply resolves: with an answer, or with an error at the latest when the quorum is
    ///    shut down. It does *not* resolve for a node that is silent: the asker has the deadlines.
    fn call(&self, request: Request) -> Reply;

    /// Sends the release notices of a resource to `listener` until the subscription is dropped.
    fn subscribe(&self, resource: &Resource, listener: Arc<dyn Listener>) -> Subscription;

    /// The unlocks and withdrawals that are not confirmed yet, and whose time is not over.
    fn undelivered(&self) -> Vec<PendingUnlocks>;

    /// Takes no new requests but unlocks, sends what must be delivered, and ends. Ready when
    /// nothing is undelivered any more or all that must be delivered is past its time.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// What is told of release notices.
pub(crate) trait Listener: fmt::Debug + Send + Sync {
    /// Called by a node, from any thread; must not block.
    fn notice(&self, notice: Notice);
}

/// What a subscription says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// From now on no release goes unnoticed: first time, or again after a broken connection, in
    /// which case releases may have been missed.
    Subscribed,
    /// The connection is broken: until the next [`Subscribed`](Self::Subscribed), nothing is heard.
    Interrupted,
    /// A lock that had its quorum was unlocked; or, of a leader's topic, there is another leader or
    /// value; or, of a waiter's turn, it has come.
    Released,
}

/// Keeps a listener subscribed; dropping it ends the subscription, without waiting.
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
