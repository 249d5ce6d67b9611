//! What waits to be sent.

use std::collections::VecDeque;

use super::{in_flight::Sequence, item::Item};

/// Unsent requests in the order of submission.
#[derive(Debug, Default)]
pub(super) struct Unsent(VecDeque<(Sequence, Item)>);

impl Unsent {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(Sequence, Item)> {
        self.0.iter()
    }

    pub(super) fn first(&self) -> Option<&Item> {
        self.0.front().map(|(_, item)| item)
    }

    pub(super) fn pop(&mut self) -> Option<(Sequence, Item)> {
        self.0.pop_front()
    }

    /// Puts a request in its place, which is the last unless it is put back.
    pub(super) fn insert(&mut self, sequence: Sequence, item: Item) {
        if self.0.back().is_none_or(|(last, _)| *last < sequence) {
            self.0.push_back((sequence, item));
        } else {
            let position = self.0.partition_point(|(before, _)| *before < sequence);
            self.0.insert(position, (sequence, item));
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
