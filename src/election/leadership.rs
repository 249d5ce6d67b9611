//! The leadership: the guard of a won election, which campaigns return.

use std::{fmt, ops::Deref, sync::Arc};

use crate::{
    client::context::ClientContext,
    election::{
        publisher::{Publisher, RepeatTask},
        value::Value,
    },
    error::Error,
    lock::{Lease, LockGuard, client::Client},
    values::{FencingToken, NodeReplies},
};

/// A won election, for as long as its lease is valid and this value lives. The leadership derefs to [`Lease`]: the
/// candidate leads while [`is_valid`](Lease::is_valid) returns true, and [`while_valid`](Lease::while_valid) runs work
/// until the leadership is lost.
///
/// The leader deposes *itself* by its own clock, without a message, and before the nodes would grant the lock to
/// another candidate. Therefore at most one candidate leads at a time, under the assumptions of the [crate's
/// promises](crate#what-is-promised-and-on-what-it-rests).
///
/// A process that is paused between a check of the lease and the next write may write after the end of the leadership.
/// Give the [`term`](Self::term) to the store that the leader writes to, and let the store refuse smaller terms.
///
/// The drop resigns without waiting, as the drop of a [`LockGuard`] unlocks. If the drop cannot send the unlock,
/// because the process is killed or the runtime has ended, another candidate is elected after the ttl. A leaked
/// leadership is renewed until the client is closed.
#[must_use = "dropping a leadership resigns at once: bind it to a name, `_` is none"]
pub struct Leadership {
    // This field is declared before the task, because fields are dropped in the order of declaration: the drop of the
    // guard unlocks before the task ends. Nodes refuse a value that arrives after the unlock.
    guard: LockGuard,
    publisher: Arc<Publisher>,
    _repeat_task: RepeatTask,
    context: Arc<ClientContext>,
}

impl Leadership {
    /// Returns the leadership of the holder of the lock, and starts the task that sends the value after every third of
    /// the ttl. The caller has to [`publish`](Self::publish) the value at once.
    pub(super) fn begin(client: &Client, guard: LockGuard, value: Value) -> Self {
        let context = Arc::clone(&client.context);
        let publisher = Arc::new(Publisher::new(&context, Arc::clone(guard.active_lease()), value));
        let repeat_task = publisher.repeat(&client.leases);
        Self { guard, publisher, _repeat_task: repeat_task, context }
    }

    /// Sends the present value to the nodes, and waits until a quorum has recorded the value.
    pub(super) async fn publish(&self) -> Result<(), Error> {
        self.guard.in_process(self.publisher.proclaim(&self.context)).await
    }

    /// Returns the term: a fencing token, larger than the token of every earlier leader, as long as the nodes remember
    /// their counters.
    #[must_use]
    pub fn term(&self) -> FencingToken {
        self.guard.fencing_token()
    }

    /// Changes the value of the leader (at most 64 KiB), and returns when a quorum of nodes has recorded the value.
    /// While the leader leads, every later query of the leader returns this value or a later value.
    ///
    /// # Errors
    ///
    /// * [`Error::LeaseLost`] if the leadership has ended.
    /// * [`Error::Config`] if the value is too long. The leader keeps its earlier value.
    /// * [`Error::NoQuorum`] if fewer nodes than a quorum recorded the value within a node timeout. The leader has the
    ///   new value nevertheless: some observers may receive the value, and the client sends it again within a third of
    ///   the ttl.
    ///
    /// # Cancel safety
    ///
    /// The first poll submits the value to all nodes. A later drop of the future does not withdraw the value.
    pub async fn proclaim(&self, value: impl AsRef<[u8]>) -> Result<(), Error> {
        let value = Value::new(value.as_ref())?;
        self.ensure()?;
        self.publisher.set(value);
        self.publish().await
    }

    /// Ends the leadership, as [`LockGuard::unlock`] unlocks, so that another candidate is elected within some round
    /// trips. The value stays on the nodes for at most one ttl, but queries and observers do not return the value any
    /// more.
    ///
    /// # Errors
    ///
    /// Only [`Error::LeaseLost`], if the leadership had ended before the call. In that case, another candidate may
    /// have led before the call.
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
