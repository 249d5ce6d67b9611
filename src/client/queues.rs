//! Which resources others are known to wait for, and which queue nodes answer, and how soon.

use std::{collections::HashMap, sync::Mutex, time::Duration};

use crate::{
    algorithm::{answer_times::AnswerTimes, silence::Silence},
    client::fanout::{Fanout, FanoutEvent},
    clock::{Clock, Instant},
    mutex::lock,
    node::{Reply, Resources},
};

/// The most resources that are remembered. What is forgotten costs its next lock at most what it
/// saves: a round trip.
const MOST: usize = 4096;

/// The resources for which others wait, by the last word of their queue nodes, and what is known of the
/// nodes' answers.
///
/// A client that knows of a queue asks its queue node before the others. Without that, a client
/// that is nearer to the other nodes would have a quorum before that node has said who is first,
/// again and again.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    /// Looked up by resources, never iterated.
    known: Mutex<HashMap<Resources, CacheEntry>>,
    silence: Mutex<Silence>,
    times: Mutex<AnswerTimes>,
}

/// What is known of the queue of one of some resources: that others are in it, unless a reply says
/// otherwise that is still to come.
#[derive(Debug)]
struct CacheEntry {
    index: usize,
    queue_node: usize,
    reply: Option<Reply>,
}

impl Queues {
    /// The queue node of one of the resources has said whether anybody is in it.
    pub(crate) fn note(&self, resources: &Resources, index: usize, queue_node: usize, is_awaited: bool) {
        if is_awaited {
            self.keep(resources, CacheEntry { index, queue_node, reply: None });
        } else {
            lock(&self.known).remove(resources);
        }
    }

    /// The queue node is about to say it, and nobody waits for that.
    pub(crate) fn hear_later(&self, resources: &Resources, index: usize, queue_node: usize, reply: Reply) {
        self.keep(resources, CacheEntry { index, queue_node, reply: Some(reply) });
    }

    /// A queue node has not answered in time. It is not asked before the others until it has, or for a
    /// time: a free resource would cost what it is waited for, again and again.
    pub(crate) fn passed_over(&self, queue_node: usize, now: Instant) {
        lock(&self.silence).passed_over(queue_node, now);
    }

    /// A node has answered.
    pub(crate) fn heard(&self, node: usize) {
        lock(&self.silence).heard(node);
    }

    /// A node has answered after so long.
    pub(crate) fn answered_after(&self, node: usize, took: Duration) {
        lock(&self.times).heard(node, took);
    }

    /// Whether a node takes much longer to answer than so many of the nodes.
    pub(crate) fn is_far(&self, node: usize, needed: usize) -> bool {
        lock(&self.times).is_far(node, needed)
    }

    /// The index of the resource in whose queue others are known to be, or may be.
    ///
    /// A reply that is still to come is waited for, but for `no_longer_than`: the other nodes have
    /// answered already, so it is due. It costs less than to ask the node anew before the others,
    /// or to ask all and give their votes back.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves that others may be queued.
    pub(crate) async fn of(
        &self,
        clock: &dyn Clock,
        no_longer_than: Duration,
        resources: &Resources,
    ) -> Option<usize> {
        let CacheEntry { index, queue_node, reply } = self.take_reply(resources)?;
        if let Some(reply) = reply {
            let mut replies = Fanout::from_replies(vec![(queue_node, reply)]);
            let patience =
                if self.is_silent(queue_node, clock.now()) { Duration::ZERO } else { no_longer_than };
            match replies.next(clock, clock.now() + patience).await {
                FanoutEvent::Answer { answer, .. } => {
                    let is_awaited = answer.is_awaited();
                    if is_awaited.is_some() {
                        self.heard(queue_node);
                    }
                    self.note(resources, index, queue_node, is_awaited == Some(true));
                }
                FanoutEvent::DeadlineReached => {
                    self.passed_over(queue_node, clock.now());
                    if let Some((_, reply)) = replies.take_outstanding(|()| true).pop() {
                        self.hear_later(resources, index, queue_node, reply);
                    }
                }
            }
        }
        let known = lock(&self.known).get(resources).map(|known| (known.index, known.queue_node));
        known.filter(|(_, queue_node)| !self.is_silent(*queue_node, clock.now())).map(|(index, _)| index)
    }

