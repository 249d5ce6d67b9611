//! Work for a user's future that goes on whether or not that future is polled.

use std::{
    convert::Infallible,
    future::poll_fn,
    panic::{AssertUnwindSafe, resume_unwind},
    sync::{Arc, Mutex},
    task::{Poll, ready},
};

use futures::{FutureExt, future::BoxFuture, poll};
use tokio::sync::oneshot;

use crate::{mutex::lock, spawner::Spawner};

/// What came of the work.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome<T> {
    Done(T),
    /// The result was there, and nobody came for it in time.
    TakenBack,
    /// The runtime on which the client's tasks run has ended.
    Ended,
}

/// The result, or the panic.
type Done<T> = std::thread::Result<T>;

/// The work, which its caller and the task of the client share.
enum Work<T> {
    UnderWay(BoxFuture<'static, Done<T>>),
    Done(Done<T>),
    /// The caller has its result or is gone, or it was taken back.
    Over,
}

/// Does the work in a task of the client, and hands its result to whoever polls this future.
///
/// A future may be kept and not be polled, as in a `select!` in a loop. If that one did the work, everybody would stand still
/// who waits behind it: the tasks of this process for their turn, and others for what it has taken on nodes.
///
/// A result for which nobody has come when `overdue` is ready is taken back, which is to drop it; one for which there is no
/// `overdue` is kept. It is moved out of one place, so it is either the caller's or taken back.
///
/// # Cancel safety
///
/// Dropping it drops the work, or its result.
///
/// # Panics
///
/// If the work does.
pub(crate) async fn detached<T: Send + 'static>(
    spawner: &dyn Spawner,
    work: impl Future<Output = T> + Send + 'static,
    overdue: impl FnOnce(&T) -> Option<BoxFuture<'static, ()>> + Send + 'static,
) -> Outcome<T> {
    let mut work = AssertUnwindSafe(work).catch_unwind().boxed();
    // Tasks run in any order; to begin here keeps that of the callers.
    if let Poll::Ready(done) = poll!(&mut work) {
        return Outcome::Done(unwrap(done));
    }
    let work = Arc::new(Mutex::new(Work::UnderWay(work)));
    let (ready, is_ready) = oneshot::channel();
    let (here, caller_gone) = oneshot::channel();
    let caller = Caller { work: Arc::clone(&work), _here: here };
    drop(spawner.spawn(see_to(work, ready, caller_gone, overdue).boxed()));
    if is_ready.await.is_err() {
        return Outcome::Ended;
    }
    match end(&caller.work) {
        Work::Done(done) => Outcome::Done(unwrap(done)),
        Work::UnderWay(_) | Work::Over => Outcome::TakenBack,
    }
}

/// Whoever polls the future, or keeps it.
struct Caller<T> {
    work: Arc<Mutex<Work<T>>>,
    /// Tells the task when this is dropped.
    _here: oneshot::Sender<Infallible>,
}

impl<T> Drop for Caller<T> {
    fn drop(&mut self) {
        drop(end(&self.work));
    }
}

async fn see_to<T>(
    work: Arc<Mutex<Work<T>>>,
    ready: oneshot::Sender<()>,
    mut caller_gone: oneshot::Receiver<Infallible>,
    overdue: impl FnOnce(&T) -> Option<BoxFuture<'static, ()>>,
) {
    let mut overdue = Some(overdue);
    let done = poll_fn(|context| {
        let mut work = lock(&work);
        let Work::UnderWay(future) = &mut *work else { return Poll::Pending };
        let done = ready!(future.as_mut().poll(context));
        let overdue = done.as_ref().ok().and_then(|done| overdue.take()?(done));
        *work = Work::Done(done);
        Poll::Ready(overdue)
    });
    let overdue = tokio::select! {
        biased;
        _ = &mut caller_gone => return,
        overdue = done => overdue,
    };
    ready.send(()).ok();
    // Mostly the caller comes at once.
    tokio::task::yield_now().await;
    let Some(overdue) = overdue else { return };
    tokio::select! {
        biased;
        _ = caller_gone => {}
        () = overdue => drop(end(&work)),
    }
}

/// Takes out what is left of the work.
fn end<T>(work: &Mutex<Work<T>>) -> Work<T> {
    std::mem::replace(&mut *lock(work), Work::Over)
}

fn unwrap<T>(done: Done<T>) -> T {
    done.unwrap_or_else(|panic| resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use std::{future::pending, pin::pin};

    use tokio::{runtime::Handle, sync::Notify, task::yield_now};

    use super::*;

    /// Tells when it is dropped.
    #[derive(Debug)]
    struct Guard(Option<oneshot::Sender<()>>);

    impl Drop for Guard {
        fn drop(&mut self) {
            if let Some(dropped) = self.0.take() {
                dropped.send(()).ok();
            }
        }
    }

    fn guard() -> (Guard, oneshot::Receiver<()>) {
        let (dropped, is_dropped) = oneshot::channel();
        (Guard(Some(dropped)), is_dropped)
    }

    fn never<T>(_: &T) -> Option<BoxFuture<'static, ()>> {
        None
    }

    async fn later<T>(value: T) -> T {
        yield_now().await;
        value
    }

    #[tokio::test]
    async fn the_result_is_the_callers_whenever_the_work_is_done() {
        let spawner = Handle::current();
        assert_eq!(detached(&spawner, async { 1 }, never).await, Outcome::Done(1));
        assert_eq!(detached(&spawner, later(2), never).await, Outcome::Done(2));
    }

    #[tokio::test]
    async fn the_work_goes_on_while_nobody_polls_its_future() {
        let (done, is_done) = oneshot::channel();
        let work = async move {
            yield_now().await;
            done.send(()).unwrap();
        };
        let spawner = Handle::current();
        let mut kept = pin!(detached(&spawner, work, never));
        assert!(poll!(&mut kept).is_pending());
        is_done.await.unwrap();
        assert_eq!(kept.await, Outcome::Done(()));
    }

    #[tokio::test]
    async fn what_nobody_comes_for_is_taken_back_and_then_the_caller_has_nothing() {
        let (guard, is_dropped) = guard();
        let spawner = Handle::current();
        let mut kept = pin!(detached(&spawner, later(guard), |_| Some(async {}.boxed())));
        assert!(poll!(&mut kept).is_pending());
        is_dropped.await.unwrap();
        assert!(matches!(kept.await, Outcome::TakenBack));
    }

    #[tokio::test]
    async fn dropping_the_future_drops_the_work_and_its_result() {
        let spawner = Handle::current();
        for is_done in [false, true] {
            let (guard, is_dropped) = guard();
            let done = Arc::new(Notify::new());
            let reached = Arc::clone(&done);
            let work = async move {
                later(()).await;
                reached.notify_one();
                if !is_done {
                    pending::<()>().await;
                }
                guard
            };
            let mut kept = Box::pin(detached(&spawner, work, never));
            assert!(poll!(&mut kept).is_pending());
            done.notified().await;
            drop(kept);
            is_dropped.await.unwrap();
        }
    }

    #[tokio::test]
    #[should_panic(expected = "in the work")]
    async fn a_panic_of_the_work_is_the_callers() {
        let spawner = Handle::current();
        detached(&spawner, async { panic!("{}", later("in the work").await) }, never).await;
    }

    #[test]
    fn a_runtime_that_has_ended_is_told() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let spawner = runtime.handle().clone();
        drop(runtime);
        let outcome = futures::executor::block_on(detached(&spawner, later(()), never));
        assert_eq!(outcome, Outcome::Ended);
    }
}
