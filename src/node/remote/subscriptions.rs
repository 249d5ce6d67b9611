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

/// The listeners of one node, by topic. A topic is the shared-key alias of a resource, or the name of another channel.
///
/// # Invariants
///
/// 1. All listeners of a topic share one subscription on the connection. After a call of
///    [`changes`](Self::changes), a topic without listeners has no subscription.
/// 2. If a listener is added and removed between two calls of [`changes`](Self::changes), the connection
///    sends nothing.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    subscriptions: BTreeMap<Resource, TopicState>,
    /// The topics whose listeners and subscription may disagree.
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
    pub(super) fn add(&mut self, topic: &Resource, listener: Arc<dyn Listener>) -> (u64, bool) {
        let id = self.next;
        self.next += 1;
        let state = self.subscriptions.entry(topic.clone()).or_default();
        state.listeners.push((id, listener));
        if !state.is_requested {
            self.changed.insert(topic.clone());
        }
        (id, state.is_confirmed)
    }

    /// Removes a listener. Returns the listener to the caller, which must drop the listener after the mutex is
    /// unlocked.
    pub(super) fn remove(&mut self, topic: &Resource, id: u64) -> Option<Arc<dyn Listener>> {
        let state = self.subscriptions.get_mut(topic)?;
        let position = state.listeners.iter().position(|(number, _)| *number == id)?;
        let (_, listener) = state.listeners.remove(position);
        if state.listeners.is_empty() {
            self.changed.insert(topic.clone());
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
        for topic in std::mem::take(&mut self.changed) {
            let Some(state) = self.subscriptions.get_mut(&topic) else { continue };
            match (state.listeners.is_empty(), state.is_requested) {
                (false, false) => {
                    state.is_requested = true;
                    changes.push(Change::Subscribe(topic));
                }
                (true, is_requested) => {
                    self.subscriptions.remove(&topic);
                    if is_requested {
                        changes.push(Change::Unsubscribe(topic));
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
        for (topic, state) in &mut self.subscriptions {
            if state.is_confirmed {
                interrupted.extend(state.listeners.iter().map(|(_, listener)| Arc::clone(listener)));
            }
            state.is_requested = false;
            state.is_confirmed = false;
            self.changed.insert(topic.clone());
        }
        interrupted
    }

    /// Handles the confirmation of a subscription. Returns the listeners of the topic.
    pub(super) fn confirmed(&mut self, topic: &Resource) -> Vec<Arc<dyn Listener>> {
        if let Some(state) = self.subscriptions.get_mut(topic).filter(|state| state.is_requested) {
            state.is_confirmed = true;
        }
        self.listeners(topic)
    }

    /// Returns the listeners of a topic, in the order in which they were added.
    pub(super) fn listeners(&self, topic: &Resource) -> Vec<Arc<dyn Listener>> {
        let state = self.subscriptions.get(topic);
        state
            .into_iter()
            .flat_map(|state| &state.listeners)
            .map(|(_, listener)| Arc::clone(listener))
            .collect()
    }
}
