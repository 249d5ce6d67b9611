//! Hearing which of some resources are released.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use tokio::sync::Notify;

use super::{AcquiredOne, AnyOf};
use crate::{
    acquire::turn::LISTENING_SHARE,
    clock::Instant,
    mutex::lock,
    node::{Listener, Notice, Subscription},
};

/// A second look comes so many times a hand-over after a release, at most: it doubles with each that
/// finds something vacant that is not to be had.
const LONGEST_REST: u32 = 64;

/// What the nodes say.
#[derive(Debug, Default)]
struct PendingChecks {
    told: Mutex<Told>,
    notified: Notify,
}

/// Which of them are to be asked about, by their indices.
#[derive(Debug, Default)]
struct Told {
    /// At once.
    now: BTreeSet<usize>,
    /// Once more after a while: when somebody released one, another who does not take it after all may
    /// have been asked for it, or be on its way out of its queue.
    again: BTreeSet<usize>,
}

/// The listener of one of them.
#[derive(Debug)]
struct ReleaseListener {
    index: usize,
    heard: Arc<PendingChecks>,
}

/// At which node one is listened to.
type Listening = Option<(usize, Subscription)>;

impl AnyOf {
    /// Hears of the release of any of them, and takes one that nobody is queued for.
    ///
    /// To listen to all costs a node about as much as to look at all once, and then nothing until one
    /// is released. Two that did so would be in each other's way, so it is for one client at a time.
    /// It also looks at all in the longest poll, since no release is told of a lease that ends unheard.
    ///
    /// # Cancel safety
    ///
    /// As [`attempt_once`](crate::acquire::attempt::attempt_once).
    pub(crate) async fn look_out(&self) -> AcquiredOne {
        let context = self.context();
        let hand_over = context.settings.parameters.hand_over;
        let poll = self.settings.pacing.longest_poll;
        let heard = Arc::new(PendingChecks::default());
        let mut listening: Vec<Listening> = (0..self.count).map(|_| None).collect();
        self.listen(&mut listening, &heard);
        // Then one question to each node does for all of them.
        let listens_from = context.now() + self.settings.rules.node_timeout / LISTENING_SHARE;
        heard.until_all(self.count, context.sleep_until(Some(listens_from))).await;
        let mut poll_at = context.now() + poll;
        let (mut rest, mut again_at) = (1, None::<Instant>);
        loop {
            let is_poll = tokio::select! {
                biased;
                () = context.clock.sleep_until(poll_at) => true,
                () = heard.notified.notified() => false,
                () = context.sleep_until(again_at) => false,
            };
            let mut look = if is_poll {
                self.listen(&mut listening, &heard);
                poll_at = context.now() + poll;
                self.ask_vacant_by_shares(&context.sample_indices(self.count, self.count), 1, true)
            } else {
                let mut told = lock(&heard.told);
                let mut indices = std::mem::take(&mut told.now);
                if again_at.is_some_and(|at| at <= context.now()) {
                    again_at = None;
                    indices.append(&mut told.again);
                }
                drop(told);
                let indices: Vec<usize> = indices.into_iter().collect();
                // In any order: a node names only so many.
                let order = context.sample_indices(indices.len(), indices.len());
                self.ask_queue_nodes(order.into_iter().filter_map(|at| indices.get(at).copied()))
            };
            let mut is_any_missed = false;
            loop {
                let found = look.found(self).await;
                if found.is_empty() {
                    break;
                }
                for index in found {
                    if let Ok(Some(acquired)) = self.attempt(index, true).await {
                        return acquired;
                    }
                    is_any_missed = true;
                    lock(&heard.told).again.insert(index);
                }
            }
            rest = if is_any_missed { (2 * rest).min(LONGEST_REST) } else { 1 };
            if again_at.is_none() && !lock(&heard.told).again.is_empty() {
                again_at = Some(context.now() + hand_over * rest);
            }
        }
    }

    /// Listens to each at its queue node, which another may be than before.
    fn listen(&self, listening: &mut [Listening], heard: &Arc<PendingChecks>) {
        let nodes = &self.context().nodes;
        for (index, listening) in listening.iter_mut().enumerate() {
            let queue_node = self.queue_node(index);
            if listening.as_ref().map(|(node, _)| *node) == queue_node {
                continue;
            }
            let listener = Arc::new(ReleaseListener { index, heard: Arc::clone(heard) });
            let listen =
                |node: usize| Some((node, nodes.get(node)?.subscribe(&(self.resource_at)(index), listener)));
            *listening = queue_node.and_then(listen);
        }
    }
}

impl PendingChecks {
    /// Ready when it is told of all, or once `end` is.
    async fn until_all(&self, count: usize, end: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            () = end => {}
            () = async { while lock(&self.told).now.len() < count { self.notified.notified().await } } => {}
        }
        self.notified.notify_one();
    }
}

impl Listener for ReleaseListener {
    fn notice(&self, notice: Notice) {
        if notice == Notice::Interrupted {
            return;
        }
        let mut told = lock(&self.heard.told);
        // Before a subscription, too, it may have been released.
        told.now.insert(self.index);
        if notice == Notice::Released {
            told.again.insert(self.index);
        }
        drop(told);
        self.heard.notified.notify_one();
    }
}
