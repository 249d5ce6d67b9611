//! The number of attempts and queue entries in flight, for which a shutdown waits.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::Notify;

/// The number of attempts and queue entries in flight. A shutdown waits until the number is zero, because rollbacks,
/// withdrawals and unlocks may still have to be sent.
///
/// An attempt first enters the counter, and then checks whether the client is closed. A shutdown first closes the
/// client, and then reads the counter. All four steps have one total order (`SeqCst`). Therefore the attempt finds the
/// client closed, or the shutdown finds the attempt in flight.
#[derive(Debug, Default)]
pub(crate) struct InFlightCounter {
    in_flight: AtomicUsize,
    idle: Notify,
}

/// One attempt or queue entry in flight, until the guard is dropped.
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

    /// Waits until nothing is in flight.
    pub(crate) async fn idle(&self) {
        loop {
            let idle = self.idle.notified();
            let mut idle = std::pin::pin!(idle);
            idle.as_mut().enable();
            if self.count() == 0 {
                return;
            }
            idle.await;
        }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        if self.counter.in_flight.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.counter.idle.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn the_counter_is_idle_when_the_last_guard_is_dropped() {
        let counter = Arc::new(InFlightCounter::default());
        let (first, second) = (counter.enter(), counter.enter());
        let mut idle = Box::pin(counter.idle());
        assert!(idle.as_mut().now_or_never().is_none());
        drop(first);
        assert!(idle.as_mut().now_or_never().is_none());
        drop(second);
        idle.await;
    }
}
