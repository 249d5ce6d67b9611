//! The warning that calls wait without a quorum, and its rate limit.

use std::{fmt::Display, sync::Mutex, time::Duration};

use crate::{clock::Instant, mutex::lock};

/// The time without a quorum after which a call that waits logs a warning with the replies of the nodes.
const WARN_AFTER: Duration = Duration::from_secs(1);

/// The least time between two warnings of one client. All calls that wait at the same time lack the same nodes, so one
/// warning is enough.
const INTERVAL: Duration = Duration::from_secs(60);

/// The time of the last warning of one client that calls wait without a quorum.
#[derive(Debug, Default)]
pub(crate) struct OutageWarnings {
    last: Mutex<Option<Instant>>,
}

impl OutageWarnings {
    /// Handles a further attempt without a quorum, by a call that has been without a quorum for `lasts`. Logs a warning
    /// with the replies of the nodes if this is long, and if no other call has caused a warning within the interval.
    pub(crate) fn attempt_failed<S: Display>(
        &self,
        now: Instant,
        lasts: Duration,
        shortage: impl FnOnce() -> S,
    ) {
        if lasts >= WARN_AFTER && self.is_due(now) {
            let shortage = shortage();
            tracing::warn!(%shortage, "waiting without a quorum");
        }
    }

    /// Whether a warning is due. If true, the next warning is due after the interval.
    fn is_due(&self, now: Instant) -> bool {
        let mut last = lock(&self.last);
        let is_due = last.is_none_or(|last| last + INTERVAL <= now);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}
