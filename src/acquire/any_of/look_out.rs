//! Hearing which of some resources are released.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use tokio::sync::Notify;

use super::{AcquiredOne, AnyOf};
use crate::{
    acquire::turn::LISTENING_SHARE,
    mutex::lock,
    node::{Listener, Notice, Subscription},
};

/// Which of them may have become vacant since they were last asked about.
#[derive(Debug, Default)]
struct Released {
    indices: Mutex<BTreeSet<usize>>,
    notified: Notify,
}

/// The listener of one of them.
#[derive(Debug)]
struct ReleaseListener {
    index: usize,
    released: Arc<Released>,
}

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
        let environment = self.environment();
        let pacing = self.settings.pacing;
        let released = Arc::new(Released::default());
        let _subscriptions: Vec<Subscription> =
            (0..self.count).filter_map(|index| self.listen(index, &released)).collect();
        let mut poll_at = environment.now() + pacing.longest_poll;
        // Then one question to each node does for all of them.
        let listens_from = environment.now() + self.settings.rules.node_timeout / LISTENING_SHARE;
        released.until_all(self.count, environment.until(Some(listens_from))).await;
        // How often in a row it has not got what was vacant, and what it tries again, when.
        let (mut failures, mut again, mut again_at) = (0, BTreeSet::new(), None);
        loop {
            let is_poll = tokio::select! {
                biased;
                () = released.notified.notified() => false,
                () = environment.until(again_at) => false,
                () = environment.clock.sleep_until(poll_at) => true,
            };
            let mut look = if is_poll {
                poll_at = environment.now() + pacing.longest_poll;
                self.ask_vacant_by_shares(&environment.some_of(self.count, self.count), 1, true)
            } else {
                let mut indices = std::mem::take(&mut *lock(&released.indices));
                if again_at.is_some_and(|at| at <= environment.now()) {
                    again_at = None;
                    indices.append(&mut again);
                }
                self.ask_queue_nodes(indices)
            };
            loop {
                let found = look.found(self).await;
                if found.is_empty() {
                    break;
                }
                for index in found {
                    if let Ok(Some(acquired)) = self.attempt(index, true).await {
                        return acquired;
                    }
                    again.insert(index);
                }
            }
            if again.is_empty() {
                failures = 0;
            } else if again_at.is_none() {
                again_at = Some(environment.now() + pacing.delay_after(failures, environment.jitter()));
                failures += 1;
            }
        }
    }

    fn listen(&self, index: usize, released: &Arc<Released>) -> Option<Subscription> {
        let node = self.environment().nodes.get(self.queue_node(index)?)?;
        let listener = ReleaseListener { index, released: Arc::clone(released) };
        Some(node.subscribe(&(self.resource_at)(index), Arc::new(listener)))
    }
}

impl Released {
    /// Ready when it is said of all, or once `end` is.
    async fn until_all(&self, count: usize, end: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            () = end => {}
            () = async { while lock(&self.indices).len() < count { self.notified.notified().await } } => {}
        }
        self.notified.notify_one();
    }
}

impl Listener for ReleaseListener {
    fn notice(&self, notice: Notice) {
        match notice {
            // Before a subscription, it may have been released unheard.
            Notice::Released | Notice::Subscribed => {
                lock(&self.released.indices).insert(self.index);
                self.released.notified.notify_one();
            }
            Notice::Interrupted => {}
        }
    }
}
