//! A filter of wakes: a task is not woken by its own commands.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering, fence},
    },
    task::{Context, Wake, Waker},
};

use futures::task::AtomicWaker;

/// A filter between a connection and the task that polls it.
///
/// A command that is put into the queue of the redis crate wakes the task that drives the connection. In this crate,
/// the same task queues the command and polls the connection afterwards. Without the filter, every call would cost
/// one needless poll.
pub(super) struct WakerFilter {
    state: Arc<FilterState>,
    waker: Waker,
}

#[derive(Default)]
struct FilterState {
    task: AtomicWaker,
    ignores_wakes: AtomicBool,
}

impl WakerFilter {
    pub(super) fn new() -> Self {
        let state = Arc::new(FilterState::default());
        let waker = Waker::from(Arc::clone(&state));
        Self { state, waker }
    }

    /// Returns the context in which the connection must be polled. This context wakes the task of `context`, unless
    /// wakes are ignored.
    pub(super) fn context(&self, context: &Context<'_>) -> Context<'_> {
        self.state.task.register(context.waker());
        Context::from_waker(&self.waker)
    }

    /// Runs `act` while wakes are ignored. The caller must poll the connection afterwards, because events of
    /// other threads are ignored meanwhile, too.
    pub(super) fn ignore_wakes<T>(&self, act: impl FnOnce() -> T) -> T {
        self.state.ignores_wakes.store(true, Ordering::Relaxed);
        let done = act();
        self.state.ignores_wakes.store(false, Ordering::Relaxed);
        // Pairs with the fence in `wake_by_ref`: an ignored event is seen by the poll that follows, or its
        // wake is not ignored.
        fence(Ordering::SeqCst);
        done
    }
}

impl Wake for FilterState {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        fence(Ordering::SeqCst);
        if !self.ignores_wakes.load(Ordering::Relaxed) {
            self.task.wake();
        }
    }
}

impl fmt::Debug for WakerFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WakerFilter")
            .field("ignores_wakes", &self.state.ignores_wakes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[derive(Default)]
    struct WakeCounter(AtomicU32);

    impl Wake for WakeCounter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn ignored_wakes_do_not_wake_the_task() {
        let (waker_filter, wake_count) = (WakerFilter::new(), Arc::new(WakeCounter::default()));
        let task = Waker::from(Arc::clone(&wake_count));
        let inner = waker_filter.context(&Context::from_waker(&task)).waker().clone();
        waker_filter.ignore_wakes(|| inner.wake_by_ref());
        assert_eq!(wake_count.0.load(Ordering::Relaxed), 0);
        inner.wake_by_ref();
        assert_eq!(wake_count.0.load(Ordering::Relaxed), 1);
    }
}
