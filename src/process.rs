//! The home process of a client, and work that must not continue in a forked copy of that process.
//!
//! A fork copies the memory of a process, but not its threads. The copy shares the connections, the timers of the
//! kernel and the readiness of sockets with the original process. A mutex that another thread had locked stays locked
//! for ever. Therefore no part of a client may be polled, sent, locked or dropped in the copy.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use futures::future::FutureExt;

/// The process in which a client was connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HomeProcess(u32);

/// The result of work in a process that is a forked copy of the home process of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forked;

impl HomeProcess {
    pub(crate) fn current() -> Self {
        Self(std::process::id())
    }

    /// Whether the present process is a forked copy of the home process.
    ///
    /// Each check reads the process id from the system, in 0.1 to 0.2 µs. A flag that `pthread_atfork` sets, or a page
    /// that `MADV_WIPEONFORK` clears, would need unsafe code. Besides, no handler of `pthread_atfork` runs after a
    /// `clone` that bypasses the C library.
    pub(crate) fn is_left(self) -> bool {
        #[cfg(test)]
        if IS_FORKED.get() {
            return true;
        }
        std::process::id() != self.0
    }
}

/// Work that belongs to one process.
///
/// In a forked copy of that process, the work is not polled, and the future is ready with [`Forked`]. There, work that
/// has begun is not dropped. The drop would send rollbacks on connections of the original process, and could wait for
/// mutexes of threads that do not exist.
#[must_use = "a future does nothing unless it is polled"]
#[derive(Debug)]
pub(crate) struct InHomeProcess<F> {
    home: HomeProcess,
    work: Option<F>,
    has_begun: bool,
}

impl<F> InHomeProcess<F> {
    pub(crate) fn new(home: HomeProcess, work: F) -> Self {
        Self { home, work: Some(work), has_begun: false }
    }

    /// Forgets work that has begun, so that the work is never dropped.
    fn forget_begun_work(&mut self) {
        if self.has_begun {
            std::mem::forget(self.work.take());
        }
    }
}

impl<F: Future + Unpin> Future for InHomeProcess<F> {
    type Output = Result<F::Output, Forked>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.home.is_left() {
            self.forget_begun_work();
            return Poll::Ready(Err(Forked));
        }
        self.has_begun = true;
        self.work.as_mut().map_or(Poll::Ready(Err(Forked)), |work| work.poll_unpin(context).map(Ok))
    }
}

impl<F> Drop for InHomeProcess<F> {
    fn drop(&mut self) {
        if self.home.is_left() {
            self.forget_begun_work();
        }
    }
}

#[cfg(test)]
thread_local! {
    /// Whether this thread is the only thread of a forked copy, for tests that lock mutexes on other threads.
    static IS_FORKED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Runs work on this thread as if every client belonged to the original process of a fork.
#[cfg(test)]
pub(crate) fn as_forked<T>(work: impl FnOnce() -> T) -> T {
    IS_FORKED.set(true);
    let done = work();
    IS_FORKED.set(false);
    done
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Weak};

    use futures::future::pending;

    use super::*;

    /// A process that is not the present process.
    fn other() -> HomeProcess {
        HomeProcess(std::process::id() + 1)
    }

    /// Returns work that never ends, and a reference that shows whether the work was dropped.
    fn endless() -> (impl Future<Output = ()> + Unpin, Weak<()>) {
        let owned = Arc::new(());
        let weak = Arc::downgrade(&owned);
        let work = async move {
            pending::<()>().await;
            drop(owned);
        };
        (Box::pin(work), weak)
    }

    #[test]
    fn work_runs_in_its_own_process() {
        let home = HomeProcess::current();
        assert!(!home.is_left() && other().is_left());
        assert_eq!(InHomeProcess::new(home, Box::pin(async { 7 })).now_or_never(), Some(Ok(7)));
        let (work, dropped) = endless();
        let mut work = InHomeProcess::new(home, work);
        assert_eq!((&mut work).now_or_never(), None);
        drop(work);
        assert_eq!(dropped.strong_count(), 0);
    }

    #[test]
    fn work_that_has_begun_is_neither_polled_nor_dropped_in_another_process() {
        let (work, dropped) = endless();
        let mut work = InHomeProcess::new(HomeProcess::current(), work);
        assert_eq!((&mut work).now_or_never(), None);
        work.home = other();
        assert_eq!((&mut work).now_or_never(), Some(Err(Forked)));
        drop(work);
        assert_eq!(dropped.strong_count(), 1);
        let (work, dropped) = endless();
        let mut work = InHomeProcess::new(HomeProcess::current(), work);
        assert_eq!((&mut work).now_or_never(), None);
        work.home = other();
        drop(work);
        assert_eq!(dropped.strong_count(), 1);
    }

    #[test]
    fn work_that_has_not_begun_is_dropped_in_another_process() {
        let (work, dropped) = endless();
        drop(InHomeProcess::new(other(), work));
        assert_eq!(dropped.strong_count(), 0);
        let (work, dropped) = endless();
        assert_eq!(InHomeProcess::new(other(), work).now_or_never(), Some(Err(Forked)));
        assert_eq!(dropped.strong_count(), 0);
    }
}
