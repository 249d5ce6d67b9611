//! The report of a lock call to the observer. Every lock call of `lock/` and `semaphore/` makes one report.

use crate::{
    client::context::ClientContext,
    clock::Instant,
    error::Error,
    observer::{CallEnd, Mode},
};

/// A lock call. The drop of this value reports the end of the call to the observer, even if the call is cancelled.
#[derive(Debug)]
pub(crate) struct LockCall<'a> {
    context: &'a ClientContext,
    mode: Mode,
    begun: Instant,
    end: CallEnd,
}

impl<'a> LockCall<'a> {
    pub(crate) fn begin(context: &'a ClientContext, mode: Mode) -> Self {
        context.observer.call_began();
        Self { context, mode, begun: context.now(), end: CallEnd::Cancelled }
    }

    /// Records the outcome of the call. A call that returns neither a guard nor an error ends as `without_guard`.
    pub(crate) fn ended(&mut self, outcome: Result<Option<CallEnd>, &Error>, without_guard: CallEnd) {
        self.end = match outcome {
            Ok(end) => end.unwrap_or(without_guard),
            Err(Error::NoQuorum(error)) if error.is_late() => CallEnd::Expired,
            Err(Error::NoQuorum(error)) if error.is_quarantined() => CallEnd::Quarantined,
            Err(Error::NoQuorum(_)) => CallEnd::NoQuorum,
            Err(Error::LeaseLost(_)) => CallEnd::LeaseLost,
            Err(Error::Closed(_)) => CallEnd::Closed,
            Err(Error::Config(_)) => CallEnd::Refused,
        };
    }
}

impl Drop for LockCall<'_> {
    fn drop(&mut self) {
        let waited = self.context.now().saturating_duration_since(self.begun);
        self.context.observer.call_ended(self.mode, self.end, waited);
    }
}
