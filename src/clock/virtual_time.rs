//! Tokio's time, which tests can pause.

use std::time::Duration;

use futures::future::{self, BoxFuture, FutureExt};

use crate::clock::{Clock, Instant};

/// The time of day at which virtual time begins. The date is in 2023, so that fencing tokens are as large as real
/// tokens.
pub(crate) const VIRTUAL_EPOCH: Duration = Duration::from_secs(1_700_000_000);

/// Tokio's own clock, which is virtual if a test has paused it.
///
/// The clock and its clones count from the creation of the clock. Sleeps need a tokio runtime with its timer enabled.
/// Virtual time is visible only inside of the paused runtime.
#[derive(Clone, Debug)]
pub(crate) struct TokioClock {
    origin: tokio::time::Instant,
}

impl TokioClock {
    /// Returns a clock that starts at zero. Outside of a runtime, the clock follows real time instead of panicking.
    #[expect(clippy::disallowed_methods, reason = "the only access to virtual time")]
    pub(crate) fn new() -> Self {
        Self { origin: tokio::time::Instant::now() }
    }
}

impl Clock for TokioClock {
    #[expect(clippy::disallowed_methods, reason = "the only access to virtual time")]
    fn now(&self) -> Instant {
        Instant::from_origin(tokio::time::Instant::now().saturating_duration_since(self.origin))
    }

    /// Returns the time of day of virtual time. In-memory nodes use the same time of day.
    fn time_of_day(&self) -> Duration {
        VIRTUAL_EPOCH + self.now().since_origin()
    }

    /// Returns a millisecond, because Tokio's timers count whole milliseconds, rounded up.
    fn granularity(&self) -> Duration {
        Duration::from_millis(1)
    }

    #[expect(clippy::disallowed_methods, reason = "the only sleep in virtual time")]
    fn sleep_until(&self, deadline: Instant) -> BoxFuture<'static, ()> {
        match self.origin.checked_add(deadline.since_origin()) {
            Some(deadline) => async move { tokio::time::sleep_until(deadline).await }.boxed(),
            // The deadline is too late to be represented.
            None => future::pending().boxed(),
        }
    }
}

/// Whether the current runtime has its timers enabled, which the sleeps of a [`TokioClock`] need.
///
/// No function of Tokio returns whether timers are enabled. If timers are disabled, Tokio panics at the creation of a
/// sleep.
#[expect(clippy::disallowed_methods, reason = "the sleep is dropped")]
pub(crate) fn has_timers() -> bool {
    std::panic::catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_clock_can_be_created_and_read_without_a_runtime() {
        let clock = TokioClock::new();
        assert!(clock.now() <= clock.now());
        drop(clock.sleep_until(clock.now() + MINUTE));
    }

    #[tokio::test(start_paused = true)]
    async fn paused_time_advances_only_while_a_task_sleeps() {
        let clock = TokioClock::new();
        assert_eq!(clock.now().since_origin(), Duration::ZERO);
        clock.sleep_until(clock.now() + MINUTE).await;
        assert_eq!(clock.now().since_origin(), MINUTE);
        clock.sleep_until(Instant::from_origin(MINUTE / 2)).await;
        assert_eq!(clock.clone().now().since_origin(), MINUTE, "a sleep until a past deadline takes no time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_ends_within_the_granularity_and_never_early() {
        let clock = TokioClock::new();
        for micros in [1, 499, 500, 999, 1000, 1001, 59_999_999] {
            let deadline = clock.now() + Duration::from_micros(micros);
            clock.sleep_until(deadline).await;
            let now = clock.now();
            assert!(deadline <= now && now <= deadline + clock.granularity(), "{deadline:?}: {now:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_until_the_largest_instant_never_ends() {
        let clock = TokioClock::new();
        let end = Instant::from_origin(Duration::MAX);
        assert_eq!(clock.sleep_until(end).now_or_never(), None);
    }
}
