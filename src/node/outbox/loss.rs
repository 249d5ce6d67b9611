//! What becomes of requests when a connection, a script or time is lost.

use std::{collections::HashMap, sync::Arc};

use super::{Line, Outbox, Stage, flight::Place, item::Item};
use crate::{
    clock::Instant,
    node::{error::NodeError, transport::BatchId},
    owner_id::OwnerId,
};

impl Outbox {
    /// A connection stands, and its script is loaded.
    pub(crate) fn connected(&mut self) {
        self.line = Line::Up;
        self.was_up = true;
    }

    /// No connection could be had. What waits is refused, except unlocks.
    pub(crate) fn dial_failed(&mut self, error: NodeError) {
        let error = unreachable(error);
        self.line = Line::Down(error.clone());
        self.wanted = false;
        self.drop_unsent(&error);
    }

    /// The connection is broken, or given up. Unlocks go back to their places; whatever else was
    /// sent is answered as possibly executed, and what was not, as not sent.
    ///
    /// A node that was mute before, or has sent what it must not, is taken for down until it is
    /// heard of again; otherwise calls wait for the next connection.
    pub(crate) fn disconnected(&mut self, error: NodeError, now: Instant) {
        let is_violation = error.is_violation();
        let error = unreachable(error);
        self.line = if self.mute {
            Line::Down(NodeError::Unresponsive)
        } else if is_violation {
            Line::Down(error.clone())
        } else {
            Line::Dialling
        };
        self.mute = false;
        self.loading = None;
        self.wanted = false;
        self.drop_unsent(&error);
        for (place, mut item) in self.flight.take_all() {
            if item.is_owed() && !item.is_over(now) {
                item.was_sent = true;
                self.enqueue(place, item);
            } else {
                self.weight -= item.weight();
                item.error(&NodeError::Disconnected);
            }
        }
    }

    /// The node did not execute a call because it had lost the script. Whether the script is to be
    /// loaded now: not if that is under way.
    pub(crate) fn not_loaded(&mut self, batch: BatchId, now: Instant) -> bool {
        let Some(batch) = self.flight.take(batch) else { return false };
        let starts = self.loading.is_none();
        self.loading.get_or_insert(now);
        let items = batch.into_items();
        let last = self.superseding(&items);
        let error = NodeError::Unreachable("not executed: the node had lost the script".into());
        for (place, item) in items {
            let is_past = item.takers().any(|owner| last.get(owner).is_some_and(|last| *last > place));
            let resend = item.is_owed() || !(item.is_abandoned() || is_past);
            if resend && !item.is_over(now) {
                self.enqueue(place, item);
            } else {
                self.weight -= item.weight();
                item.error(&error);
            }
        }
        starts
    }

    /// The script is there again.
    pub(crate) fn loaded(&mut self) {
        self.loading = None;
        self.heard();
    }

    /// Takes nothing any more and answers all that is left.
    pub(crate) fn end(&mut self) {
        self.stage = Stage::Ended;
        for (_, item) in self.flight.take_all() {
            item.error(&NodeError::Disconnected);
        }
        for item in self.queue.take_if(|_| true) {
            item.refuse(&NodeError::Closed);
        }
        self.resting.clear();
        self.loading = None;
        self.earliest = None;
        self.weight = 0;
    }

    /// Refuses what waits to be sent, except unlocks.
    pub(super) fn drop_unsent(&mut self, error: &NodeError) {
        self.drop_queued(error, |item| !item.is_owed());
    }

    /// Drops what waits and is of no use any more.
    pub(super) fn drop_over(&mut self, now: Instant) {
        let error = self.unsent();
        self.drop_queued(&error, |item| item.is_over(now));
    }

    fn drop_queued(&mut self, error: &NodeError, is_dropped: impl Fn(&Item) -> bool) {
        for item in self.queue.take_if(is_dropped) {
            self.weight -= item.weight();
            item.refuse(error);
        }
        self.earliest = self.queue.iter().map(|(_, item)| item.until).min();
    }

    /// By owner, the last request that makes sending an earlier one again wrong: an unlock,
    /// wherever it is, or whatever is in flight, for it may have been executed.
    fn superseding(&self, items: &[(Place, Item)]) -> HashMap<OwnerId, Place> {
        let mut last = HashMap::new();
        let mut note = |owner: &OwnerId, place: Place| {
            let noted = last.entry(owner.clone()).or_insert(place);
            *noted = place.max(*noted);
        };
        for (place, item) in self.flight.items() {
            item.takers().chain(item.leavers()).for_each(|owner| note(owner, *place));
        }
        for (place, item) in items.iter().chain(self.queue.iter()) {
            item.leavers().for_each(|owner| note(owner, *place));
        }
        last
    }
}

/// Any cause of having no connection, as an error that says that nothing was sent.
fn unreachable(error: NodeError) -> NodeError {
    match error {
        error if error.is_unsent() => error,
        error if error.is_answer() => NodeError::Handshake(Arc::new(error)),
        error => NodeError::Unreachable(error.to_string().into()),
    }
}
