//! Waits for conditions, in place of waits for a fixed time.

use std::time::Duration;

/// The pause between two evaluations of a condition.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Evaluates `condition` until the condition holds. If the condition does not hold within `deadline`, panics with
/// `what`.
///
/// An evaluation may wait. If an evaluation has not returned at the deadline, the condition counts as not met.
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
