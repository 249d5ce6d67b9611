//! The waking of a task by notices.

use tokio::sync::Notify;

use crate::node::{Listener, Notice};

/// Wakes a task when a notice arrives, and keeps one notification until the task takes it.
#[derive(Debug, Default)]
pub(crate) struct NoticeWaker(pub(crate) Notify);

impl Listener for NoticeWaker {
    /// A new subscription counts as a notice: changes before it may have gone unnoticed.
    fn notice(&self, notice: Notice) {
        if notice == Notice::Interrupted {
            return;
        }
        self.0.notify_one();
    }
}
