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
use crate::{error::ConfigError, process::HomeProcess, quorum::shutdown};

/// The runtime of a quorum, on a thread of its own. The thread runs the background work of the quorum (connections,
/// watchdog, expiry, unlocks that must be delivered), independent of the threads of callers.
///
/// After the drop of the last clone, the thread shuts the quorum down, so that the guards that were dropped last are
/// still unlocked, and ends the runtime. Since only the thread drops the runtime, a clone may be dropped in async code,
/// where the drop of a runtime panics.
///
/// A lock across quorums keeps the threads of all its quorums. Its futures are polled in the context of the first
/// thread, and woken by the thread of their own quorum. A group without locks has no thread, and is refused before any
/// wait.
#[derive(Clone, Debug)]
pub(super) struct Runtime {
    threads: Vec<Arc<Thread>>,
}

#[derive(Debug)]
struct Thread {
    handle: Handle,
    /// The quorum that the thread shuts down at its end; empty until the connect.
    served: Arc<OnceLock<crate::Quorum>>,
    /// The sender that the drop of the last clone closes.
    in_use: Option<watch::Sender<()>>,
    home: HomeProcess,
}

impl Runtime {
    /// Starts the thread, and waits until its runtime exists.
    pub(super) fn start() -> Result<Self, ConfigError> {
        let (in_use, unused) = watch::channel(());
        let served = Arc::default();
        let (handle_sender, handle_receiver) = mpsc::sync_channel(1);
        let serving = {
            let served = Arc::clone(&served);
            move || serve(&handle_sender, unused, &served)
        };
        let started = thread::Builder::new().name("redquorum".to_owned()).spawn(serving);
        let handle = started
            .and_then(|_| handle_receiver.recv().unwrap_or_else(|_| Err(io::Error::other("it ended"))));
        match handle {
            Ok(handle) => {
                let (in_use, home) = (Some(in_use), HomeProcess::current());
                Ok(Self { threads: vec![Arc::new(Thread { handle, served, in_use, home })] })
            }
            Err(error) => {
                let reason = format!(
                    "the thread of the blocking API could not be started ({error}): raise the limit of threads or of open \
                     files"
                );
                Err(ConfigError::NoRuntime { reason: reason.into() })
            }
        }
    }

    /// Returns the runtime of several quorums, with each thread once.
    pub(super) fn joined(runtimes: impl IntoIterator<Item = Self>) -> Self {
        let mut threads: Vec<Arc<Thread>> = Vec::new();
        for thread in runtimes.into_iter().flat_map(|runtime| runtime.threads) {
            if !threads.iter().any(|known| Arc::ptr_eq(known, &thread)) {
                threads.push(thread);
            }
        }
        Self { threads }
    }

    /// Makes the thread serve a quorum, until the last clone of the returned client is dropped.
    pub(super) fn serve(self, quorum: crate::Quorum) -> Quorum {
        if let Some(thread) = self.threads.first() {
            thread.served.get_or_init(|| quorum.clone());
        }
        self.wrap(quorum)
    }

    pub(super) fn wrap<T>(&self, inner: T) -> Blocking<T> {
        Blocking { inner, runtime: self.clone() }
    }

    /// Waits for a future of the async API, and parks the calling thread meanwhile.
    ///
    /// The calling thread polls the future, and the runtime wakes it. Thus the future may borrow, and runs inside of
    /// the caller's spans. The call needs no runtime of the calling thread: it neither uses `block_on` of a runtime,
    /// which panics in async code, nor waits for a runtime whose thread may be the calling thread.
    pub(super) fn wait<F: Future>(&self, future: F) -> F::Output {
        let _entered = self.threads.first().map(|thread| thread.handle.enter());
        wait(future)
    }

    /// Waits for a future, for at most `patience`.
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

impl Drop for Thread {
    /// Ends the thread. A forked process has no such thread, and the wake-up would reach the thread of the original.
    fn drop(&mut self) {
        if self.home.is_left() {
            std::mem::forget(self.in_use.take());
        }
    }
}

/// Waits for a future, on any thread.
fn wait<F: Future>(future: F) -> F::Output {
    // Unconstrained, because a task of the caller may have used up its budget, and the future would wait for ever.
    pollster::block_on(tokio::task::unconstrained(future))
}

/// Runs the thread: the runtime until the last clone is dropped, then the shutdown of the quorum.
fn serve(
    handle_sender: &mpsc::SyncSender<io::Result<Handle>>,
    mut unused: watch::Receiver<()>,
    served: &OnceLock<crate::Quorum>,
) {
    // The runtime is made on this thread, because a runtime that cannot be returned must not be dropped in async code.
    let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return handle_sender.send(Err(error)).unwrap_or_default(),
    };
    if handle_sender.send(Ok(runtime.handle().clone())).is_err() {
        return;
    }
    runtime.block_on(async {
        while unused.changed().await.is_ok() {}
        if let Some(quorum) = served.get() {
            quorum.shutdown_within(Duration::ZERO).await;
            // No call waits for this thread, so the remaining messages may take until they expire.
            shutdown::drained(&quorum.client().context).await;
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::{Weak, atomic::AtomicBool, atomic::Ordering};

    use super::*;

    /// Waits until the thread has dropped the quorum, which is its last act.
    async fn ended(served: &Weak<OnceLock<crate::Quorum>>) {
        while served.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "a thread that never ends is found by real time")]
    async fn the_thread_ends_after_the_drop_of_the_last_clone() {
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
