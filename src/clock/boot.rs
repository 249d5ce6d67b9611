//! The clock of clients on real nodes.

use std::{sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt};
use tokio::runtime::Handle;

use crate::clock::{Clock, Instant, boot_time::boot_time, timer_driver::TimerDriver, timers::TimerSet};

/// A clock that shows, on Linux, the time since the machine was started, including suspended time. [`boot_time`]
/// describes the time on other systems.
///
/// On Linux, all sleeps share one `timerfd` on `CLOCK_BOOTTIME`, which a task on the clock's runtime watches. A sleep
/// can be awaited on any executor, as long as the clock's runtime is driven (a current-thread runtime runs only inside
/// of its `block_on`). If a deadline passes during a suspend, the table shows when the sleep ends:
///
/// | condition | the sleeps end by | after a suspend |
/// |---|---|---|
/// | Linux | the `timerfd` | at once |
/// | another system, no free file descriptor, or the runtime has ended | a thread, started by the first sleep | late by up to a second |
/// | no thread can be started | the sleeping tasks, which are polled until they are due | at once |
///
/// Therefore every sleep ends, but without the `timerfd` at a higher cost. [`now`](Clock::now) needs neither the
/// `timerfd` nor the thread.
///
/// The task and the thread end when the clock, its clones and its sleeps are dropped. The task also ends with its
/// runtime.
#[derive(Clone, Debug)]
pub(crate) struct BootClock {
    timers: Arc<TimerSet>,
}

impl BootClock {
    /// Returns a clock whose timers a task on `runtime` drives. The runtime should have IO enabled, as for any socket.
    /// Otherwise the task panics, and a thread drives the timers.
    #[cfg(all(target_os = "linux", not(redquorum_portable)))]
    pub(crate) fn start(runtime: &Handle) -> Self {
        use crate::{
            clock::timerfd::{Timerfd, TimerfdTask},
            spawner::Spawner,
        };

        match Timerfd::create() {
            Ok(timer) => {
                let timers = Arc::new(TimerSet::new(TimerDriver::Timerfd(timer.clone())));
                drop(Spawner::spawn(runtime, TimerfdTask::new(Arc::downgrade(&timers)).run(timer).boxed()));
                Self { timers }
            }
            Err(error) => {
                tracing::warn!(%error, "timerfd unavailable: using a timer thread");
                Self::with_thread()
            }
        }
    }

    /// Returns a clock whose timers a thread drives. On this system, the clock does not need the runtime.
    #[cfg(any(not(target_os = "linux"), redquorum_portable))]
    pub(crate) fn start(_runtime: &Handle) -> Self {
        Self::with_thread()
    }

    fn with_thread() -> Self {
        Self { timers: Arc::new(TimerSet::new(TimerDriver::None)) }
    }
}

impl Clock for BootClock {
    fn now(&self) -> Instant {
        boot_time()
    }

    #[expect(clippy::disallowed_methods, reason = "the only access to the time of day")]
    fn time_of_day(&self) -> Duration {
        // If the clock shows a time before 1970, the time of day is zero.
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
    }

    fn granularity(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn sleep_until(&self, deadline: Instant) -> BoxFuture<'static, ()> {
        self.timers.sleep_until(deadline).boxed()
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

    /// Returns a runtime with its own worker thread.
    fn worker_runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_io().build().unwrap()
    }

    #[test]
    fn a_sleep_ends_after_its_deadline_on_a_thread_without_a_runtime() {
        let runtime = worker_runtime();
        let clock = BootClock::start(runtime.handle());
        for micros in [1, 100, 2_000, 20_000] {
            let deadline = clock.now() + Duration::from_micros(micros);
            block_on(clock.sleep_until(deadline));
            assert!(clock.now() >= deadline);
        }
        assert_eq!(clock.timers.has_thread(), cfg!(any(not(target_os = "linux"), redquorum_portable)));
    }

    #[tokio::test]
    async fn a_sleep_ends_on_the_runtime_that_drives_the_clock() {
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
        assert!(!clock.timers.has_thread(), "a sleep that is ready at its first poll needs no thread");
    }

