//! A listener that wakes a task, for latches and elections.

use tokio::sync::Notify;

use crate::node::{Listener, Notice};

/// Wakes a task when a notice arrives. If no task waits, the next wait ends at once.
#[derive(Debug, Default)]
pub(crate) struct NoticeWaker(pub(crate) Notify);

impl Listener for NoticeWaker {
    /// Handles a notice. A new subscription counts as a notice, because changes before the subscription may have been
    /// missed.
    fn notice(&self, notice: Notice) {
        if notice == Notice::Interrupted {
            return;
        }
        self.0.notify_one();
    }
}
