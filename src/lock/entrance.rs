//! The entrance to a lease that several tasks of one client lock: a lease of an [`Owner`](super::Owner), or a shared
//! read lease.

use tokio::sync::{Mutex, MutexGuard};

use crate::{client::context::ClientContext, clock::Instant, error::Error};

/// The entrance to a lease that several tasks share. One task at a time can enter, in order of arrival. The task that
/// has entered re-enters, joins or acquires the lease, or downgrades the lease.
#[derive(Debug, Default)]
pub(super) struct Entrance(Mutex<()>);

/// The permission of the task that has entered. The next task enters when the permission is dropped.
pub(super) type Entered<'a> = MutexGuard<'a, ()>;

impl Entrance {
    /// Waits until the tasks ahead have left, and enters. Returns `None` if the tasks have not left by the deadline.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] if the client is closed during the wait.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place among the waiting tasks.
    pub(super) async fn enter_before(
        &self,
        context: &ClientContext,
        deadline: Option<Instant>,
    ) -> Result<Option<Entered<'_>>, Error> {
        tokio::select! {
            biased;
            entered = self.enter() => Ok(Some(entered)),
            () = context.closed() => Err(context.closed_error()),
            () = context.sleep_until(deadline) => Ok(None),
        }
    }

    /// Waits until the tasks ahead have left, and enters. The wait has no deadline, and also continues after the close
    /// of the client.
    pub(super) async fn enter(&self) -> Entered<'_> {
        self.0.lock().await
    }
}
