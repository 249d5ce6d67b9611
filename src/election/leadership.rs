//! Leading.

use std::{fmt, ops::Deref, sync::Arc};

use crate::{
    client::context::ClientContext,
    election::{
        publisher::{Publisher, Repeating},
        value::Value,
    },
    error::Error,
    lock::{Lease, LockGuard, client::Client},
    values::{FencingToken, NodeReplies},
};

/// A won election, for as long as its lease is valid and this value lives. What can be done with the lease are the methods
/// of [`Lease`]: [`is_valid`](Lease::is_valid) is whether it leads, [`while_valid`](Lease::while_valid) runs work until the
/// leadership is lost.
///
/// The leader deposes *itself*: by its own clock, before the nodes would elect another one, and
/// without having to be told by anybody. So at most one leads at a time, under the assumptions of
/// the [crate's promises](crate#what-is-promised-and-on-what-it-rests).
///
/// But a process that is paused between looking and acting may act after its end. Give the
/// [`term`](Self::term) to whatever the leader writes to, and have it refuse smaller ones.
///
/// Dropping it resigns without waiting, as dropping a [`LockGuard`] unlocks. Where that cannot work
/// (the process is killed, the runtime is gone, this is leaked) another is elected when the ttl is
/// over.
#[must_use = "dropping a leadership resigns at once: bind it to a name, `_` is none"]
pub struct Leadership {
    // Before the task, because fields are dropped in this order: what is said is of no use without
    // the lock.
    guard: LockGuard,
    publisher: Arc<Publisher>,
    _repeating: Repeating,
    context: Arc<ClientContext>,
}

impl Leadership {
    /// The leadership of the lock's holder. Nobody knows of it yet.
    pub(super) fn begin(client: &Client, guard: LockGuard, value: Value) -> Self {
        let context = Arc::clone(&client.context);
        let publisher = Arc::new(Publisher::new(&context, Arc::clone(guard.active_lease()), value));
        let repeating = publisher.repeat(&client.leases);
        Self { guard, publisher, _repeating: repeating, context }
    }

    /// Shows the value of now to those who observe.
    pub(super) async fn show(&self) -> Result<(), Error> {
        self.publisher.proclaim(&self.context).await
    }

    /// The term: a fencing token, larger than that of every leader before, as long as the nodes
    /// remember their counters.
    #[must_use]
    pub fn term(&self) -> FencingToken {
        self.guard.fencing_token()
    }

    /// Changes the value that observers see (at most 64 KiB). Returns when a quorum of nodes has recorded it: a client that
    /// asks for the leader from then on sees this value, or a later one.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`] if the leadership is over; [`Error::Config`] if the value is too long, and then the value before
    /// stands. [`Error::NoQuorum`] if fewer nodes than a quorum have recorded it within a node timeout: it is the leader's
    /// value all the same, some observers may see it, and it is sent again after a third of the ttl.
    ///
    /// # Cancel safety
    ///
    /// Once polled, the value is on its way to all nodes, whether or not the future is dropped.
    pub async fn proclaim(&self, value: impl AsRef<[u8]>) -> Result<(), Error> {
        let value = Value::new(value.as_ref())?;
        self.ensure()?;
        self.publisher.set(value);
        self.show().await
    }

    /// Gives the leadership up, as [`LockGuard::unlock`] unlocks, so that another candidate is elected within some round
    /// trips. The value stays on the nodes for at most one ttl, and is not shown to observers any more.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`] if the leadership was over before, and no other: another candidate may have led meanwhile.
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::unlock`].
    pub async fn resign(self) -> Result<NodeReplies, Error> {
        self.guard.unlock().await
    }
}

impl Deref for Leadership {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.guard
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership")
            .field("election", self.guard.resource())
            .field("term", &self.term())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
