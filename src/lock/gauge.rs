//! How many attempts are under way.

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
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauge {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    under_way: AtomicUsize,
    none: Notify,
}

/// One attempt under way, until this is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay {
    shared: Arc<Shared>,
}

impl Gauge {
    pub(crate) fn enter(&self) -> UnderWay {
        self.shared.under_way.fetch_add(1, Ordering::SeqCst);
        UnderWay { shared: Arc::clone(&self.shared) }
    }

    pub(crate) fn count(&self) -> usize {
        self.shared.under_way.load(Ordering::SeqCst)
    }

    /// Ready when nothing is under way.
    pub(crate) async fn none(&self) {
        loop {
            let none = self.shared.none.notified();
            let mut none = std::pin::pin!(none);
            none.as_mut().enable();
            if self.count() == 0 {
                return;
            }
            none.await;
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if self.shared.under_way.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.shared.none.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn none_is_ready_when_the_last_attempt_is_over() {
        let gauge = Gauge::default();
        let (one, other) = (gauge.enter(), gauge.enter());
        let mut none = Box::pin(gauge.none());
        assert!(none.as_mut().now_or_never().is_none());
        drop(one);
        assert!(none.as_mut().now_or_never().is_none());
        drop(other);
        none.await;
    }
}
