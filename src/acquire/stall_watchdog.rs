//! The stall watchdog, which rolls back a call if its future is not polled. Lock calls run their work by
//! [`watch_call`], and downgrades and tickets by [`watch_once`].
//!
//! ```text
//!                   wake                    check                  overdue
//!   polled, waits ───────> woken, due = 1 ────────> due = 2, 3 ... ────────> rolled back
//!         ▲                      │                       │
//!         └──────────────────────┴─── poll: due = 0 ─────┘
//! ```

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

use futures::{future::BoxFuture, task::AtomicWaker};
use tokio::sync::Notify;

use crate::{
    acquire::waiters::Waiters,
    algorithm::attempt::HEDGE_SHARE,
    client::context::ClientContext,
    mutation::{self, Mutation},
    mutex::lock,
    node::Resources,
    values::Resource,
};

/// The number of hand-overs after its wake for which a call without rivals may stay unpolled: two node timeouts. Other
/// clients may need the votes of the call. Therefore this time does not grow with the attempt timeout.
const MAX_UNPOLLED: u32 = 2 * HEDGE_SHARE;

/// The stall watchdog of a client, which rolls back stalled calls. A call is stalled if it was woken and is not polled,
/// as may happen in a `select!` in a loop.
///
/// A stalled call blocks the tasks of this process that wait for the local turn, and other clients that need the votes
/// or the leases. If the call can restart, and another call of this client wants one of the resources, the call is
/// overdue a hand-over after its wake. Otherwise, the call is overdue after [`MAX_UNPOLLED`] hand-overs, or after an
/// attempt timeout if that is shorter, because then its attempt has failed. A waiting call that was not woken causes no
/// checks.
#[derive(Default)]
pub(super) struct StallWatchdog {
    calls: Mutex<BTreeMap<u64, Arc<dyn WatchedCall>>>,
    next_number: AtomicU64,
    /// Whether the task of the watchdog will check the calls, because a call was woken.
    is_armed: AtomicBool,
    armed: Notify,
}

/// A call that is registered with the watchdog, with a result of any type.
trait WatchedCall: Send + Sync {
    /// Counts a check, if the call is due: woken, and not polled since. Returns the number of checks that found the
    /// call due since its last poll, this check included; `None` if the call is not due.
    fn count_due(&self) -> Option<u32>;

    fn resources(&self) -> &Resources;

    fn can_restart(&self) -> bool;

    /// Drops the work of the call, unless the call was polled since the check that returned `due`.
    fn roll_back(&self, due: u32);
}

/// The state of a running call. The caller takes the work out of the mutex when the work is done or the call is
/// dropped. The watchdog takes the work out to roll the work back. Therefore no work is both done and rolled back.
struct CallState<T> {
    waiters: Arc<Waiters>,
    resources: Resources,
    /// Whether the call starts its work again after a rollback.
    can_restart: bool,
    /// The work, until the call is done or rolled back.
    work: Mutex<Option<BoxFuture<'static, T>>>,
    caller: AtomicWaker,
    /// Zero if no wake has followed the last poll of the call. Otherwise one, plus one for each check that found the
    /// call due.
    due: AtomicU32,
}

/// Runs the work of a call on these resources. If the watchdog rolls the work back, because this future is not polled,
/// the next poll starts the work again.
///
/// # Cancel safety
///
/// The work is dropped with the future.
pub(crate) async fn watch_call<T: Send + 'static>(
    waiters: &Arc<Waiters>,
    resources: &Resources,
    work: impl Fn() -> BoxFuture<'static, T>,
) -> T {
    loop {
        if let Some(done) = watch(waiters, resources, true, work()).await {
            return done;
        }
    }
}

