//! The client of all locks, with its background tasks.

use std::sync::Arc;

use futures::future::FutureExt;
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

/// A client: the state that all locks, guards and leases of the client share, and the tasks that end with the client. A
/// `Quorum` is a handle of a client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) context: Arc<ClientContext>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) waiters: Arc<Waiters>,
    pub(super) read_leases: CoalescedReadLeases,
    tasks: [AbortHandle; 3],
}

impl Client {
    /// Starts the tasks of a client.
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
        Arc::new(Self { context, leases, waiters, read_leases: CoalescedReadLeases::default(), tasks })
    }

    /// Ends every lease, and refuses new calls.
    pub(crate) fn close(&self) {
        self.context.close();
        self.leases.lose_all(LossReason::Closed(ClosedReason::ShutDown));
    }

    /// Ends only the watchdog, as a panic in the watchdog would.
    #[cfg(test)]
    pub(crate) fn stop_watchdog(&self) {
        self.tasks[0].abort();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
