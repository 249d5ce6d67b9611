//! The requests of a send queue that are not sent yet.

use std::{collections::VecDeque, time::Duration};

use super::{in_flight::Sequence, item::Item};
use crate::clock::Instant;

/// The unsent requests, in the order of submission.
///
/// # Invariants
///
/// 1. No request expires before `earliest`, which is `None` if there is no request.
/// 2. `shortest_ttl` is the shortest ttl to which a request extends a lease; `None` if no request extends a lease.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    items: VecDeque<(Sequence, Item)>,
    earliest: Option<Instant>,
    shortest_ttl: Option<Duration>,
}

impl Unsent {
    pub(super) fn iter(&self) -> impl Iterator<Item = &(Sequence, Item)> {
        self.items.iter()
    }

    pub(super) fn first(&self) -> Option<&Item> {
        self.items.front().map(|(_, item)| item)
    }

    /// Returns a time before which no request expires; `None` if there is no request.
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.earliest
    }

    /// Returns the shortest ttl to which a request extends a lease; `None` without such a request.
    pub(super) fn shortest_ttl(&self) -> Option<Duration> {
        self.shortest_ttl
    }

    pub(super) fn pop(&mut self) -> Option<(Sequence, Item)> {
        let first = self.items.pop_front();
        if self.items.is_empty() {
            self.earliest = None;
        }
        if first.as_ref().is_some_and(|(_, item)| item.extended_ttl() == self.shortest_ttl) {
            self.shortest_ttl = self.shortest_extended_ttl();
        }
        first
    }

    /// Inserts a request at its place in the order of submission: the last place, unless the request was sent before.
    pub(super) fn insert(&mut self, sequence: Sequence, item: Item) {
        self.earliest = Some(self.earliest.map_or(item.until, |earliest| earliest.min(item.until)));
        self.shortest_ttl = self.shortest_ttl.into_iter().chain(item.extended_ttl()).min();
        if self.items.back().is_none_or(|(last, _)| *last < sequence) {
            self.items.push_back((sequence, item));
        } else {
            let position = self.items.partition_point(|(before, _)| *before < sequence);
            self.items.insert(position, (sequence, item));
        }
    }

    /// Removes and returns the requests for which `is_taken` is true.
    pub(super) fn take_if(&mut self, is_taken: impl Fn(&Item) -> bool) -> Vec<Item> {
        let (taken, kept): (VecDeque<_>, _) =
            std::mem::take(&mut self.items).into_iter().partition(|(_, item)| is_taken(item));
        self.items = kept;
        self.earliest = self.iter().map(|(_, item)| item.until).min();
        self.shortest_ttl = self.shortest_extended_ttl();
        taken.into_iter().map(|(_, item)| item).collect()
    }

    fn shortest_extended_ttl(&self) -> Option<Duration> {
        self.iter().filter_map(|(_, item)| item.extended_ttl()).min()
    }
}
