//! The clock for real use.

use std::{sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt};
use tokio::runtime::Handle;

use crate::clock::{Clock, Instant, alarm::Alarm, boot_time::boot_time, sleepers::Sleepers};

/// The time since the machine was started, suspended time included where the system can tell.
///
/// On Linux, sleeps are served by one `timerfd` on `CLOCK_BOOTTIME`, which a task on the clock's
/// runtime watches: after a suspend, a sleep whose deadline has passed meanwhile ends at once. They
/// can be awaited on any executor, as long as that runtime is driven (a current-thread runtime only
/// runs inside of its `block_on`).
///
/// A thread serves them instead, started when somebody first sleeps, where there is no `timerfd`:
/// on other systems, if the limit of open files is reached, or when the runtime has been shut down.
/// After a suspend it may be late by up to a second. If even a thread is refused, a sleeper is
/// polled over and over until it is due. So sleeps may become dearer, but they end, and
/// [`now`](Clock::now) depends on none of this.
///
/// Task and thread end when the clock, its clones and the sleeps begun by it are dropped.
#[derive(Clone, Debug)]
pub(crate) struct BootClock {
    sleepers: Arc<Sleepers>,
}

impl BootClock {
    /// A clock whose sleeps are served by a task on `runtime`, which must have its IO enabled, as
    /// for any socket: its task would panic otherwise, and the thread take over.
    #[cfg(all(target_os = "linux", not(redquorum_portable)))]
    pub(crate) fn start(runtime: &Handle) -> Self {
        use crate::clock::timerfd::{Driver, Timerfd};

        match Timerfd::create() {
            Ok(timer) => {
                let sleepers = Arc::new(Sleepers::new(Alarm::Timerfd(timer.clone())));
                drop(runtime.spawn(Driver::new(Arc::downgrade(&sleepers)).run(timer)));
                Self { sleepers }
            }
            Err(error) => {
                tracing::warn!(%error, "no timerfd: a thread will ring for sleepers");
                Self::with_thread()
            }
        }
    }

    /// A clock whose sleeps are served by a thread; the runtime is not needed on this system.
    #[cfg(any(not(target_os = "linux"), redquorum_portable))]
    pub(crate) fn start(_runtime: &Handle) -> Self {
        Self::with_thread()
    }

    fn with_thread() -> Self {
        Self { sleepers: Arc::new(Sleepers::new(Alarm::None)) }
    }
}

impl Clock for BootClock {
    fn now(&self) -> Instant {
        boot_time()
    }

    #[expect(clippy::disallowed_methods, reason = "this is where the time of day comes from")]
    fn time_of_day(&self) -> Duration {
        // A clock that shows a time before 1970 shows nothing.
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
    }

    fn granularity(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn sleep_until(&self, deadline: Instant) -> BoxFuture<'static, ()> {
        self.sleepers.sleep_until(deadline).boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Mutex,
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        task::{Context, Poll, Wake, Waker},
        thread,
    };

    use futures::executor::block_on;

    use super::*;
    use crate::mutex::lock;

    const HOUR: Duration = Duration::from_secs(3600);
    const SHORT: Duration = Duration::from_millis(20);

    fn poll(sleep: &mut BoxFuture<'static, ()>, waker: &Waker) -> Poll<()> {
        sleep.as_mut().poll(&mut Context::from_waker(waker))
    }

