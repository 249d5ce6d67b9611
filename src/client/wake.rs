//! Waking a task when a node gives notice.

use tokio::sync::Notify;

use crate::node::{Listener, Notice};

/// Wakes a task when a node gives notice. It keeps one notification until the task takes it.
#[derive(Debug, Default)]
pub(crate) struct Wake(pub(crate) Notify);

impl Listener for Wake {
    /// A new subscription counts as a notice: changes before it may have gone unnoticed.
    fn notice(&self, notice: Notice) {
        if notice == Notice::Interrupted {
            return;
        }
        self.0.notify_one();
    }
}
