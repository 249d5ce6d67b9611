//! A waker that does not tell a task of what the task does itself.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering, fence},
    },
    task::{Context, Wake, Waker},
};

use futures::task::AtomicWaker;

/// Stands between a connection and the task that polls it.
///
/// To put a command into the queue of the redis crate wakes the task that drives the connection.
/// Here that is the one who puts it there, and who polls the connection right afterwards: without
/// this, it would be polled once more for each call, for nothing.
pub(super) struct Gate {
    door: Arc<Door>,
    waker: Waker,
}

#[derive(Default)]
struct Door {
    behind: AtomicWaker,
    is_shut: AtomicBool,
}

impl Gate {
    pub(super) fn new() -> Self {
        let door = Arc::new(Door::default());
        let waker = Waker::from(Arc::clone(&door));
        Self { door, waker }
    }

    /// The context in which to poll the connection: it wakes the task of this one, unless the gate
    /// is shut.
    pub(super) fn before(&self, context: &Context<'_>) -> Context<'_> {
        self.door.behind.register(context.waker());
        Context::from_waker(&self.waker)
    }

    /// Does something of which the task is not told. The caller polls the connection afterwards,
    /// since whatever else happens meanwhile, on other threads, is not told either.
    pub(super) fn shut<T>(&self, act: impl FnOnce() -> T) -> T {
        self.door.is_shut.store(true, Ordering::Relaxed);
        let done = act();
        self.door.is_shut.store(false, Ordering::Relaxed);
        // With the other fence: either what was not told of is seen by the poll that follows, or it
        // is told.
        fence(Ordering::SeqCst);
        done
    }
}

impl Wake for Door {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        fence(Ordering::SeqCst);
        if !self.is_shut.load(Ordering::Relaxed) {
            self.behind.wake();
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("is_shut", &self.door.is_shut).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_task_is_woken_by_others_and_not_by_itself() {
        let (gate, woken) = (Gate::new(), Arc::new(Woken::default()));
        let task = Waker::from(Arc::clone(&woken));
        let inner = gate.before(&Context::from_waker(&task)).waker().clone();
        gate.shut(|| inner.wake_by_ref());
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
        inner.wake_by_ref();
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    }
}
