//! The listeners of a node, and the subscriptions on its connection.
//!
//! ```text
//!  add the first listener ──► unsent ──changes──► requested ──confirmed──► active
//!                               ▲                     │                      │
//!                               └──── disconnected ───┴──────────────────────┤
//!  remove the last listener ──► unsubscribed at the next `changes` ◄─────────┘
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{node::Listener, values::Resource};

/// The listeners of one node, by resource.
///
/// # Invariants
///
/// 1. All listeners of a resource share one subscription on the connection. After a call of
///    [`changes`](Self::changes), a resource without listeners has no subscription.
/// 2. If a listener is added and removed between two calls of [`changes`](Self::changes), the connection
///    sends nothing.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    subscriptions: BTreeMap<Resource, TopicState>,
    /// The resources whose listeners and subscription may disagree.
    changed: BTreeSet<Resource>,
    next: u64,
}

#[derive(Debug, Default)]
struct TopicState {
    listeners: Vec<(u64, Arc<dyn Listener>)>,
    is_requested: bool,
    is_confirmed: bool,
}

/// A change of the subscriptions on the connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    Subscribe(Resource),
    Unsubscribe(Resource),
}

impl Subscriptions {
    /// Adds a listener. Returns its number, and whether the subscription is confirmed already.
    pub(super) fn add(&mut self, resource: &Resource, listener: Arc<dyn Listener>) -> (u64, bool) {
        let id = self.next;
        self.next += 1;
        let topic = self.subscriptions.entry(resource.clone()).or_default();
        topic.listeners.push((id, listener));
        if !topic.is_requested {
            self.changed.insert(resource.clone());
        }
        (id, topic.is_confirmed)
    }

    /// Removes a listener. Returns the listener to the caller, which must drop the listener after the mutex is
    /// unlocked.
    pub(super) fn remove(&mut self, resource: &Resource, id: u64) -> Option<Arc<dyn Listener>> {
        let topic = self.subscriptions.get_mut(resource)?;
        let position = topic.listeners.iter().position(|(number, _)| *number == id)?;
        let (_, listener) = topic.listeners.remove(position);
        if topic.listeners.is_empty() {
            self.changed.insert(resource.clone());
        }
        Some(listener)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.subscriptions.is_empty() && self.changed.is_empty()
    }

    /// Returns the changes that the connection must send, and records them as sent.
    pub(super) fn changes(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.changed.is_empty() {
            return changes;
        }
        for resource in std::mem::take(&mut self.changed) {
            let Some(topic) = self.subscriptions.get_mut(&resource) else { continue };
            match (topic.listeners.is_empty(), topic.is_requested) {
                (false, false) => {
                    topic.is_requested = true;
                    changes.push(Change::Subscribe(resource));
                }
                (true, is_requested) => {
                    self.subscriptions.remove(&resource);
                    if is_requested {
                        changes.push(Change::Unsubscribe(resource));
                    }
                }
                (false, true) => {}
            }
        }
        changes
    }

    /// Handles the end of the connection, which ends all subscriptions. Returns the listeners of the confirmed
    /// subscriptions.
    pub(super) fn disconnected(&mut self) -> Vec<Arc<dyn Listener>> {
        let mut interrupted = Vec::new();
        for (resource, topic) in &mut self.subscriptions {
            if topic.is_confirmed {
                interrupted.extend(topic.listeners.iter().map(|(_, listener)| Arc::clone(listener)));
            }
            topic.is_requested = false;
            topic.is_confirmed = false;
            self.changed.insert(resource.clone());
        }
        interrupted
    }

    /// Handles the confirmation of a subscription. Returns the listeners of the resource.
    pub(super) fn confirmed(&mut self, resource: &Resource) -> Vec<Arc<dyn Listener>> {
        if let Some(topic) = self.subscriptions.get_mut(resource).filter(|topic| topic.is_requested) {
            topic.is_confirmed = true;
        }
        self.listeners(resource)
    }

    /// Returns the listeners of a resource, in the order in which they were added.
    pub(super) fn listeners(&self, resource: &Resource) -> Vec<Arc<dyn Listener>> {
        let topic = self.subscriptions.get(resource);
        topic
            .into_iter()
            .flat_map(|topic| &topic.listeners)
            .map(|(_, listener)| Arc::clone(listener))
            .collect()
    }
}
