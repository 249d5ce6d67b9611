//! The waking of a task by notices.

use tokio::sync::Notify;

use crate::node::{Listener, Notice};

/// Wakes a task when a notice arrives. One notification is kept until the task takes it.
#[derive(Debug, Default)]
pub(crate) struct NoticeWaker(pub(crate) Notify);

impl Listener for NoticeWaker {
    /// A new subscription counts as a notice, because changes before the subscription may have been
    /// missed.
    fn notice(&self, notice: Notice) {
        if notice == Notice::Interrupted {
            return;
        }
        self.0.notify_one();
    }
}
