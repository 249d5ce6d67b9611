//! The listeners of an in-memory server.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use crate::{
    mutex,
    node::{Listener, Notice},
    values::Resource,
};

/// The listeners of one server, by topic, and in the order of their subscriptions. A topic is a resource, or the name
/// of another channel, such as that of the wakes of a waiter.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    table: Mutex<ListenerTable>,
}

#[derive(Debug, Default)]
struct ListenerTable {
    next: u64,
    by_topic: BTreeMap<Resource, BTreeMap<u64, Arc<dyn Listener>>>,
}

impl Listeners {
    /// Adds a listener. Returns the number by which [`remove`](Self::remove) finds the listener.
    pub(super) fn add(&self, topic: &Resource, listener: Arc<dyn Listener>) -> u64 {
        let mut table = mutex::lock(&self.table);
        let number = table.next;
        table.next += 1;
        table.by_topic.entry(topic.clone()).or_default().insert(number, listener);
        number
    }

    pub(super) fn remove(&self, topic: &Resource, number: u64) {
        let mut table = mutex::lock(&self.table);
        let Some(listeners) = table.by_topic.get_mut(topic) else { return };
        let removed = listeners.remove(&number);
        if listeners.is_empty() {
            table.by_topic.remove(topic);
        }
        // The drop of a listener may call this function again, so the mutex is released first.
        drop(table);
        drop(removed);
    }

    /// Passes a notice to all listeners of its topic, as [`Notice::Released`]. Listeners receive every published notice
    /// in this form.
    pub(super) fn notify(&self, topic: &Resource) {
        let listeners: Vec<_> = {
            let table = mutex::lock(&self.table);
            table.by_topic.get(topic).into_iter().flat_map(BTreeMap::values).map(Arc::clone).collect()
        };
        for listener in listeners {
            listener.notice(Notice::Released);
        }
    }

    /// Returns the number of listeners of a topic.
    pub(super) fn count_of(&self, topic: &Resource) -> u32 {
        let table = mutex::lock(&self.table);
        let listeners = table.by_topic.get(topic).map_or(0, BTreeMap::len);
        u32::try_from(listeners).unwrap_or(u32::MAX)
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        mutex::lock(&self.table).by_topic.values().map(BTreeMap::len).sum()
    }
}
