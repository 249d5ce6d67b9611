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

use super::{Blocking, Quorum};
use crate::{error::ConfigError, quorum::shutdown};

/// A runtime on a thread of its own: everything of a quorum that goes on by itself (connections,
/// watchdog, expiry, unlocks that must be delivered) goes on there, whatever the callers' threads
/// do.
///
/// It lives as long as anything has a clone of it. Then its thread, and no other, shuts the quorum
/// down, so that whatever was dropped last is still unlocked, and ends the runtime. So a clone may
/// be dropped anywhere, in async code too, where dropping a runtime panics.
///
/// The runtime of a lock across quorums keeps the threads of all of them. Futures are awaited on the first: what wakes a
/// future happens on the thread of its own quorum. A group of no locks has no thread, and is refused before anything is
/// waited for.
#[derive(Clone, Debug)]
pub(super) struct Runtime {
    threads: Vec<Arc<Thread>>,
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
            Ok(handle) => Ok(Self { threads: vec![Arc::new(Thread { handle, served, _in_use: in_use })] }),
            Err(error) => {
                let reason = format!(
                    "the thread of the blocking API could not be started ({error}): raise the limit of threads or of open \
                     files"
                );
                Err(ConfigError::NoRuntime { reason: reason.into() })
            }
        }
    }

    /// The runtime of several quorums, each thread once.
    pub(super) fn joined(runtimes: impl IntoIterator<Item = Self>) -> Self {
        let mut threads: Vec<Arc<Thread>> = Vec::new();
        for thread in runtimes.into_iter().flat_map(|runtime| runtime.threads) {
            if !threads.iter().any(|known| Arc::ptr_eq(known, &thread)) {
                threads.push(thread);
            }
        }
        Self { threads }
    }

    /// The client that this thread serves from now on, until its last clone is gone.
    pub(super) fn serve(self, quorum: crate::Quorum) -> Quorum {
        if let Some(thread) = self.threads.first() {
            thread.served.get_or_init(|| quorum.clone());
        }
        self.wrap(quorum)
    }

    pub(super) fn wrap<T>(&self, inner: T) -> Blocking<T> {
        Blocking { inner, runtime: self.clone() }
    }

    /// Waits for a future of the async API, and parks the caller's thread meanwhile.
    ///
    /// The future is polled here, while all that wakes it happens on the runtime. So it may borrow,
    /// is inside of the caller's spans, and needs nothing of the thread that it blocks: neither is
    /// it a runtime's `block_on`, which panics in async code, nor does it wait for a runtime whose
    /// thread this may be.
    pub(super) fn wait<F: Future>(&self, future: F) -> F::Output {
        let _entered = self.threads.first().map(|thread| thread.handle.enter());
        wait(future)
    }

    /// [`wait`](Self::wait), so long at most.
    pub(super) fn wait_for<F: Future>(&self, patience: Duration, future: F) -> Option<F::Output> {
        let thread = self.threads.first()?;
        let clock = &thread.served.get()?.client().context.clock;
        let _entered = thread.handle.enter();
        let patience = clock.sleep_until(clock.now() + patience);
        match wait(select(std::pin::pin!(future), patience)) {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => None,
        }
    }

    /// Runs a closure in the context of the runtime.
    pub(super) fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        let _entered = self.threads.first().map(|thread| thread.handle.enter());
        work()
    }
}

/// Waits for a future, on any thread.
fn wait<F: Future>(future: F) -> F::Output {
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
            shutdown::drained(&quorum.client().context).await;
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
        let quorum = runtime.enter(|| crate::Quorum::in_memory(3)).unwrap();
        drop(runtime.clone().serve(quorum.clone()));
        let (clone, served) = (runtime.clone(), Arc::downgrade(&runtime.threads[0].served));
        drop(runtime);
        let has_run = Arc::new(AtomicBool::new(false));
        let runs = Arc::clone(&has_run);
        let task = clone.threads[0].handle.spawn(async move { runs.store(true, Ordering::SeqCst) });
        clone.wait(task).unwrap();
        assert!(has_run.load(Ordering::SeqCst) && !quorum.client().context.is_closed());
        drop(clone);
        tokio::time::timeout(Duration::from_secs(20), ended(&served)).await.expect("the thread ends");
        assert!(quorum.client().context.is_closed(), "its quorum was shut down");
    }
}
