//! The replies for which no call waits. `client/responsiveness.rs` keeps and reads these replies.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use crate::{
    clock::{Clock, Instant},
    node::{Answer, Reply},
};

/// The replies for which no call waits, at most one for each node. These replies show that a node answers again, and
/// how late. The replies to calls would not show this, if every call is decided before the node answers.
#[derive(Debug, Default)]
pub(super) struct UnawaitedReplies(BTreeMap<usize, UnawaitedReply>);

#[derive(Debug)]
struct UnawaitedReply {
    sent_at: Instant,
    state: ReplyState,
    arrival: Arc<Arrival>,
}

#[derive(Debug)]
enum ReplyState {
    Outstanding(Reply),
    /// The time between request and reply; `None` for an error.
    Arrived(Option<Duration>),
}

/// The time at which a reply arrived, which may be long before the reply is read.
#[derive(Debug)]
struct Arrival {
    clock: Arc<dyn Clock>,
    at: OnceLock<Instant>,
}

impl UnawaitedReplies {
    /// Keeps a reply to a request that was sent at `sent_at`, in place of the kept reply of the node. If the kept reply
    /// belongs to a request that was sent at most `patience` earlier, that reply stays, and the new reply is dropped.
    pub(super) fn keep(
        &mut self,
        node: usize,
        sent_at: Instant,
        reply: Reply,
        patience: Duration,
        clock: &Arc<dyn Clock>,
    ) {
        if self.0.get(&node).is_some_and(|kept| sent_at <= kept.sent_at + patience) {
            return;
        }
        let arrival = Arc::new(Arrival { clock: Arc::clone(clock), at: OnceLock::new() });
        let mut kept = UnawaitedReply { sent_at, state: ReplyState::Outstanding(reply), arrival };
        // The first poll registers the waker that records the arrival.
        kept.poll();
        self.0.insert(node, kept);
    }

    /// Removes the reply of a node, if the reply has arrived. Returns the time of the request, and the time between
    /// request and reply; `None` if no reply has arrived, or if the reply is an error.
    pub(super) fn take(&mut self, node: usize) -> Option<(Instant, Duration)> {
        let kept = self.0.get_mut(&node)?;
        kept.poll();
        let (sent_at, ReplyState::Arrived(took)) = (kept.sent_at, &kept.state) else { return None };
        let took = *took;
        self.0.remove(&node);
        took.map(|took| (sent_at, took))
    }

    /// Whether a reply of the node is kept.
    pub(super) fn has(&self, node: usize) -> bool {
        self.0.contains_key(&node)
    }
}

impl UnawaitedReply {
    fn poll(&mut self) {
        let ReplyState::Outstanding(reply) = &mut self.state else { return };
        let waker = Waker::from(Arc::clone(&self.arrival));
        if let Poll::Ready(answers) = Pin::new(reply).poll(&mut Context::from_waker(&waker)) {
            let is_error = answers.iter().any(|answer| matches!(answer, Answer::Error(_)));
            let took = self.arrival.time().saturating_duration_since(self.sent_at);
            self.state = ReplyState::Arrived((!is_error).then_some(took));
        }
    }
}

impl Arrival {
    fn time(&self) -> Instant {
        *self.at.get_or_init(|| self.clock.now())
    }
}

impl Wake for Arrival {
    fn wake(self: Arc<Self>) {
        self.time();
    }
}
