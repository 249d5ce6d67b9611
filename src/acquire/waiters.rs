//! The tasks of one client that wait, and its calls that lock.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex},
};

use crate::{
    acquire::{notifier::Notifier, shared_outage::SharedOutage, stall_watchdog::StallWatchdog, turn::Turn},
    client::context::ClientContext,
    mutex::lock,
    node::Resources,
};

/// The tasks of one client that wait, by what they wait for.
///
/// One of them, the *waiter*, tries; the others queue behind it in FIFO order. What is passed on is
/// the turn to try, never the lock, for each lease has a token of its own.
#[derive(Debug)]
pub(crate) struct Waiters {
    pub(super) context: Arc<ClientContext>,
    /// The calls under way, those of tasks that do not wait, too.
    pub(super) watchdog: StallWatchdog,
    /// Looked up by resources, never iterated.
    queues: Mutex<HashMap<Resources, (usize, Arc<TaskQueue>)>>,
}

#[derive(Debug, Default)]
pub(crate) struct TaskQueue {
    /// Tokio's mutex is fair: the first to ask is the first to get it.
    pub(super) turn: tokio::sync::Mutex<Turn>,
    pub(super) notifier: Arc<Notifier>,
    pub(super) outage: Arc<SharedOutage>,
}

/// A place in the queue; leaving it is dropping it.
#[derive(Debug)]
pub(crate) struct LocalPlace<'a> {
    waiters: &'a Waiters,
    waited: Resources,
    pub(super) queue: Arc<TaskQueue>,
}

impl Waiters {
    pub(crate) fn new(context: Arc<ClientContext>) -> Self {
        Self { context, watchdog: StallWatchdog::default(), queues: Mutex::default() }
    }

    pub(crate) fn enter(&self, resources: &Resources) -> LocalPlace<'_> {
        let mut queues = lock(&self.queues);
        let (places, queue) = queues.entry(resources.clone()).or_default();
        *places += 1;
        let queue = Arc::clone(queue);
        drop(queues);
        LocalPlace { waiters: self, waited: resources.clone(), queue }
    }
}

impl LocalPlace<'_> {
    /// The outage that the attempts of this queue meet.
    pub(crate) fn outage(&self) -> &Arc<SharedOutage> {
        &self.queue.outage
    }
}

impl Drop for LocalPlace<'_> {
    fn drop(&mut self) {
        let mut queues = lock(&self.waiters.queues);
        let Entry::Occupied(mut entry) = queues.entry(self.waited.clone()) else { return };
        entry.get_mut().0 -= 1;
        let left = if entry.get().0 == 0 { Some(entry.remove()) } else { None };
        drop(queues);
        // Outside of the mutex: the subscriptions and the entries in the queue end with it.
        drop(left);
    }
}