/// Runs the work of a call on these resources. Returns `None` if the watchdog rolled the work back, because this future
/// was not polled for [`MAX_UNPOLLED`] hand-overs after a wake.
///
/// # Cancel safety
///
/// The work is dropped with the future.
pub(crate) async fn watch_once<T: Send + 'static>(
    waiters: &Arc<Waiters>,
    resources: &Resources,
    work: BoxFuture<'static, T>,
) -> Option<T> {
    watch(waiters, resources, false, work).await
}

async fn watch<T: Send + 'static>(
    waiters: &Arc<Waiters>,
    resources: &Resources,
    can_restart: bool,
    work: BoxFuture<'static, T>,
) -> Option<T> {
    let call = Arc::new(CallState {
        waiters: Arc::clone(waiters),
        resources: resources.clone(),
        can_restart,
        work: Mutex::new(Some(work)),
        caller: AtomicWaker::new(),
        due: AtomicU32::new(0),
    });
    let number = waiters.watchdog.next_number.fetch_add(1, Ordering::Relaxed);
    let entry = WatchedEntry { number, call };
    lock(&waiters.watchdog.calls).insert(number, Arc::clone(&entry.call) as Arc<dyn WatchedCall>);
    poll_fn(|context| entry.call.poll(context)).await
}

/// Runs the watchdog of a client until the task is aborted.
pub(crate) async fn run(waiters: Arc<Waiters>) {
    let Waiters { context, watchdog, .. } = &*waiters;
    loop {
        watchdog.armed.notified().await;
        let mut is_any_due = true;
        while is_any_due {
            context.clock.sleep_until(context.now() + check_interval(context)).await;
            is_any_due = watchdog.check(&waiters);
        }
    }
}

/// Returns the time between two checks.
fn check_interval(context: &ClientContext) -> Duration {
    context.settings.parameters.hand_over / 2
}

impl StallWatchdog {
    /// Handles the wake of a call.
    fn arm(&self) {
        if !self.is_armed.load(Ordering::SeqCst) && !self.is_armed.swap(true, Ordering::SeqCst) {
            self.armed.notify_one();
        }
    }

    /// Rolls back overdue calls. Returns whether any call is due.
    ///
    /// The watchdog counts checks instead of time. When a suspended process resumes, only one check is late, and the
    /// calls are polled before the next check.
    fn check(&self, waiters: &Waiters) -> bool {
        self.is_armed.store(false, Ordering::SeqCst);
        let calls: Vec<_> = lock(&self.calls).values().cloned().collect();
        let due_calls: Vec<_> = calls.iter().filter_map(|call| Some((call, call.count_due()?))).collect();
        if due_calls.is_empty() {
            return false;
        }
        // The resources are counted without the mode, because readers block writers, and writers block readers.
        let mut wanted: HashMap<&Resource, usize> = HashMap::new();
        for resource in calls.iter().flat_map(|call| call.resources().iter()) {
            *wanted.entry(resource).or_default() += 1;
        }
        let is_wanted_twice = |resource| wanted.get(resource).is_some_and(|count| *count > 1);
        for (call, due) in due_calls {
            let settings = &waiters.context.settings;
            let has_rivals = call.can_restart() && call.resources().iter().any(is_wanted_twice);
            let hand_over = settings.parameters.hand_over;
            let without_rivals = (hand_over * MAX_UNPOLLED).min(settings.attempt_timeout);
            let limit = if has_rivals { hand_over } else { without_rivals };
            // The interval before the first of these checks does not count, because the call was woken at some time in
            // that interval.
            if is_overdue(check_interval(&waiters.context) * (due - 1), limit) {
                call.roll_back(due);
            }
        }
        self.is_armed.store(true, Ordering::SeqCst);
        true
    }
}

/// Whether a call that was not polled for this time is rolled back.
fn is_overdue(unpolled: Duration, limit: Duration) -> bool {
    mutation::altered(Mutation::NoStallRollback, unpolled >= limit, |_| false)
}

