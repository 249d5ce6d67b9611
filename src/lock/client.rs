//! The client, which all locks, guards and leases of a `Quorum` share: its background tasks, and its end.

use std::sync::{Arc, OnceLock, Weak};

use futures::future::{FutureExt, pending};
use tokio::task::AbortHandle;

use crate::{
    acquire::{stall_watchdog, waiters::Waiters},
    client::{context::ClientContext, dependencies::ClientDependencies},
    config::CheckedQuorum,
    error::{ClosedReason, LossReason},
    lease::{expiry, leases::Leases, watchdog},
    lock::coalesced_read_lease::CoalescedReadLeases,
    node::Node,
};

/// A client: the shared state of all its locks, guards and leases, and the tasks that end with the drop of this value.
/// A `Quorum` is a handle of a client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) context: Arc<ClientContext>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) waiters: Arc<Waiters>,
    pub(super) read_leases: CoalescedReadLeases,
    /// The watchdog, the expiry and the stall watchdog, in this order.
    tasks: [AbortHandle; 3],
    /// The task that owns the [`Lifeline`]. Unset for a simulated client, because its process is killed as a whole.
    lifeline: OnceLock<AbortHandle>,
}

/// A value in a task that never ends by itself. The end of the runtime drops the task, and the drop of this value then
/// closes the client.
struct Lifeline {
    leases: Weak<Leases>,
}

impl Client {
    /// Returns a new client, and starts its tasks.
    pub(crate) fn start(
        nodes: Vec<Arc<dyn Node>>,
        settings: CheckedQuorum,
        dependencies: ClientDependencies,
    ) -> Arc<Self> {
        let context = Arc::new(ClientContext::new(nodes, settings, dependencies));
        let leases = Arc::new(Leases::new(Arc::clone(&context)));
        let waiters = Arc::new(Waiters::new(Arc::clone(&context)));
        let tasks = [
            context.spawner.spawn(watchdog::run(Arc::clone(&leases)).boxed()),
            context.spawner.spawn(expiry::run(Arc::clone(&leases)).boxed()),
            context.spawner.spawn(stall_watchdog::run(Arc::clone(&waiters)).boxed()),
        ];
        Arc::new(Self {
            context,
            leases,
            waiters,
            read_leases: CoalescedReadLeases::default(),
            tasks,
            lifeline: OnceLock::new(),
        })
    }

    /// Starts the task that closes the client at the end of the runtime. If the runtime has ended already, the client
    /// is closed at once.
    pub(crate) fn end_with_runtime(&self) {
        let lifeline = Lifeline { leases: Arc::downgrade(&self.leases) };
        let task = async move {
            let _lifeline = lifeline;
            pending().await
        };
        drop(self.lifeline.set(self.context.spawner.spawn(task.boxed())));
    }

    /// Refuses new calls, and ends every lease.
    pub(crate) fn close(&self) {
        close(&self.leases, ClosedReason::ShutDown);
    }

    /// Ends only the watchdog, as a panic in the watchdog would.
    #[cfg(test)]
    pub(crate) fn stop_watchdog(&self) {
        self.tasks[0].abort();
    }

    /// Ends only the expiry, as a panic in the expiry would.
    #[cfg(test)]
    pub(crate) fn stop_expiry(&self) {
        self.tasks[1].abort();
    }
}

/// Refuses new calls, and ends every lease.
fn close(leases: &Leases, reason: ClosedReason) {
    leases.context.close(reason);
    leases.lose_all(LossReason::Closed(reason));
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.context.home().is_left() {
            // In a forked process, the drop of the last references would close the nodes and the tasks of the original
            // process.
            std::mem::forget((
                Arc::clone(&self.context),
                Arc::clone(&self.leases),
                Arc::clone(&self.waiters),
            ));
            return;
        }
        for task in self.tasks.iter().chain(self.lifeline.get()) {
            task.abort();
        }
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        // If the leases do not exist any more, the client was dropped before, and has no calls and no leases to end.
        let Some(leases) = self.leases.upgrade() else { return };
        if !leases.context.is_closed() {
            close(&leases, ClosedReason::RuntimeEnded);
        }
    }
}
