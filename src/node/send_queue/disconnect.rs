//! What becomes of requests at a disconnect, or when a script or time is lost.

use std::{collections::HashMap, sync::Arc};

use super::{ConnectionState, SendQueue, Stage, in_flight::Sequence, item::Item};
use crate::{
    clock::Instant,
    node::transport::BatchId,
    values::{LeaseId, NodeError},
};

impl SendQueue {
    /// A connection stands, and its script is loaded.
    pub(crate) fn connected(&mut self) {
        self.connection = ConnectionState::Up;
        self.was_up = true;
    }

    /// No connection could be had. What waits is refused, except unlocks.
    pub(crate) fn dial_failed(&mut self, error: NodeError) {
        let error = unreachable(error);
        self.connection = ConnectionState::Down(error.clone());
        self.wanted = false;
        self.drop_unsent(&error);
    }

    /// The connection is broken, or given up. Unlocks go back to their places; whatever else was
    /// sent is answered as possibly executed, and what was not, as not sent.
    ///
    /// A node that was unresponsive before, or has sent what it must not, is taken for down until
    /// it is heard of again; otherwise calls wait for the next connection.
    pub(crate) fn disconnected(&mut self, error: NodeError, now: Instant) {
        let is_violation = error.is_violation();
        let error = unreachable(error);
        self.connection = if self.is_unresponsive {
            ConnectionState::Down(NodeError::Unresponsive)
        } else if is_violation {
            ConnectionState::Down(error.clone())
        } else {
            ConnectionState::Dialling
        };
        self.is_unresponsive = false;
        self.loading = None;
        self.wanted = false;
        self.drop_unsent(&error);
        for (sequence, mut item) in self.in_flight.take_all() {
            if item.must_deliver() && !item.is_over(now) {
                item.was_sent = true;
                self.insert(sequence, item);
            } else {
                self.weight -= item.weight();
                item.error(&NodeError::Disconnected);
            }
        }
    }

    /// The node did not execute a call because it had lost the script. Whether the script is to be
    /// loaded now: not if that is under way.
    pub(crate) fn not_loaded(&mut self, batch: BatchId, now: Instant) -> bool {
        let Some(batch) = self.in_flight.take(batch) else { return false };
        let starts = self.loading.is_none();
        self.loading.get_or_insert(now);
        let items = batch.into_items();
        let last = self.superseding(&items);
        let error = NodeError::Unreachable("not executed: the node had lost the script".into());
        for (sequence, item) in items {
            let is_past = item.takers().any(|owner| last.get(owner).is_some_and(|last| *last > sequence));
            let resend = item.must_deliver() || !(item.is_abandoned() || is_past);
            if resend && !item.is_over(now) {
                self.insert(sequence, item);
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
        for (_, item) in self.in_flight.take_all() {
            item.error(&NodeError::Disconnected);
        }
        for item in self.unsent.take_if(|_| true) {
            item.refuse(&NodeError::Closed);
        }
        self.retries.clear();
        self.loading = None;
        self.earliest = None;
        self.weight = 0;
    }

    /// Refuses what waits to be sent, except unlocks.
    pub(super) fn drop_unsent(&mut self, error: &NodeError) {
        self.drop_queued(error, |item| !item.must_deliver());
    }

    /// Drops what waits and is of no use any more.
    pub(super) fn drop_over(&mut self, now: Instant) {
        let error = self.unsent_error();
        self.drop_queued(&error, |item| item.is_over(now));
    }

    fn drop_queued(&mut self, error: &NodeError, is_dropped: impl Fn(&Item) -> bool) {
        for item in self.unsent.take_if(is_dropped) {
            self.weight -= item.weight();
            item.refuse(error);
        }
        self.earliest = self.unsent.iter().map(|(_, item)| item.until).min();
    }

    /// By owner, the last request that makes sending an earlier one again wrong: an unlock,
    /// wherever it is, or whatever is in flight, for it may have been executed.
    fn superseding(&self, items: &[(Sequence, Item)]) -> HashMap<LeaseId, Sequence> {
        let mut last = HashMap::new();
        let mut note = |owner: &LeaseId, sequence: Sequence| {
            let noted = last.entry(owner.clone()).or_insert(sequence);
            *noted = sequence.max(*noted);
        };
        for (sequence, item) in self.in_flight.items() {
            item.takers().chain(item.leavers()).for_each(|owner| note(owner, *sequence));
        }
        for (sequence, item) in items.iter().chain(self.unsent.iter()) {
            item.leavers().for_each(|owner| note(owner, *sequence));
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
