//! One call to lock, from its beginning to its end, as the observer is told of it.

use crate::{
    client::environment::Environment,
    clock::Instant,
    error::LockError,
    lock::lock_request::Locked,
    observer::{CallEnd, Mode},
};

/// A call to lock; it is told of when this is dropped, however that comes.
#[derive(Debug)]
pub(crate) struct LockCall<'a> {
    environment: &'a Environment,
    mode: Mode,
    begun: Instant,
    end: CallEnd,
}

impl<'a> LockCall<'a> {
    pub(crate) fn begin(environment: &'a Environment, mode: Mode) -> Self {
        environment.observer.call_began();
        Self { environment, mode, begun: environment.now(), end: CallEnd::Cancelled }
    }

    pub(crate) fn ended(&mut self, outcome: Result<Option<&Locked>, &LockError>) {
        self.end = match outcome {
            Ok(Some(locked)) => locked.end,
            Ok(None) => CallEnd::Held,
            Err(LockError::TimedOut { .. }) => CallEnd::TimedOut,
            Err(LockError::NoQuorum { .. }) => CallEnd::NoQuorum,
            Err(LockError::Quarantined { .. }) => CallEnd::Quarantined,
            Err(LockError::Expired { .. }) => CallEnd::Expired,
            Err(LockError::LeaseLost(_)) => CallEnd::LeaseLost,
            Err(LockError::Closed) => CallEnd::Closed,
            Err(LockError::Config(_) | LockError::WouldDeadlock { .. } | LockError::OtherHolds { .. }) => {
                CallEnd::Refused
            }
        };
    }
}

impl Drop for LockCall<'_> {
    fn drop(&mut self) {
        let waited = self.environment.now().saturating_duration_since(self.begun);
        self.environment.observer.call_ended(self.mode, self.end, waited);
    }
}