    /// A runtime that another thread drives.
    fn elsewhere() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_io().build().unwrap()
    }

    #[test]
    fn a_sleep_ends_after_its_deadline_on_a_thread_without_a_runtime() {
        let runtime = elsewhere();
        let clock = BootClock::start(runtime.handle());
        for micros in [1, 100, 2_000, 20_000] {
            let deadline = clock.now() + Duration::from_micros(micros);
            block_on(clock.sleep_until(deadline));
            assert!(clock.now() >= deadline);
        }
        assert_eq!(clock.sleepers.has_thread(), cfg!(any(not(target_os = "linux"), redquorum_portable)));
    }

    #[tokio::test]
    async fn a_sleep_ends_on_the_runtime_that_serves_it() {
        let clock = BootClock::start(&Handle::current());
        let deadline = clock.now() + SHORT;
        futures::join!(clock.sleep_until(deadline), clock.sleep_until(deadline + SHORT));
        assert!(clock.now() >= deadline + SHORT);
    }

    #[test]
    fn a_past_deadline_is_ready_at_the_first_poll() {
        let clock = BootClock::with_thread();
        for deadline in [Instant::from_origin(Duration::ZERO), clock.now()] {
            assert_eq!(clock.sleep_until(deadline).now_or_never(), Some(()));
        }
        assert!(!clock.sleepers.has_thread(), "nobody slept");
    }

    #[test]
    fn an_earlier_deadline_is_not_kept_waiting_by_a_later_one() {
        let runtime = elsewhere();
        for clock in [BootClock::start(runtime.handle()), BootClock::with_thread()] {
            let end_of_time = Instant::from_origin(Duration::MAX);
            let mut later = [clock.sleep_until(end_of_time), clock.sleep_until(clock.now() + HOUR)];
            assert!(later.iter_mut().all(|sleep| poll(sleep, Waker::noop()).is_pending()));
            block_on(clock.sleep_until(clock.now() + SHORT));
            assert!(later.iter_mut().all(|sleep| poll(sleep, Waker::noop()).is_pending()));
        }
    }

    #[test]
    fn a_dropped_sleep_leaves_nothing_and_wakes_nobody() {
        let runtime = elsewhere();
        let clock = BootClock::start(runtime.handle());
        let woken = Arc::new(BootCounter::default());
        let mut sleep = clock.sleep_until(clock.now() + 10 * SHORT);
        assert!(poll(&mut sleep, &Waker::from(Arc::clone(&woken))).is_pending());
        assert_eq!(clock.sleepers.sleeping(), 1);
        drop(sleep);
        assert_eq!(clock.sleepers.sleeping(), 0);
        block_on(clock.sleep_until(clock.now() + 11 * SHORT));
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    }

    #[derive(Default)]
    struct BootCounter(AtomicUsize);

    impl Wake for BootCounter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_thousand_sleepers_wake_once_each_in_the_order_of_their_deadlines() {
        struct NamedWaker(u32, Arc<Mutex<Vec<u32>>>);
        impl Wake for NamedWaker {
            fn wake(self: Arc<Self>) {
                lock(&self.1).push(self.0);
            }
        }

        let runtime = elsewhere();
        for clock in [BootClock::start(runtime.handle()), BootClock::with_thread()] {
            let woken = Arc::default();
            // All are queued before the first is due, the latest first.
            let start = clock.now() + 25 * SHORT;
            let mut sleeps = Vec::new();
            for name in (0..1000).rev() {
                let mut sleep = clock.sleep_until(start + Duration::from_micros(20) * name);
                assert!(
                    poll(&mut sleep, &Waker::from(Arc::new(NamedWaker(name, Arc::clone(&woken)))))
                        .is_pending()
                );
                sleeps.push(sleep);
            }
            block_on(clock.sleep_until(start + 2 * SHORT));
            assert_eq!(*lock(&woken), (0..1000).collect::<Vec<_>>());
            assert_eq!(clock.sleepers.sleeping(), 0);
        }
    }

    #[test]
    fn sleeps_end_when_the_runtime_is_gone() {
        let runtime = elsewhere();
        let clock = BootClock::start(runtime.handle());
        let (sleeping, asleep) = mpsc::channel();
        let mut sleep = clock.sleep_until(clock.now() + 10 * SHORT);
        let sleeper = thread::spawn(move || {
            assert!(poll(&mut sleep, Waker::noop()).is_pending());
            sleeping.send(()).unwrap();
            block_on(sleep);
        });
        asleep.recv().unwrap();
        drop(runtime);
        sleeper.join().unwrap();

        let deadline = clock.now() + SHORT;
        block_on(clock.sleep_until(deadline));
        assert!(clock.now() >= deadline && clock.sleepers.has_thread());
    }

    #[test]
    fn a_clock_can_be_started_on_a_runtime_that_is_gone() {
        let runtime = elsewhere();
        let handle = runtime.handle().clone();
        drop(runtime);
        let clock = BootClock::start(&handle);
        block_on(clock.sleep_until(clock.now() + SHORT));
    }

    #[test]
    fn sleeps_end_where_the_runtime_has_no_io() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let clock = BootClock::start(runtime.handle());
        block_on(clock.sleep_until(clock.now() + SHORT));
        block_on(clock.sleep_until(clock.now() + SHORT));
        assert!(clock.sleepers.has_thread());
    }

    #[tokio::test]
    async fn the_task_ends_with_the_last_clock_and_sleep() {
        let runtime = Handle::current();
        let clock = BootClock::start(&runtime);
        let sleep = clock.clone().sleep_until(clock.now() + SHORT);
        drop(clock);
        sleep.await;

        let limit = boot_time() + HOUR / 60;
        while runtime.metrics().num_alive_tasks() > 0 {
            assert!(boot_time() < limit, "the task outlives its clock");
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn the_thread_ends_with_the_last_clock_and_sleep() {
        let clock = BootClock::with_thread();
        let mut sleep = clock.sleep_until(clock.now() + HOUR);
        assert!(poll(&mut sleep, Waker::noop()).is_pending() && clock.sleepers.has_thread());
        let thread = Arc::downgrade(&clock.sleepers);
        drop((clock, sleep));

        let limit = boot_time() + HOUR / 60;
        while thread.strong_count() > 0 || thread.weak_count() > 1 {
            assert!(boot_time() < limit, "the thread outlives its clock");
            thread::yield_now();
        }
    }
}
