//! The rate limit of the warning that calls wait without a quorum.

use std::{sync::Mutex, time::Duration};

use crate::{clock::Instant, mutex::lock};

/// The time without a quorum after which a call that waits logs a warning with the replies of the nodes.
pub(crate) const WARN_AFTER: Duration = Duration::from_secs(1);

/// The least time between two warnings of one client. All calls that wait at the same time lack the same nodes, so one
/// warning is enough.
const INTERVAL: Duration = Duration::from_secs(60);

/// The time of the last warning of one client that calls wait without a quorum.
#[derive(Debug, Default)]
pub(crate) struct OutageWarnings {
    last: Mutex<Option<Instant>>,
}

impl OutageWarnings {
    /// Whether the caller should log a warning now. If true, the next warning is due after the interval.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let mut last = lock(&self.last);
        let is_due = last.is_none_or(|last| last + INTERVAL <= now);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}
