//! Waiting for a condition instead of for a time.

use std::time::Duration;

/// How long to leave a condition alone between two looks at it.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Polls `condition` until it holds, and panics with `what` when it does not hold within
/// `deadline`.
///
/// The condition itself may wait, but not past the deadline: one that hangs counts as one that does
/// not hold.
#[track_caller]
pub fn eventually<F, C>(deadline: Duration, what: &str, mut condition: C) -> impl Future<Output = ()>
where
    F: Future<Output = bool>,
    C: FnMut() -> F,
{
    let caller = std::panic::Location::caller();
    async move {
        let polls = async {
            while !condition().await {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        let holds = tokio::time::timeout(deadline, polls).await.is_ok();
        assert!(holds, "{caller}: not within {deadline:?}: {what}");
    }
}
