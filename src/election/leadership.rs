//! Leading.

use std::{fmt, sync::Arc, time::Duration};

use futures::future::{Either, select};

use crate::{
    client::environment::Environment,
    election::{
        publisher::{Publisher, Repeating},
        value::Value,
    },
    error::{LeaseLost, ProclaimError, UnlockError},
    lease::Unlocked,
    lock::{Lease, LockGuard, client::Client},
    values::FencingToken,
};

/// A won election, for as long as it is not lost and this lives.
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
    environment: Arc<Environment>,
}

impl Leadership {
    /// The leadership of the lock's holder. Nobody knows of it yet.
    pub(super) fn begin(client: &Client, guard: LockGuard, value: Value) -> Self {
        let environment = Arc::clone(&client.environment);
        let publisher = Arc::new(Publisher::new(&environment, Arc::clone(guard.active_lease()), value));
        let repeating = publisher.repeat(&client.leases);
        Self { guard, publisher, _repeating: repeating, environment }
    }

    /// Shows the value of now to those who observe.
    pub(super) async fn show(&self) -> Result<(), ProclaimError> {
        self.publisher.proclaim(&self.environment).await
    }

    /// The term: a fencing token, larger than that of every leader before, as long as the nodes
    /// remember their counters.
    #[must_use]
    pub fn term(&self) -> FencingToken {
        self.guard.fencing_token()
    }

    /// Whether this leads at this instant. Once false, it stays false.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.guard.is_valid()
    }

    /// Asks where it has to lead.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`] once it does not lead any more, with the reason.
    pub fn ensure(&self) -> Result<(), LeaseLost> {
        self.guard.ensure()
    }

    /// How long this still certainly leads, unless it is renewed: zero from its end on.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// The lease behind it, to be looked at by other tasks. It does not keep it.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.guard.lease()
    }

    /// Ready when the leadership is over, and before anybody else can be elected: on a timer of its
    /// own, whatever happens to nodes and connections.
    ///
    /// A future sees that only when it is polled: code that blocks its thread is told late, and has
    /// to ask [`ensure`](Self::ensure).
    ///
    /// # Cancel safety
    ///
    /// It only watches; dropping it changes nothing.
    pub async fn lost(&self) -> LeaseLost {
        self.guard.lost().await
    }

    /// Ready when this certainly leads for no longer than `left`, unless it is renewed: the time to
    /// begin with what has to be stopped by the end. See [`Lease::expiring_within`].
    ///
    /// # Cancel safety
    ///
    /// It only watches; dropping it changes nothing.
    pub async fn expiring_within(&self, left: Duration) {
        self.guard.expiring_within(left).await;
    }

    /// Changes the value that those see who observe the election. Returns when a quorum of nodes
    /// keeps it: a client that asks for the leader from then on is shown it, or a later one.
    ///
    /// # Errors
    ///
    /// [`ProclaimError::Config`] if the value is longer than 64 KiB; [`ProclaimError::LeaseLost`]
    /// if the leadership is over; [`ProclaimError::NoQuorum`] if fewer nodes than a quorum have
    /// kept it within a node timeout. It is the leader's value then all the same: some may see it,
    /// and the nodes are told again after a third of the ttl.
    ///
    /// # Cancel safety
    ///
    /// Once polled, it is on its way to all nodes, whether or not it is dropped.
    pub async fn proclaim(&self, value: impl AsRef<[u8]>) -> Result<(), ProclaimError> {
        let value = Value::new(value.as_ref())?;
        self.ensure()?;
        self.publisher.set(value);
        self.show().await
    }

    /// Runs a closure until it is done or the leadership is lost; then it is dropped, at the await
    /// where it is.
    ///
    /// Code between two awaits, and tasks that it spawned, run on and can ask the [`Lease`]. When
    /// the closure is done, this leads on: to end it, [`resign`](Self::resign).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let quorum = redquorum::Quorum::in_memory(3)?;
    /// let leadership = quorum.election("scheduler").value("host-7").campaign().await?;
    /// let jobs = leadership.run(async |lease| {
    ///     // Every write of a leader carries its term.
    ///     lease.fencing_token().as_u64()
    /// }).await?;
    /// assert_eq!(jobs, leadership.term().as_u64());
    /// leadership.resign().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LeaseLost`] if the leadership was lost before the closure was done.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the closure where it is.
    pub async fn run<T>(&self, work: impl AsyncFnOnce(Lease) -> T) -> Result<T, LeaseLost> {
        let work = std::pin::pin!(work(self.lease()));
        let lost = std::pin::pin!(self.lost());
        // What is done is done: the value comes first if both are ready.
        match select(work, lost).await {
            Either::Left((value, _)) => Ok(value),
            Either::Right((lost, _)) => Err(lost),
        }
    }

    /// Gives the leadership up, so that another is elected within some round trips. Returns at the
    /// quorum; the other nodes are told all the same.
    ///
    /// What the leader said stays on the nodes for at most one ttl, and nobody is shown it any
    /// more.
    ///
    /// # Errors
    ///
    /// [`UnlockError::LeaseLost`] if the leadership was over before: another may have led
    /// meanwhile. [`UnlockError::NoQuorum`] if too few nodes have confirmed in a node timeout; it
    /// goes on in the background until the lease's last key is over.
    ///
    /// # Cancel safety
    ///
    /// It is handed to all nodes before anything is waited for; dropped earlier, the leadership is
    /// dropped, which resigns.
    pub async fn resign(self) -> Result<Unlocked, UnlockError> {
        self.guard.unlock().await
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
