//! Who listens to which resource, and what the connection has to be told about it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{node::Listener, values::Resource};

/// The listeners of one node, by resource.
///
/// # Invariants
///
/// 1. One subscription on the wire for all listeners of a resource, none where there is no
///    listener.
/// 2. A listener that comes and goes between two looks of the task costs no traffic.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    subscriptions: BTreeMap<Resource, TopicState>,
    /// Where listeners and connection may disagree.
    changed: BTreeSet<Resource>,
    next: u64,
}

#[derive(Debug, Default)]
struct TopicState {
    listeners: Vec<(u64, Arc<dyn Listener>)>,
    is_asked: bool,
    is_confirmed: bool,
}

/// What the connection has to be told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    Subscribe(Resource),
    Unsubscribe(Resource),
}

impl Subscriptions {
    /// Adds a listener: its number, and whether the subscription stands already.
    pub(super) fn add(&mut self, resource: &Resource, listener: Arc<dyn Listener>) -> (u64, bool) {
        let id = self.next;
        self.next += 1;
        let topic = self.subscriptions.entry(resource.clone()).or_default();
        topic.listeners.push((id, listener));
        if !topic.is_asked {
            self.changed.insert(resource.clone());
        }
        (id, topic.is_confirmed)
    }

    /// Takes a listener out, and hands it back so that it can be dropped outside of any lock.
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

    /// What has to be told to a connection that stands, now that it is told.
    pub(super) fn changes(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.changed.is_empty() {
            return changes;
        }
        for resource in std::mem::take(&mut self.changed) {
            let Some(topic) = self.subscriptions.get_mut(&resource) else { continue };
            match (topic.listeners.is_empty(), topic.is_asked) {
                (false, false) => {
                    topic.is_asked = true;
                    changes.push(Change::Subscribe(resource));
                }
                (true, is_asked) => {
                    self.subscriptions.remove(&resource);
                    if is_asked {
                        changes.push(Change::Unsubscribe(resource));
                    }
                }
                (false, true) => {}
            }
        }
        changes
    }

    /// The connection is gone, and every subscription with it; who has to hear of it.
    pub(super) fn disconnected(&mut self) -> Vec<Arc<dyn Listener>> {
        let mut interrupted = Vec::new();
        for (resource, topic) in &mut self.subscriptions {
            if topic.is_confirmed {
                interrupted.extend(topic.listeners.iter().map(|(_, listener)| Arc::clone(listener)));
            }
            topic.is_asked = false;
            topic.is_confirmed = false;
            self.changed.insert(resource.clone());
        }
        interrupted
    }

    /// The subscription stands; who has to hear of it.
    pub(super) fn confirmed(&mut self, resource: &Resource) -> Vec<Arc<dyn Listener>> {
        if let Some(topic) = self.subscriptions.get_mut(resource).filter(|topic| topic.is_asked) {
            topic.is_confirmed = true;
        }
        self.listeners(resource)
    }

    /// All who listen to a resource, in the order in which they came.
    pub(super) fn listeners(&self, resource: &Resource) -> Vec<Arc<dyn Listener>> {
        let topic = self.subscriptions.get(resource);
        topic
            .into_iter()
            .flat_map(|topic| &topic.listeners)
            .map(|(_, listener)| Arc::clone(listener))
            .collect()
    }
}
