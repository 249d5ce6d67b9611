//! One call that waits for a latch, as the observer is told of it.

use crate::{client::environment::Environment, clock::Instant, error::LatchError, observer::LatchEnd};

/// A call that waits; it is told of when this is dropped, however that comes.
pub(super) struct LatchWait<'a> {
    environment: &'a Environment,
    begun: Instant,
    end: LatchEnd,
}

impl<'a> LatchWait<'a> {
    pub(super) fn begin(environment: &'a Environment) -> Self {
        Self { environment, begun: environment.now(), end: LatchEnd::Cancelled }
    }

    pub(super) fn ended(&mut self, waited: &Result<(), LatchError>) {
        self.end = match waited {
            Ok(()) => LatchEnd::Open,
            Err(LatchError::TimedOut { .. }) => LatchEnd::TimedOut,
            Err(LatchError::NoQuorum { .. }) => LatchEnd::NoQuorum,
            Err(LatchError::Closed) => LatchEnd::Closed,
            Err(LatchError::OtherCount { .. }) => LatchEnd::OtherCount,
            Err(LatchError::Config(_)) => LatchEnd::Refused,
        };
    }
}

impl Drop for LatchWait<'_> {
    fn drop(&mut self) {
        let waited = self.environment.now().saturating_duration_since(self.begun);
        self.environment.observer.waited_for_latch(self.end, waited);
    }
}
