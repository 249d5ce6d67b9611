//! Calls whose futures may be kept and not polled.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    future::poll_fn,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker, ready},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture, task::AtomicWaker};
use tokio::sync::Notify;

use crate::{
    acquire::waiters::Waiters,
    client::context::ClientContext,
    mutation::{self, Mutation},
    mutex::lock,
    node::Resources,
};

/// Takes back what calls have begun whose futures could go on and are not polled, as in a `select!`
/// in a loop.
///
/// Such a call would hold up everybody behind it: the tasks of this process that wait for their
/// turn, and other processes that need the votes it has on nodes. A call is overdue when it was
/// woken and has not been polled since for a hand-over, if other tasks of this client want the same
/// resources, and otherwise for an attempt timeout. A call that waits and is not woken costs
/// nothing.
#[derive(Default)]
pub(super) struct Overseer {
    calls: Mutex<BTreeMap<u64, Arc<dyn Overseen>>>,
    next: AtomicU64,
    /// Whether the task that looks after them will look, for a call was woken.
    is_armed: AtomicBool,
    armed: Notify,
}

/// A call, whatever comes of it.
trait Overseen: Send + Sync {
    /// How often it was seen due since it was last polled, this time included; `None` if it is not
    /// due.
    fn seen_due(&self) -> Option<u32>;

    fn resources(&self) -> &Resources;

    /// Drops what it has begun, unless it was polled since it was seen due so often.
    fn take_back(&self, seen: u32);
}

/// A call under way. It is finished by its caller or taken back, never both: its work is taken out
/// under one mutex.
struct Kept<T> {
    waiters: Arc<Waiters>,
    resources: Resources,
    /// `None` once it is done or taken back.
    work: Mutex<Option<BoxFuture<'static, T>>>,
    caller: AtomicWaker,
    /// 0 if it has been polled since it was woken; else 1, and 1 more for each look that saw it
    /// due.
    due: AtomicU32,
}

/// Does the work of a call on these resources; `None` if it was taken back because this future was
/// kept and not polled.
///
/// # Cancel safety
///
/// Dropping it drops the work.
pub(crate) async fn oversee<T: Send + 'static>(
    waiters: &Arc<Waiters>,
    resources: &Resources,
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let call = Arc::new(Kept {
        waiters: Arc::clone(waiters),
        resources: resources.clone(),
        work: Mutex::new(Some(work.boxed())),
        caller: AtomicWaker::new(),
        due: AtomicU32::new(0),
    });
    let number = waiters.overseer.next.fetch_add(1, Ordering::Relaxed);
    let call = WatchedEntry { number, call };
    lock(&waiters.overseer.calls).insert(number, Arc::clone(&call.call) as Arc<dyn Overseen>);
    poll_fn(|context| call.call.poll(context)).await
}

/// Looks after the calls of a client until it is aborted.
pub(crate) async fn run(waiters: Arc<Waiters>) {
    let Waiters { context, overseer, .. } = &*waiters;
    loop {
        overseer.armed.notified().await;
        let mut is_any_due = true;
        while is_any_due {
            context.clock.sleep_until(context.now() + pause(context)).await;
            is_any_due = overseer.look(&waiters);
        }
    }
}

/// Between two looks.
fn pause(context: &ClientContext) -> Duration {
    context.settings.parameters.hand_over / 2
}

impl Overseer {
    /// A call was woken.
    fn arm(&self) {
        if !self.is_armed.load(Ordering::SeqCst) && !self.is_armed.swap(true, Ordering::SeqCst) {
            self.armed.notify_one();
        }
    }

    /// Takes back what is overdue. Whether any call could go on.
    ///
    /// Looks are counted, not time: a process that stood still makes up for one look when it goes
    /// on, and its calls are polled before the next.
    fn look(&self, waiters: &Waiters) -> bool {
        self.is_armed.store(false, Ordering::SeqCst);
        let calls: Vec<_> = lock(&self.calls).values().cloned().collect();
        let due: Vec<_> = calls.iter().filter_map(|call| Some((call, call.seen_due()?))).collect();
        if due.is_empty() {
            return false;
        }
        // By name: readers hold up writers, and writers readers.
        let name = |call: &Arc<dyn Overseen>| call.resources().clone().exclusive();
        let mut wanted: HashMap<Resources, usize> = HashMap::new();
        for call in &calls {
            *wanted.entry(name(call)).or_default() += 1;
        }
        for (call, seen) in due {
            let settings = &waiters.context.settings;
            let is_awaited = wanted[&name(call)] > 1;
            let lasts = if is_awaited { settings.parameters.hand_over } else { settings.attempt_timeout };
            // It was due before the first of these looks, by anything between nothing and a pause.
            if is_overdue(pause(&waiters.context) * (seen - 1), lasts) {
                call.take_back(seen);
            }
        }
        self.is_armed.store(true, Ordering::SeqCst);
        true
    }
}

/// Whether a call that was not polled for so long is taken back, where polled ones last so long.
fn is_overdue(unpolled: Duration, lasts: Duration) -> bool {
    mutation::altered(Mutation::KeepWhatNobodyPolls, unpolled >= lasts, |_| false)
}

impl fmt::Debug for Overseer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overseer").field("calls", &lock(&self.calls).len()).finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Kept<T> {
    fn poll(self: &Arc<Self>, context: &Context<'_>) -> Poll<Option<T>> {
        self.caller.register(context.waker());
        let mut work = lock(&self.work);
        self.due.store(0, Ordering::SeqCst);
        let Some(future) = &mut *work else { return Poll::Ready(None) };
        let waker = Waker::from(Arc::clone(self));
        let done = ready!(future.as_mut().poll(&mut Context::from_waker(&waker)));
        let finished = work.take();
        drop(work);
        drop(finished);
        Poll::Ready(Some(done))
    }

    fn end(&self) {
        let left = lock(&self.work).take();
        // Outside of the mutex: what it has begun is taken back with it.
        drop(left);
    }
}

impl<T: Send + 'static> Wake for Kept<T> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let _was = self.due.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst);
        self.caller.wake();
        self.waiters.overseer.arm();
    }
}

impl<T: Send + 'static> Overseen for Kept<T> {
    fn seen_due(&self) -> Option<u32> {
        let more = |due| (due > 0).then(|| due + 1);
        self.due.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).ok()
    }

    fn resources(&self) -> &Resources {
        &self.resources
    }

    fn take_back(&self, seen: u32) {
        let mut work = lock(&self.work);
        if self.due.load(Ordering::SeqCst) <= seen {
            return;
        }
        let left = work.take();
        drop(work);
        let resource = self.resources.first().map(tracing::field::display);
        tracing::warn!(resource, "a call to lock was begun and is not polled: it is taken back");
        drop(left);
    }
}

/// A call that is looked after until this is dropped.
struct WatchedEntry<T: Send + 'static> {
    number: u64,
    call: Arc<Kept<T>>,
}

impl<T: Send + 'static> Drop for WatchedEntry<T> {
    fn drop(&mut self) {
        lock(&self.call.waiters.overseer.calls).remove(&self.number);
        self.call.end();
    }
}
