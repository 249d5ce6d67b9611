//! A listener that wakes a task, for latches and elections.

use tokio::sync::Notify;

use crate::node::{Listener, Notice};

/// The signal that wakes a task when a notice arrives. If no task waits at that time, the next wait ends at once.
#[derive(Debug, Default)]
pub(crate) struct NoticeWaker(pub(crate) Notify);

impl Listener for NoticeWaker {
    /// Handles a notice. A new subscription wakes the task, because changes before the subscription may have been
    /// missed. An interruption does not wake the task.
    fn notice(&self, notice: Notice) {
        if notice == Notice::Interrupted {
            return;
        }
        self.0.notify_one();
    }
}
