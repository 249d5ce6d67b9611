//! The pace of warnings that calls wait without a quorum.

use std::{sync::Mutex, time::Duration};

use crate::{clock::Instant, mutex::lock};

/// The least time between two warnings of one client. Any number of calls may wait at once, and they lack the same nodes.
const INTERVAL: Duration = Duration::from_secs(60);

/// The warnings of one client that calls wait without a quorum.
#[derive(Debug, Default)]
pub(crate) struct OutageWarnings {
    last: Mutex<Option<Instant>>,
}

impl OutageWarnings {
    /// Whether a warning may be logged now. If so, the warning counts as logged.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let mut last = lock(&self.last);
        let is_due = last.is_none_or(|last| last + INTERVAL <= now);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}
