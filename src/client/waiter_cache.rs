//! A cache of the resources that have waiters. Attempts and unlocks record answers in the cache, and later calls look
//! up their resources in the cache before their first attempt.

use std::{collections::HashMap, sync::Mutex, time::Duration};

use crate::{
    client::{
        fanout::{Fanout, FanoutEvent},
        responsiveness::Responsiveness,
    },
    clock::Clock,
    mutex::lock,
    node::{Reply, Resources},
};

/// The capacity of the cache. A full cache is cleared, because without an entry, the next lock takes at most one more
/// round trip.
const CAPACITY: usize = 4096;

/// The resources that have waiters, according to the last answer of each queue node.
///
/// A client asks the queue node of a resource with waiters before all other nodes. Otherwise a client near the other
/// nodes could repeatedly win before the queue node answers, and overtake all waiters.
#[derive(Debug, Default)]
pub(crate) struct WaiterCache {
    /// Never iterated, since the order of a `HashMap` is random.
    entries: Mutex<HashMap<Resources, CacheEntry>>,
}

/// The resource of a request that has waiters. While the reply is outstanding, the resource may have waiters.
#[derive(Debug)]
struct CacheEntry {
    index: usize,
    queue_node: usize,
    reply: Option<Reply>,
}

impl WaiterCache {
    /// Records the answer of a queue node: whether clients wait for the resource at `index`.
    pub(crate) fn record(&self, resources: &Resources, index: usize, queue_node: usize, has_waiters: bool) {
        if has_waiters {
            self.insert(resources, CacheEntry { index, queue_node, reply: None });
        } else {
            lock(&self.entries).remove(resources);
        }
    }

    /// Keeps the outstanding reply of a queue node. The next lookup of these resources reads the answer.
    pub(crate) fn defer(&self, resources: &Resources, index: usize, queue_node: usize, reply: Reply) {
        self.insert(resources, CacheEntry { index, queue_node, reply: Some(reply) });
    }

    /// Returns the index of the resource that has or may have waiters; `None` if there is none, or if its queue node is
    /// silent.
    ///
    /// Waits for an outstanding reply for at most `patience`. The request was the unlock of an earlier lease, so the
    /// reply should arrive soon. The wait is cheaper than another request to the queue node, and cheaper than a
    /// rollback.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped during the wait, the reply is lost. The entry stays, because the resource may have
    /// waiters.
    pub(crate) async fn resource_with_waiters(
        &self,
        clock: &dyn Clock,
        responsiveness: &Responsiveness,
        patience: Duration,
        resources: &Resources,
    ) -> Option<usize> {
        let is_silent = |node: usize| responsiveness.is_silent(node, clock.now());
        let CacheEntry { index, queue_node, reply } = self.take_reply(resources)?;
        if let Some(reply) = reply {
            let mut replies = Fanout::from_replies(vec![(queue_node, reply)]);
            let patience = if is_silent(queue_node) { Duration::ZERO } else { patience };
            match replies.next(clock, clock.now() + patience).await {
                FanoutEvent::Answer { answer, .. } => {
                    let has_waiters = answer.has_waiters();
                    if has_waiters.is_some() {
                        responsiveness.answered(queue_node);
                    }
                    self.record(resources, index, queue_node, has_waiters == Some(true));
                }
                FanoutEvent::DeadlineReached => {
                    responsiveness.timed_out(queue_node, clock.now());
                    if let Some((_, reply)) = replies.take_outstanding(|()| true).pop() {
                        self.defer(resources, index, queue_node, reply);
                    }
                }
            }
        }
        let entry = lock(&self.entries).get(resources).map(|entry| (entry.index, entry.queue_node));
        entry.filter(|(_, queue_node)| !is_silent(*queue_node)).map(|(index, _)| index)
    }

    /// Returns a copy of the entry with its outstanding reply. The entry itself stays, without the reply.
    fn take_reply(&self, resources: &Resources) -> Option<CacheEntry> {
        let mut entries = lock(&self.entries);
        let entry = entries.get_mut(resources)?;
        Some(CacheEntry { index: entry.index, queue_node: entry.queue_node, reply: entry.reply.take() })
    }

    fn insert(&self, resources: &Resources, latest: CacheEntry) {
        let mut entries = lock(&self.entries);
        if entries.len() >= CAPACITY && !entries.contains_key(resources) {
            entries.clear();
        }
        entries.insert(resources.clone(), latest);
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, sync::Arc};

