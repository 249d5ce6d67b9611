//! The runtime of the blocking API: the thread of each client, and the wait of a calling thread for a future.

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

/// The handle of the threads that serve a value of the blocking API. There is one thread for each client. The thread
/// has a tokio runtime, and runs the background work of the client independently of the calling threads: connections,
/// watchdog, expiry, and unlocks that must be delivered.
///
/// After the drop of the last clone of this handle, the thread shuts the client down, so that the unlocks of guards
/// that were dropped last are still sent. Then the thread drops the tokio runtime. The drop of a tokio runtime panics
/// in async code. Async code may drop a clone of this handle, because only the thread drops the tokio runtime.
///
/// A value of one client has one thread. A lock across quorums has the threads of all clients that take part. The
/// futures of the lock are polled in the context of the first thread, and the thread of each client wakes the futures
/// of the client. A lock across no quorums has no thread, and is refused before any wait.
#[derive(Clone, Debug)]
pub(super) struct Runtime {
    threads: Vec<Arc<Thread>>,
}

/// The handle of the thread of one client.
#[derive(Debug)]
struct Thread {
    /// The handle of the tokio runtime of the thread.
    handle: Handle,
    /// The client that the thread shuts down at its end; empty until the client is connected.
    served: Arc<OnceLock<crate::Quorum>>,
    /// The sender of a channel that carries no messages. The drop of the sender closes the channel, and the thread ends
    /// when the channel is closed.
    in_use: Option<watch::Sender<()>>,
    home: HomeProcess,
}

impl Runtime {
    /// Starts a thread, and waits until the tokio runtime of the thread exists.
    pub(super) fn start() -> Result<Self, ConfigError> {
        let (in_use, unused) = watch::channel(());
        let served = Arc::default();
        let (handle_sender, handle_receiver) = mpsc::sync_channel(1);
        let serving = {
            let served = Arc::clone(&served);
            move || serve(&handle_sender, unused, &served)
        };
        let started = thread::Builder::new().name("redquorum".to_owned()).spawn(serving);
        let handle = started.and_then(|_| {
            handle_receiver.recv().unwrap_or_else(|_| Err(io::Error::other("the thread ended")))
        });
        match handle {
            Ok(handle) => {
                let (in_use, home) = (Some(in_use), HomeProcess::current());
                Ok(Self { threads: vec![Arc::new(Thread { handle, served, in_use, home })] })
            }
            Err(error) => {
                let reason = format!(
                    "the thread of the blocking API could not be started ({error}): raise the limit of threads or \
                     of open files"
                );
                Err(ConfigError::NoRuntime { reason: reason.into() })
            }
        }
    }

    /// Returns the handle of the threads of all these handles, with each thread once.
    pub(super) fn joined(runtimes: impl IntoIterator<Item = Self>) -> Self {
        let mut threads: Vec<Arc<Thread>> = Vec::new();
        for thread in runtimes.into_iter().flat_map(|runtime| runtime.threads) {
            if !threads.iter().any(|known| Arc::ptr_eq(known, &thread)) {
                threads.push(thread);
            }
        }
        Self { threads }
    }

    /// Returns the blocking client of `quorum`. After the drop of the last clone of this handle, the thread shuts the
    /// client down.
    pub(super) fn serve(self, quorum: crate::Quorum) -> Quorum {
        if let Some(thread) = self.threads.first() {
            thread.served.get_or_init(|| quorum.clone());
        }
        self.wrap(quorum)
    }

    /// Returns the blocking value of a value of the async API, served by the same threads.
    pub(super) fn wrap<T>(&self, inner: T) -> Blocking<T> {
        Blocking { inner, runtime: self.clone() }
    }

    /// Waits for a future of the async API, and parks the calling thread during the wait.
    ///
    /// The calling thread polls the future, and the thread of the client wakes the calling thread. Therefore the future
    /// may borrow, and runs inside of the spans of the caller. The calling thread needs no tokio runtime, and may be a
    /// thread of any tokio runtime. The `block_on` of a tokio runtime is not used, because `block_on` panics in async
    /// code.
    pub(super) fn wait<F: Future>(&self, future: F) -> F::Output {
        let _entered = self.threads.first().map(|thread| thread.handle.enter());
        wait(future)
    }

    /// Waits for a future, for at most `limit`. Returns `None` if the future is not ready by then, or if there is no
    /// thread.
    pub(super) fn wait_for<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        let thread = self.threads.first()?;
        let clock = &thread.served.get()?.client().context.clock;
        let _entered = thread.handle.enter();
        let deadline = clock.sleep_until(clock.now() + limit);
        match wait(select(std::pin::pin!(future), deadline)) {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => None,
        }
    }

    /// Runs a closure in the context of the tokio runtime of the first thread, for calls that start tasks but do not
    /// wait.
    pub(super) fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        let _entered = self.threads.first().map(|thread| thread.handle.enter());
        work()
    }
}

impl Drop for Thread {
    /// Ends the thread. In a forked process, the drop does nothing: the thread does not exist there, and a wake would
    /// reach the thread of the original process.
    fn drop(&mut self) {
        if self.home.is_left() {
            std::mem::forget(self.in_use.take());
        }
    }
}

/// Polls a future in the calling thread until the future is ready.
fn wait<F: Future>(future: F) -> F::Output {
    // The future ignores the budget by which tokio makes tasks yield. Otherwise the call would wait for ever in a task
    // that has used up its budget.
    pollster::block_on(tokio::task::unconstrained(future))
}

/// Runs the thread of a client: the tokio runtime until the drop of the last clone of the handle, and then the shutdown
/// of the client.
fn serve(
    handle_sender: &mpsc::SyncSender<io::Result<Handle>>,
    mut unused: watch::Receiver<()>,
    served: &OnceLock<crate::Quorum>,
) {
    // This thread makes the tokio runtime, and not the thread that starts this thread. That thread may run async code,
    // and async code must not drop a tokio runtime.
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
            // No call waits for the end of this thread, so the thread waits until the remaining messages are confirmed
            // or have expired.
            shutdown::drained(&quorum.client().context).await;
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::{Weak, atomic::AtomicBool, atomic::Ordering};

    use super::*;

    /// Waits until the thread has dropped `served`. This drop is the last action of the thread.
    async fn wait_for_end(served: &Weak<OnceLock<crate::Quorum>>) {
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
        // The thread still runs tasks, because the clone exists.
        let has_run = Arc::new(AtomicBool::new(false));
        let set_has_run = Arc::clone(&has_run);
        let task = clone.threads[0].handle.spawn(async move { set_has_run.store(true, Ordering::SeqCst) });
        clone.wait(task).unwrap();
        assert!(has_run.load(Ordering::SeqCst) && !quorum.client().context.is_closed());
        drop(clone);
        tokio::time::timeout(Duration::from_secs(20), wait_for_end(&served))
            .await
            .expect("the thread ends within 20 s");
        assert!(quorum.client().context.is_closed(), "the quorum was not shut down");
    }
}