impl fmt::Debug for StallWatchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // In a forked process, a thread that does not exist may have left the mutex locked.
        let calls = self.calls.try_lock().ok().map(|calls| calls.len());
        f.debug_struct("StallWatchdog").field("calls", &calls).finish_non_exhaustive()
    }
}

impl<T: Send + 'static> CallState<T> {
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

    /// Drops the work of a call that was dropped before its work was done.
    fn end(&self) {
        let unfinished = lock(&self.work).take();
        // The work is dropped outside of the mutex, because the drop rolls the attempt back.
        drop(unfinished);
    }
}

impl<T: Send + 'static> Wake for CallState<T> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let _due_before = self.due.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst);
        self.caller.wake();
        self.waiters.watchdog.arm();
    }
}

impl<T: Send + 'static> WatchedCall for CallState<T> {
    fn count_due(&self) -> Option<u32> {
        let more = |due| (due > 0).then(|| due + 1);
        self.due.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).ok()
    }

    fn resources(&self) -> &Resources {
        &self.resources
    }

    fn can_restart(&self) -> bool {
        self.can_restart
    }

    fn roll_back(&self, due: u32) {
        let mut work = lock(&self.work);
        if self.due.load(Ordering::SeqCst) <= due {
            return;
        }
        let stalled = work.take();
        drop(work);
        let resource = self.resources.first().map(tracing::field::display);
        tracing::warn!(resource, "lock future not polled: attempt rolled back");
        drop(stalled);
    }
}

/// The registration of a call with the watchdog, which ends on drop.
struct WatchedEntry<T: Send + 'static> {
    number: u64,
    call: Arc<CallState<T>>,
}

impl<T: Send + 'static> Drop for WatchedEntry<T> {
    fn drop(&mut self) {
        lock(&self.call.waiters.watchdog.calls).remove(&self.number);
        self.call.end();
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use futures::FutureExt;

    use super::lock;
    use crate::{Error, MultiLock, Quorum, error::ClosedReason, process::as_forked};

    /// The deadline of calls that must not wait.
    const SOON: Duration = Duration::from_secs(10);

    /// In a forked process, the mutex of the watchdog may stay locked for ever.
    #[tokio::test]
    async fn no_call_of_a_forked_process_locks_the_mutex_of_the_watchdog() {
        const FORKED: Error = Error::Closed(ClosedReason::Forked);
        let quorum = Quorum::in_memory(3).unwrap();
        let calls = lock(&quorum.client().waiters.watchdog.calls);
        let (sender, receiver) = mpsc::channel();
        let forked = quorum.clone();
        thread::spawn(move || {
            as_forked(|| {
                let report = |name, call: Option<Option<Error>>| sender.send((name, call)).unwrap();
                let across = MultiLock::across([forked.multi_lock(["a"])]);
                report("lock", across.lock().now_or_never().map(Result::err));
                report("try_lock", across.try_lock().now_or_never().map(Result::err));
                report("try_lock_for", across.try_lock_for(SOON).now_or_never().map(Result::err));
                report("run", across.run(async |_| ()).now_or_never().map(Result::err));
                let semaphore = forked.semaphore("s", 3);
                report("acquire_many", semaphore.acquire_many(2).now_or_never().map(Result::err));
                report("try_acquire_many", semaphore.try_acquire_many(2).now_or_never().map(Result::err));
                let election = forked.election("e");
                report("campaign", election.campaign("v").now_or_never().map(Result::err));
                report("red_lock", forked.red_lock("r").lock().now_or_never().map(Result::err));
                report("any_of", forked.any_of(["x", "y"]).lock().now_or_never().map(Result::err));
                assert!(format!("{:?}", forked.client()).contains("StallWatchdog"));
                report("debug", Some(Some(FORKED)));
            });
        });
        loop {
            let (name, call) = receiver.recv_timeout(SOON).expect("a call waits for the mutex");
            assert_eq!(call, Some(Some(FORKED)), "{name}");
            if name == "debug" {
                break;
            }
        }
        drop(calls);
    }
}
