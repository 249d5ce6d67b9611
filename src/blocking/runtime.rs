//! The runtime behind the blocking API.

use std::{
    io,
    sync::{Arc, OnceLock, mpsc},
    thread,
    time::Duration,
};

use futures::future::{Either, select};
use tokio::{
    runtime::{self, Handle},
    sync::watch,
};

use crate::{error::ConfigError, quorum::shutdown};

/// A runtime on a thread of its own: everything of a quorum that goes on by itself (connections,
/// watchdog, expiry, unlocks that must be delivered) goes on there, whatever the callers' threads
/// do.
///
/// It lives as long as anything has a clone of it. Then its thread, and no other, shuts the quorum
/// down, so that whatever was dropped last is still unlocked, and ends the runtime. So a clone may
/// be dropped anywhere, in async code too, where dropping a runtime panics.
#[derive(Clone, Debug)]
pub(super) struct Runtime {
    thread: Arc<Thread>,
}

#[derive(Debug)]
struct Thread {
    handle: Handle,
    /// What the thread shuts down in the end; nothing until a quorum is connected.
    served: Arc<OnceLock<crate::Quorum>>,
    /// Closed with the last clone.
    _in_use: watch::Sender<()>,
}

impl Runtime {
    /// Starts the thread.
    pub(super) fn start() -> Result<Self, ConfigError> {
        let (in_use, unused) = watch::channel(());
        let served = Arc::default();
        let (tell, told) = mpsc::sync_channel(1);
        let serving = {
            let served = Arc::clone(&served);
            move || serve(&tell, unused, &served)
        };
        let started = thread::Builder::new().name("redquorum".to_owned()).spawn(serving);
        let handle = started.and_then(|_| told.recv().unwrap_or_else(|_| Err(io::Error::other("it ended"))));
        match handle {
            Ok(handle) => Ok(Self { thread: Arc::new(Thread { handle, served, _in_use: in_use }) }),
            Err(error) => Err(ConfigError::NoThread { error: error.to_string().into() }),
        }
    }

    /// Names the quorum that is served from now on: once.
    pub(super) fn serve(&self, quorum: crate::Quorum) {
        self.thread.served.get_or_init(|| quorum);
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.thread, &other.thread)
    }

    /// Waits for a future of the async API, and parks the caller's thread meanwhile.
    ///
    /// The future is polled here, while all that wakes it happens on the runtime. So it may borrow,
    /// is inside of the caller's spans, and needs nothing of the thread that it blocks: neither is
    /// it a runtime's `block_on`, which panics in async code, nor does it wait for a runtime whose
    /// thread this may be.
    pub(super) fn wait<F: Future>(&self, future: F) -> F::Output {
        let _entered = self.thread.handle.enter();
        wait(future)
    }

    /// [`wait`](Self::wait), so long at most.
    pub(super) fn wait_for<F: Future>(&self, patience: Duration, future: F) -> Option<F::Output> {
        let clock = &self.thread.served.get()?.client().environment.clock;
        let _entered = self.thread.handle.enter();
        let patience = clock.sleep_until(clock.now() + patience);
        match wait(select(std::pin::pin!(future), patience)) {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => None,
        }
    }

    /// Looks at something that reads the clock, which is the runtime's where nodes are in memory.
    pub(super) fn look<T>(&self, look: impl FnOnce() -> T) -> T {
        let _entered = self.thread.handle.enter();
        look()
    }
}

/// Waits for a future, on any thread.
pub(super) fn wait<F: Future>(future: F) -> F::Output {
    // The budget that a task of the caller may have used up would leave it waiting for ever.
    pollster::block_on(tokio::task::unconstrained(future))
}

/// What the thread does.
fn serve(
    tell: &mpsc::SyncSender<io::Result<Handle>>,
    mut unused: watch::Receiver<()>,
    served: &OnceLock<crate::Quorum>,
) {
    // Made here, because where it cannot be told about it is dropped, which must not happen in
    // async code.
    let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return tell.send(Err(error)).unwrap_or_default(),
    };
    if tell.send(Ok(runtime.handle().clone())).is_err() {
        return;
    }
    runtime.block_on(async {
        while unused.changed().await.is_ok() {}
        if let Some(quorum) = served.get() {
            quorum.shutdown_within(Duration::ZERO).await;
            // Nobody waits for this thread, so what must be delivered has all its time.
            shutdown::drained(&quorum.client().environment).await;
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::{Weak, atomic::AtomicBool, atomic::Ordering};

    use super::*;

    /// Ready when the thread has let go of what it served, which is the last that it does.
    async fn ended(served: &Weak<OnceLock<crate::Quorum>>) {
        while served.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "a thread that never ends is found by real time")]
    async fn the_thread_ends_after_the_last_clone_and_not_before() {
        let runtime = Runtime::start().unwrap();
        let quorum = runtime.look(|| crate::Quorum::in_memory(3)).unwrap();
        runtime.serve(quorum.clone());
        let (clone, served) = (runtime.clone(), Arc::downgrade(&runtime.thread.served));
        drop(runtime);
        let has_run = Arc::new(AtomicBool::new(false));
        let runs = Arc::clone(&has_run);
        let task = clone.thread.handle.spawn(async move { runs.store(true, Ordering::SeqCst) });
        clone.wait(task).unwrap();
        assert!(has_run.load(Ordering::SeqCst) && !quorum.client().environment.is_closed());
        drop(clone);
        tokio::time::timeout(Duration::from_secs(20), ended(&served)).await.expect("the thread ends");
        assert!(quorum.client().environment.is_closed(), "its quorum was shut down");
    }
}
