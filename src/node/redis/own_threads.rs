//! Blocking work of dials: name lookups, and reads of certificates and settings. Each run of the work has a thread of
//! its own.

use std::{
    collections::BTreeMap,
    fmt, io,
    sync::{Arc, Mutex},
    thread,
};

use futures::{
    channel::oneshot,
    future::{FutureExt, Shared},
};

use crate::mutex::lock;

/// Runs blocking work, each run on a new thread. There is at most one run for each key at a time, and concurrent
/// callers with the same key share that run.
///
/// The blocking pool of the runtime is not used, for two reasons:
///
/// * The end of a runtime waits for the pool, and a name lookup may take tens of seconds. No code waits for these
///   threads, which end with the process at the latest.
/// * The pool panics if no thread can be started. Here, the failure is an error.
pub(super) struct OwnThreads<K, T>(Arc<Mutex<BTreeMap<K, Run<T>>>>);

/// A run in progress. The output is an error if the work panicked.
type Run<T> = Shared<oneshot::Receiver<T>>;

/// A guard that removes a run when its work returns or panics.
struct RunGuard<K: Ord, T> {
    threads: OwnThreads<K, T>,
    key: K,
}

impl<K, T> OwnThreads<K, T>
where
    K: Ord + Clone + Send + 'static,
    T: Clone + Send + Sync + 'static,
{
    /// Returns the result of the run in progress for this key. If there is no such run, starts one with `work`.
    ///
    /// # Errors
    ///
    /// If no thread can be started, or the work panics.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the run continues, and the next caller with this key shares its result.
    pub(super) async fn run(&self, key: K, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        let run = self.begin(key, work)?;
        run.await.map_err(|oneshot::Canceled| io::Error::other("the thread panicked"))
    }

    fn begin(&self, key: K, work: impl FnOnce() -> T + Send + 'static) -> io::Result<Run<T>> {
        // The mutex is held until the run is inserted, so the thread cannot remove the run before that.
        let mut runs = lock(&self.0);
        if let Some(run) = runs.get(&key) {
            return Ok(run.clone());
        }
        let (sender, receiver) = oneshot::channel();
        let (threads, key_of_run) = (self.clone(), key.clone());
        let thread = thread::Builder::new().name("redquorum-dial".to_owned());
        thread.spawn(move || {
            let guard = RunGuard { threads, key: key_of_run };
            let result = work();
            // The run is removed before its result is sent, so that a caller that has the result can begin a new run.
            drop(guard);
            sender.send(result).ok();
        })?;
        let run = receiver.shared();
        runs.insert(key, run.clone());
        Ok(run)
    }
}

impl<K: Ord, T> Drop for RunGuard<K, T> {
    fn drop(&mut self) {
        let removed = lock(&self.threads.0).remove(&self.key);
        drop(removed);
    }
}

impl<K, T> Clone for OwnThreads<K, T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K, T> Default for OwnThreads<K, T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K, T> fmt::Debug for OwnThreads<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnThreads").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    };

    use futures::{executor::block_on, future::join};

    use super::*;

    #[test]
    fn concurrent_callers_with_the_same_key_share_a_run() {
        let threads = OwnThreads::default();
        let runs = Arc::new(AtomicUsize::new(0));
        let (release, blocked) = mpsc::channel::<()>();
        let first = threads.run("a", {
            let runs = Arc::clone(&runs);
            move || {
                blocked.recv().unwrap();
                runs.fetch_add(1, Ordering::SeqCst)
            }
        });
        let mut first = Box::pin(first);
        assert!((&mut first).now_or_never().is_none());
        let mut second = Box::pin(threads.run("a", || panic!("a second run")));
        assert!((&mut second).now_or_never().is_none());
        assert_eq!(block_on(threads.run("b", || 7)).unwrap(), 7, "a run with another key waits");
        release.send(()).unwrap();
        let (first, second) = block_on(join(first, second));
        assert_eq!((first.unwrap(), second.unwrap()), (0, 0));
        assert_eq!(block_on(threads.run("a", || 1)).unwrap(), 1);
    }

    #[test]
    fn a_run_outlives_its_caller_and_serves_the_next_caller() {
        let threads = OwnThreads::default();
        let (release, blocked) = mpsc::channel::<()>();
        let mut dropped = Box::pin(threads.run("a", move || blocked.recv().map(|()| 7).unwrap()));
        assert!((&mut dropped).now_or_never().is_none());
        drop(dropped);
        let mut next = Box::pin(threads.run("a", || 8));
        assert!((&mut next).now_or_never().is_none());
        release.send(()).unwrap();
        assert_eq!(block_on(next).unwrap(), 7);
    }

    #[test]
    fn a_panic_of_the_work_is_an_error_and_does_not_block_the_key() {
        let threads = OwnThreads::default();
        let error = block_on(threads.run("a", || -> u32 { panic!("of the work") })).unwrap_err();
        assert_eq!(error.to_string(), "the thread panicked");
        assert_eq!(block_on(threads.run("a", || 7)).unwrap(), 7);
    }
}