    #[test]
    fn an_earlier_deadline_does_not_wait_for_a_later_one() {
        let runtime = worker_runtime();
        for clock in [BootClock::start(runtime.handle()), BootClock::with_thread()] {
            let largest_instant = Instant::from_origin(Duration::MAX);
            let mut later = [clock.sleep_until(largest_instant), clock.sleep_until(clock.now() + HOUR)];
            assert!(later.iter_mut().all(|sleep| poll(sleep, Waker::noop()).is_pending()));
            block_on(clock.sleep_until(clock.now() + SHORT));
            assert!(later.iter_mut().all(|sleep| poll(sleep, Waker::noop()).is_pending()));
        }
    }

    #[test]
    fn a_dropped_sleep_leaves_no_timer_and_wakes_no_task() {
        let runtime = worker_runtime();
        let clock = BootClock::start(runtime.handle());
        let wake_count = Arc::new(WakeCounter::default());
        let mut sleep = clock.sleep_until(clock.now() + 10 * SHORT);
        assert!(poll(&mut sleep, &Waker::from(Arc::clone(&wake_count))).is_pending());
        assert_eq!(clock.timers.len(), 1);
        drop(sleep);
        assert_eq!(clock.timers.len(), 0);
        block_on(clock.sleep_until(clock.now() + 11 * SHORT));
        assert_eq!(wake_count.0.load(Ordering::Relaxed), 0);
    }

    #[derive(Default)]
    struct WakeCounter(AtomicUsize);

    impl Wake for WakeCounter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_thousand_sleeps_end_once_each_in_the_order_of_deadlines() {
        struct NamedWaker(u32, Arc<Mutex<Vec<u32>>>);
        impl Wake for NamedWaker {
            fn wake(self: Arc<Self>) {
                lock(&self.1).push(self.0);
            }
        }

        let runtime = worker_runtime();
        for clock in [BootClock::start(runtime.handle()), BootClock::with_thread()] {
            let woken = Arc::default();
            // All timers are inserted before the first is due, the latest first.
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
            assert_eq!(clock.timers.len(), 0);
        }
    }

    #[test]
    fn sleeps_end_after_the_runtime_has_ended() {
        let runtime = worker_runtime();
        let clock = BootClock::start(runtime.handle());
        let (send_pending, pending) = mpsc::channel();
        let mut sleep = clock.sleep_until(clock.now() + 10 * SHORT);
        let sleeper = thread::spawn(move || {
            assert!(poll(&mut sleep, Waker::noop()).is_pending());
            send_pending.send(()).unwrap();
            block_on(sleep);
        });
        pending.recv().unwrap();
        drop(runtime);
        sleeper.join().unwrap();

        let deadline = clock.now() + SHORT;
        block_on(clock.sleep_until(deadline));
        assert!(clock.now() >= deadline && clock.timers.has_thread());
    }

    #[test]
    fn a_clock_can_be_started_on_a_runtime_that_has_ended() {
        let runtime = worker_runtime();
        let handle = runtime.handle().clone();
        drop(runtime);
        let clock = BootClock::start(&handle);
        block_on(clock.sleep_until(clock.now() + SHORT));
    }

    #[test]
    fn sleeps_end_if_the_runtime_has_no_io() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let clock = BootClock::start(runtime.handle());
        block_on(clock.sleep_until(clock.now() + SHORT));
        block_on(clock.sleep_until(clock.now() + SHORT));
        assert!(clock.timers.has_thread());
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
        assert!(poll(&mut sleep, Waker::noop()).is_pending() && clock.timers.has_thread());
        let timers = Arc::downgrade(&clock.timers);
        drop((clock, sleep));

        // The thread has the only other weak reference.
        let limit = boot_time() + HOUR / 60;
        while timers.strong_count() > 0 || timers.weak_count() > 1 {
            assert!(boot_time() < limit, "the thread outlives its clock");
            thread::yield_now();
        }
    }
}
