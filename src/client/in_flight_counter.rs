//! How many attempts and entries in wait queues are under way.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::Notify;

/// Counts attempts under way, so that a shutdown can wait for them: as long as there is one, its
/// rollback or its unlock may still have to be sent.
///
/// An attempt enters and then looks whether the client is closed; a shutdown closes it and then
/// looks for attempts. Both in one total order (`SeqCst`), so that one of them sees the other.
#[derive(Debug, Default)]
pub(crate) struct InFlightCounter {
    in_flight: AtomicUsize,
    none: Notify,
}

/// One attempt under way, until this is dropped.
#[derive(Debug)]
pub(crate) struct InFlightGuard {
    counter: Arc<InFlightCounter>,
}

impl InFlightCounter {
    pub(crate) fn enter(self: &Arc<Self>) -> InFlightGuard {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        InFlightGuard { counter: Arc::clone(self) }
    }

    pub(crate) fn count(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// Ready when nothing is under way.
    pub(crate) async fn none(&self) {
        loop {
            let none = self.none.notified();
            let mut none = std::pin::pin!(none);
            none.as_mut().enable();
            if self.count() == 0 {
                return;
            }
            none.await;
        }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        if self.counter.in_flight.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.counter.none.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn none_is_ready_when_the_last_attempt_is_over() {
        let in_flight_counter = Arc::new(InFlightCounter::default());
        let (one, other) = (in_flight_counter.enter(), in_flight_counter.enter());
        let mut none = Box::pin(in_flight_counter.none());
        assert!(none.as_mut().now_or_never().is_none());
        drop(one);
        assert!(none.as_mut().now_or_never().is_none());
        drop(other);
        none.await;
    }
}
