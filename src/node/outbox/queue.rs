//! What waits to be sent.

use std::collections::VecDeque;

use super::{flight::Place, item::Item};

/// Requests in the order of submission.
#[derive(Debug, Default)]
pub(super) struct Queue(VecDeque<(Place, Item)>);

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(Place, Item)> {
        self.0.iter()
    }

    pub(super) fn first(&self) -> Option<&Item> {
        self.0.front().map(|(_, item)| item)
    }

    pub(super) fn pop(&mut self) -> Option<(Place, Item)> {
        self.0.pop_front()
    }

    /// Puts a request in its place, which is the last unless it is put back.
    pub(super) fn insert(&mut self, place: Place, item: Item) {
        if self.0.back().is_none_or(|(last, _)| *last < place) {
            self.0.push_back((place, item));
        } else {
            let position = self.0.partition_point(|(before, _)| *before < place);
            self.0.insert(position, (place, item));
        }
    }

    /// Takes out some.
    pub(super) fn take_if(&mut self, is_taken: impl Fn(&Item) -> bool) -> Vec<Item> {
        let (taken, kept): (VecDeque<_>, _) =
            std::mem::take(&mut self.0).into_iter().partition(|(_, item)| is_taken(item));
        self.0 = kept;
        taken.into_iter().map(|(_, item)| item).collect()
    }
}