    /// What is known, and the reply that is still to come.
    fn take_reply(&self, resources: &Resources) -> Option<CacheEntry> {
        let mut known = lock(&self.known);
        let known = known.get_mut(resources)?;
        Some(CacheEntry { index: known.index, queue_node: known.queue_node, reply: known.reply.take() })
    }

    /// Whether a node is not waited for now, because it has not answered.
    pub(crate) fn is_silent(&self, node: usize, now: Instant) -> bool {
        lock(&self.silence).is_silent(node, now)
    }

    fn keep(&self, resources: &Resources, latest: CacheEntry) {
        let mut known = lock(&self.known);
        if known.len() >= MOST && !known.contains_key(resources) {
            known.clear();
        }
        known.insert(resources.clone(), latest);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::{FutureExt, poll};

    use super::*;
    use crate::{
        clock::TokioClock,
        node::{Answer, operation::samples::resources},
        values::NodeError,
    };

    const PATIENCE: Duration = Duration::from_millis(125);

    async fn of(queues: &Queues, waited: &str) -> Option<usize> {
        queues.of(&TokioClock::new(), PATIENCE, &resources(waited)).await
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_word_counts() {
        let queues = Queues::default();
        queues.note(&resources("a b"), 1, 4, true);
        assert_eq!((of(&queues, "a b").await, of(&queues, "a").await), (Some(1), None));
        queues.note(&resources("a b"), 0, 4, true);
        assert_eq!(of(&queues, "a b").await, Some(0));
        queues.note(&resources("a b"), 0, 4, false);
        assert_eq!(of(&queues, "a b").await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_is_remembered_than_there_is_room_for() {
        let queues = Queues::default();
        for number in 0..=MOST {
            queues.note(&resources(&format!("r{number}")), 0, 4, true);
        }
        assert!(lock(&queues.known).len() <= MOST);
        assert_eq!(of(&queues, &format!("r{MOST}")).await, Some(0), "the last word is there");
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_does_not_answer_is_asked_with_the_others_until_it_has() {
        let queues = Queues::default();
        queues.note(&resources("a"), 0, 4, true);
        let now = TokioClock::new().now();
        queues.heard(4);
        queues.passed_over(2, now);
        assert_eq!(of(&queues, "a").await, Some(0));
        queues.passed_over(4, now);
        assert_eq!(of(&queues, "a").await, None);
        queues.heard(4);
        assert_eq!(of(&queues, "a").await, Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_that_is_still_to_come_is_waited_for() {
        for (answer, known) in [
            (Answer::Unlocked { deleted: 1 }, None),
            (Answer::Unlocked { deleted: 1 }.awaited(true), Some(0)),
            (Answer::Error(NodeError::Disconnected), None),
        ] {
            let queues = Queues::default();
            let (responder, reply) = Reply::channel(1);
            queues.hear_later(&resources("a"), 0, 4, reply);
            let mut asked = pin!(of(&queues, "a"));
            assert!(poll!(&mut asked).is_pending());
            responder.answer(vec![answer]);
            assert_eq!(asked.await, known);
            assert_eq!(of(&queues, "a").await, known);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_that_does_not_come_is_waited_for_once_and_heard_whenever_it_comes() {
        let queues = Queues::default();
        queues.heard(4);
        let (responder, reply) = Reply::channel(1);
        queues.hear_later(&resources("a"), 0, 4, reply);
        let clock = TokioClock::new();
        let start = clock.now();
        assert_eq!((of(&queues, "a").await, of(&queues, "a").await), (None, None));
        assert_eq!(clock.now().saturating_duration_since(start), PATIENCE);
        responder.answer(vec![Answer::Unlocked { deleted: 1 }.awaited(true)]);
        assert_eq!(of(&queues, "a").await, Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn where_a_call_was_dropped_that_waited_for_a_reply_others_may_be_queued() {
        let queues = Queues::default();
        let (_responder, reply) = Reply::channel(1);
        queues.hear_later(&resources("a"), 0, 4, reply);
        assert_eq!(of(&queues, "a").now_or_never(), None);
        assert_eq!(of(&queues, "a").await, Some(0));
    }
}
