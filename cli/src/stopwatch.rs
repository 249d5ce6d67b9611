//! How long things take on this machine, where no lease depends on it.

use std::time::{Duration, Instant, SystemTime};

/// The present, for measuring.
#[expect(
    clippy::disallowed_methods,
    reason = "what is measured is for people to read, and no lease depends on it"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The present as this machine's wall clock has it.
#[expect(clippy::disallowed_methods, reason = "it is the wall clock that is compared with those of nodes")]
pub(crate) fn wall_clock() -> SystemTime {
    SystemTime::now()
}

/// Lets time pass.
#[expect(clippy::disallowed_methods, reason = "no lease depends on it, and a suspend may prolong it")]
pub(crate) async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// What comes of this if it does not take too long.
#[expect(clippy::disallowed_methods, reason = "no lease depends on it, and a suspend may prolong it")]
pub(crate) async fn within<F: Future>(duration: Duration, future: F) -> Option<F::Output> {
    tokio::time::timeout(duration, future).await.ok()
}
