//! The report of a lock call to the observer: an event at the beginning, and an event at the end.
//!
//! The calls of [`LockRequest`](super::lock_request::LockRequest) and of `semaphore/any_of_request` are reported, after
//! their checks. A call with a failed check causes no event. The wait for the role of the release watcher is a part of
//! a larger call, and causes no event of its own.

use crate::{
    client::context::ClientContext,
    clock::Instant,
    error::Error,
    observer::{CallEnd, Mode},
};

/// A lock call in progress. The drop of this value reports the end of the call to the observer. Without a call of
/// [`ended`](Self::ended) before, the reported end is [`CallEnd::Cancelled`].
#[derive(Debug)]
pub(crate) struct LockCall<'a> {
    context: &'a ClientContext,
    mode: Mode,
    begun: Instant,
    end: CallEnd,
}

impl<'a> LockCall<'a> {
    /// Reports the beginning of a call to the observer.
    pub(crate) fn begin(context: &'a ClientContext, mode: Mode) -> Self {
        context.observer.call_began();
        Self { context, mode, begun: context.now(), end: CallEnd::Cancelled }
    }

    /// Records the end of the call, to be reported by the drop:
    ///
    /// * `Ok(Some(end))`: the call returns a guard, and ends as `end`.
    /// * `Ok(None)`: the call returns neither a guard nor an error, and ends as `without_guard`.
    /// * `Err(error)`: the call returns an error, which decides the end.
    pub(crate) fn ended(&mut self, outcome: Result<Option<CallEnd>, &Error>, without_guard: CallEnd) {
        self.end = match outcome {
            Ok(end) => end.unwrap_or(without_guard),
            Err(Error::NoQuorum(_)) if self.context.ensure_running().is_err() => CallEnd::Closed,
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
