//! Measurement of times, without the delays that other programs on this machine cause.

use std::{
    sync::{
        Once,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// The pause of the thread that measures delays.
const STEP: Duration = Duration::from_millis(2);

/// The delay of a timer on an idle machine.
const NEGLIGIBLE: Duration = Duration::from_millis(1);

/// A stopwatch for upper bounds of times in tests on real servers.
///
/// On a machine with more work than processors, the servers and the test wait for a processor. The library does not
/// cause these delays, so [`undelayed`](Self::undelayed) subtracts them. A thread measures the delays: in a loop,
/// the thread sleeps for a short fixed time, and adds the time by which the thread woke too late. On an idle machine,
/// [`elapsed`](Self::elapsed) and [`undelayed`](Self::undelayed) are about equal.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    begin: Instant,
    delay_before: Duration,
}

impl Stopwatch {
    /// Starts the stopwatch.
    pub fn start() -> Self {
        let delay_before = delay_so_far();
        Self { begin: Instant::now(), delay_before }
    }

    /// Returns the time since the start.
    pub fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Returns the time since the start without the delays of the machine.
    pub fn undelayed(&self) -> Duration {
        self.elapsed().saturating_sub(delay_so_far() - self.delay_before)
    }
}

/// Returns the sum of the delays since the first call.
fn delay_so_far() -> Duration {
    static NANOSECONDS: AtomicU64 = AtomicU64::new(0);
    static THREAD: Once = Once::new();
    THREAD.call_once(|| {
        thread::spawn(|| {
            loop {
                let begin = Instant::now();
                thread::sleep(STEP);
                let late = begin.elapsed().saturating_sub(STEP);
                let late = if late < NEGLIGIBLE { Duration::ZERO } else { late };
                NANOSECONDS.fetch_add(late.as_nanos().try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
            }
        });
    });
    Duration::from_nanos(NANOSECONDS.load(Ordering::Relaxed))
}
