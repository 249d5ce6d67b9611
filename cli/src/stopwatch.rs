//! Measured times and pauses on which no lease depends.

use std::time::{Duration, Instant, SystemTime};

/// Returns the present instant, for measurements.
#[expect(
    clippy::disallowed_methods,
    reason = "measured times are only printed, and no lease depends on them"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns the time of this machine's wall clock.
#[expect(clippy::disallowed_methods, reason = "`doctor` compares the wall clock with the clocks of nodes")]
pub(crate) fn wall_clock() -> SystemTime {
    SystemTime::now()
}

/// Waits for a duration.
#[expect(
    clippy::disallowed_methods,
    reason = "no lease depends on pauses, and a suspended machine may prolong them"
)]
pub(crate) async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Returns the output of a future, or `None` after a duration.
#[expect(
    clippy::disallowed_methods,
    reason = "no lease depends on limits, and a suspended machine may prolong them"
)]
pub(crate) async fn within<F: Future>(duration: Duration, future: F) -> Option<F::Output> {
    tokio::time::timeout(duration, future).await.ok()
}
