//! The report of a latch wait to the observer.

use crate::{
    client::context::ClientContext,
    clock::Instant,
    error::{ConfigError, Error},
    observer::LatchEnd,
};

/// A call that waits for a latch. The drop reports the end of the wait to the observer, even if the call is cancelled.
pub(super) struct LatchWait<'a> {
    context: &'a ClientContext,
    begun: Instant,
    end: LatchEnd,
}

impl<'a> LatchWait<'a> {
    pub(super) fn begin(context: &'a ClientContext) -> Self {
        Self { context, begun: context.now(), end: LatchEnd::Cancelled }
    }

    pub(super) fn ended(&mut self, waited: &Result<bool, Error>) {
        self.end = match waited {
            Ok(true) => LatchEnd::Open,
            Ok(false) => LatchEnd::TimedOut,
            Err(Error::NoQuorum(_)) => LatchEnd::NoQuorum,
            Err(Error::Closed(_)) => LatchEnd::Closed,
            Err(Error::Config(ConfigError::CountMismatch { .. })) => LatchEnd::CountMismatch,
            Err(Error::Config(_) | Error::LeaseLost(_)) => LatchEnd::Refused,
        };
    }
}

impl Drop for LatchWait<'_> {
    fn drop(&mut self) {
        let waited = self.context.now().saturating_duration_since(self.begun);
        self.context.observer.waited_for_latch(self.end, waited);
    }
}
