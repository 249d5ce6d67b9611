//! Measured times and pauses on which no lease depends.

use std::time::{Duration, Instant, SystemTime};

/// Returns the present instant, for measurements.
#[expect(
    clippy::disallowed_methods,
    reason = "what is measured is for people to read, and no lease depends on it"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns the time of this machine's wall clock.
#[expect(clippy::disallowed_methods, reason = "it is the wall clock that is compared with those of nodes")]
pub(crate) fn wall_clock() -> SystemTime {
    SystemTime::now()
}

/// Waits for a duration.
#[expect(clippy::disallowed_methods, reason = "no lease depends on it, and a suspend may prolong it")]
pub(crate) async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Returns the output of a future, or `None` after a duration.
#[expect(clippy::disallowed_methods, reason = "no lease depends on it, and a suspend may prolong it")]
pub(crate) async fn within<F: Future>(duration: Duration, future: F) -> Option<F::Output> {
    tokio::time::timeout(duration, future).await.ok()
}
