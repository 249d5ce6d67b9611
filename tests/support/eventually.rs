//! Waiting for a condition instead of for a time.

use std::time::Duration;

use tokio::time::Instant;

/// How long to leave a condition alone between two looks at it.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Polls `condition` until it holds, and panics with `what` when it does not hold within `deadline`.
///
/// The condition itself may wait, but not past the deadline: one that hangs counts as one that does not hold.
#[track_caller]
pub(crate) fn eventually<F>(deadline: Duration, what: &str, condition: F) -> impl Future<Output = ()>
where
    F: AsyncFnMut() -> bool,
{
    let caller = std::panic::Location::caller();
    async move {
        assert!(holds_within(deadline, condition).await, "{caller}: not within {deadline:?}: {what}");
    }
}

/// Polls `condition` and returns whether it held before `deadline` ran out.
pub(super) async fn holds_within<F>(deadline: Duration, mut condition: F) -> bool
where
    F: AsyncFnMut() -> bool,
{
    let poll = async {
        while !condition().await {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    tokio::time::timeout_at(Instant::now() + deadline, poll).await.is_ok()
}
