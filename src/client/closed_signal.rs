//! The signal that a client is closed. The waiting calls of the client end by this signal.

use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;

use crate::error::ClosedReason;

/// The state of an open client. Each of the other states is a reason for which the client is closed.
const OPEN: u8 = 0;
const SHUT_DOWN: u8 = 1;
const RUNTIME_ENDED: u8 = 2;
const FORKED: u8 = 3;

/// The state of a client, open or closed for a reason, with the signal to the waiting calls.
#[derive(Debug, Default)]
pub(crate) struct ClosedSignal {
    state: AtomicU8,
    notify: Notify,
}

impl ClosedSignal {
    /// Returns the reason for which the client is closed; `None` while the client is open.
    pub(crate) fn reason(&self) -> Option<ClosedReason> {
        match self.state.load(Ordering::SeqCst) {
            OPEN => None,
            RUNTIME_ENDED => Some(ClosedReason::RuntimeEnded),
            FORKED => Some(ClosedReason::Forked),
            _ => Some(ClosedReason::ShutDown),
        }
    }

    /// Closes the client for good. If the client is closed already, the first reason stays.
    pub(crate) fn close(&self, reason: ClosedReason) {
        let state = match reason {
            ClosedReason::ShutDown => SHUT_DOWN,
            ClosedReason::RuntimeEnded => RUNTIME_ENDED,
            ClosedReason::Forked => FORKED,
        };
        let _closed_before = self.state.compare_exchange(OPEN, state, Ordering::SeqCst, Ordering::SeqCst);
        self.notify.notify_waiters();
    }

    /// Waits until the client is closed.
    pub(crate) async fn closed(&self) {
        let notified = self.notify.notified();
        let mut notified = std::pin::pin!(notified);
        // `enable` precedes the check, so that a close between check and wait is not missed.
        notified.as_mut().enable();
        if self.reason().is_none() {
            notified.await;
        }
    }
}
