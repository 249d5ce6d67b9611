//! The subscriptions of connections to topics.

use std::collections::{BTreeMap, BTreeSet};

use crate::values::Resource;

/// The connections that have subscribed, by node and topic. A connection stays here after its close.
#[derive(Debug, Default)]
pub(super) struct Subscribers(BTreeMap<(usize, Resource), BTreeSet<usize>>);

impl Subscribers {
    pub(super) fn insert(&mut self, connection: usize, node: usize, topic: &Resource) {
        self.0.entry((node, topic.clone())).or_default().insert(connection);
    }

    pub(super) fn remove(&mut self, connection: usize, node: usize, topic: &Resource) {
        let key = (node, topic.clone());
        if let Some(subscribed) = self.0.get_mut(&key) {
            subscribed.remove(&connection);
            if subscribed.is_empty() {
                self.0.remove(&key);
            }
        }
    }

    pub(super) fn of(&self, node: usize, topic: &Resource) -> impl Iterator<Item = usize> {
        self.0.get(&(node, topic.clone())).into_iter().flatten().copied()
    }
}
