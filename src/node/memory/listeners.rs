//! Who is told of releases.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use crate::{
    mutex,
    node::{Listener, Notice},
    values::Resource,
};

/// The listeners of one server, in the order of their subscriptions.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    by_resource: BTreeMap<Resource, BTreeMap<u64, Arc<dyn Listener>>>,
}

impl Listeners {
    /// Adds a listener, and returns the number under which it is removed.
    pub(super) fn add(&self, resource: &Resource, listener: Arc<dyn Listener>) -> u64 {
        let mut table = mutex::lock(&self.table);
        let number = table.next;
        table.next += 1;
        table.by_resource.entry(resource.clone()).or_default().insert(number, listener);
        number
    }

    pub(super) fn remove(&self, resource: &Resource, number: u64) {
        let mut table = mutex::lock(&self.table);
        let Some(listeners) = table.by_resource.get_mut(resource) else { return };
        let removed = listeners.remove(&number);
        if listeners.is_empty() {
            table.by_resource.remove(resource);
        }
        // A listener's own drop may come back here.
        drop(table);
        drop(removed);
    }

    /// Tells all listeners of a resource that it was released.
    pub(super) fn notify(&self, resource: &Resource) {
        let listeners: Vec<_> = {
            let table = mutex::lock(&self.table);
            table.by_resource.get(resource).into_iter().flat_map(BTreeMap::values).map(Arc::clone).collect()
        };
        for listener in listeners {
            listener.notice(Notice::Released);
        }
    }

    /// How many listen to a resource.
    pub(super) fn of(&self, resource: &Resource) -> u32 {
        let table = mutex::lock(&self.table);
        let listeners = table.by_resource.get(resource).map_or(0, BTreeMap::len);
        u32::try_from(listeners).unwrap_or(u32::MAX)
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        mutex::lock(&self.table).by_resource.values().map(BTreeMap::len).sum()
    }
}
