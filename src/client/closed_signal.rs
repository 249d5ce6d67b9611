//! The signal by which a client ends its calls.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Whether a client is closed, with a signal for the calls that wait for this.
#[derive(Debug, Default)]
pub(crate) struct ClosedSignal {
    is_closed: AtomicBool,
    notify: Notify,
}

impl ClosedSignal {
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Closes the client for good.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.notify.notify_waiters();
    }

    /// Waits until the client is closed.
    pub(crate) async fn closed(&self) {
        let notified = self.notify.notified();
        let mut notified = std::pin::pin!(notified);
        // The subscription comes before the check, so that a close between check and wait is not
        // missed.
        notified.as_mut().enable();
        if !self.is_closed() {
            notified.await;
        }
    }
}