    use futures::{FutureExt, poll};

    use super::*;
    use crate::{
        clock::TokioClock,
        node::{Answer, operation::samples::resources},
        observer::NoObserver,
        values::NodeError,
    };

    const PATIENCE: Duration = Duration::from_millis(125);

    struct Fixture {
        cache: WaiterCache,
        responsiveness: Responsiveness,
    }

    impl Default for Fixture {
        fn default() -> Self {
            let responsiveness =
                Responsiveness::new(PATIENCE, Arc::new(TokioClock::new()), Arc::new(NoObserver));
            Self { cache: WaiterCache::default(), responsiveness }
        }
    }

    impl Fixture {
        async fn resource_with_waiters(&self, names: &str) -> Option<usize> {
            let clock = TokioClock::new();
            self.cache.resource_with_waiters(&clock, &self.responsiveness, PATIENCE, &resources(names)).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_newest_answer_about_a_resource_counts() {
        let fixture = Fixture::default();
        fixture.cache.record(&resources("a b"), 1, 4, true);
        let found = (fixture.resource_with_waiters("a b").await, fixture.resource_with_waiters("a").await);
        assert_eq!(found, (Some(1), None));
        fixture.cache.record(&resources("a b"), 0, 4, true);
        assert_eq!(fixture.resource_with_waiters("a b").await, Some(0));
        fixture.cache.record(&resources("a b"), 0, 4, false);
        assert_eq!(fixture.resource_with_waiters("a b").await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_cache_still_records_the_newest_entry() {
        let fixture = Fixture::default();
        for number in 0..=CAPACITY {
            fixture.cache.record(&resources(&format!("r{number}")), 0, 4, true);
        }
        assert!(lock(&fixture.cache.entries).len() <= CAPACITY);
        assert_eq!(fixture.resource_with_waiters(&format!("r{CAPACITY}")).await, Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_of_a_silent_queue_node_is_ignored_until_the_node_answers() {
        let fixture = Fixture::default();
        fixture.cache.record(&resources("a"), 0, 4, true);
        let now = TokioClock::new().now();
        fixture.responsiveness.answered(4);
        fixture.responsiveness.timed_out(2, now);
        assert_eq!(fixture.resource_with_waiters("a").await, Some(0));
        fixture.responsiveness.timed_out(4, now);
        assert_eq!(fixture.resource_with_waiters("a").await, None);
        fixture.responsiveness.answered(4);
        assert_eq!(fixture.resource_with_waiters("a").await, Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lookup_waits_for_an_outstanding_reply() {
        for (answer, expected) in [
            (Answer::Unlocked { deleted: 1 }, None),
            (Answer::Unlocked { deleted: 1 }.with_waiters(true), Some(0)),
            (Answer::Error(NodeError::Disconnected), None),
        ] {
            let fixture = Fixture::default();
            let (responder, reply) = Reply::channel(1);
            fixture.cache.defer(&resources("a"), 0, 4, reply);
            let mut lookup = pin!(fixture.resource_with_waiters("a"));
            assert!(poll!(&mut lookup).is_pending());
            responder.answer(vec![answer]);
            assert_eq!(lookup.await, expected);
            assert_eq!(fixture.resource_with_waiters("a").await, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lookup_waits_only_once_for_a_late_reply() {
        let fixture = Fixture::default();
        fixture.responsiveness.answered(4);
        let (responder, reply) = Reply::channel(1);
        fixture.cache.defer(&resources("a"), 0, 4, reply);
        let clock = TokioClock::new();
        let start = clock.now();
        let found = (fixture.resource_with_waiters("a").await, fixture.resource_with_waiters("a").await);
        assert_eq!(found, (None, None));
        assert_eq!(clock.now().saturating_duration_since(start), PATIENCE);
        responder.answer(vec![Answer::Unlocked { deleted: 1 }.with_waiters(true)]);
        assert_eq!(fixture.resource_with_waiters("a").await, Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_lookup_leaves_the_entry() {
        let fixture = Fixture::default();
        let (_responder, reply) = Reply::channel(1);
        fixture.cache.defer(&resources("a"), 0, 4, reply);
        assert_eq!(fixture.resource_with_waiters("a").now_or_never(), None);
        assert_eq!(fixture.resource_with_waiters("a").await, Some(0));
    }
}
