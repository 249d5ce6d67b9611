//! The local queues of one client, and the calls that the stall watchdog checks. A waiting call enters the local queue
//! of its resources by [`Waiters::enter`].

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex},
};

use crate::{
    acquire::{
        local_waiter::LocalWaiter, notifier::Notifier, shared_outage::SharedOutage,
        stall_watchdog::StallWatchdog,
    },
    client::context::ClientContext,
    mutex::lock,
    node::Resources,
};

/// The waiting tasks of one client, by resources.
///
/// In each local queue, one task at a time has the [`LocalWaiter`] and makes attempts. The other tasks of that queue
/// follow in the order of their calls. A task passes the local turn to the next task, but never a lease, because each
/// lease needs a token of its own.
#[derive(Debug)]
pub(crate) struct Waiters {
    pub(super) context: Arc<ClientContext>,
    /// The calls in flight, including calls that do not wait.
    pub(super) watchdog: StallWatchdog,
    /// The local queues by resources, each with the number of its places. Never iterated, since the order of a
    /// `HashMap` is random.
    queues: Mutex<HashMap<Resources, (usize, Arc<LocalQueue>)>>,
}

/// The queue of the tasks that wait for the same resources.
#[derive(Debug, Default)]
pub(crate) struct LocalQueue {
    /// The local turn. Tokio's mutex is fair, so tasks get the local turn in the order of their calls.
    pub(super) waiter: tokio::sync::Mutex<LocalWaiter>,
    pub(super) notifier: Arc<Notifier>,
    pub(super) outage: Arc<SharedOutage>,
}

/// A place in a local queue. The drop of the place leaves the queue.
#[derive(Debug)]
pub(crate) struct LocalPlace<'a> {
    waiters: &'a Waiters,
    resources: Resources,
    pub(super) queue: Arc<LocalQueue>,
}

impl Waiters {
    pub(crate) fn new(context: Arc<ClientContext>) -> Self {
        Self { context, watchdog: StallWatchdog::default(), queues: Mutex::default() }
    }

    /// Enters the local queue of these resources.
    pub(crate) fn enter(&self, resources: &Resources) -> LocalPlace<'_> {
        let mut queues = lock(&self.queues);
        let (places, queue) = queues.entry(resources.clone()).or_default();
        *places += 1;
        let queue = Arc::clone(queue);
        drop(queues);
        LocalPlace { waiters: self, resources: resources.clone(), queue }
    }
}

impl LocalPlace<'_> {
    /// Returns the result of the last attempt, which the calls in this queue share.
    pub(crate) fn outage(&self) -> &Arc<SharedOutage> {
        &self.queue.outage
    }
}

impl Drop for LocalPlace<'_> {
    fn drop(&mut self) {
        let mut queues = lock(&self.waiters.queues);
        let Entry::Occupied(mut entry) = queues.entry(self.resources.clone()) else { return };
        entry.get_mut().0 -= 1;
        let removed = if entry.get().0 == 0 { Some(entry.remove()) } else { None };
        // The drop of the last reference to the queue withdraws queue entries and ends subscriptions. Therefore the
        // mutex is released first. The field `queue` of the last place is dropped after this function.
        drop(queues);
        drop(removed);
    }
}
