//! The result of the last attempt, which the calls in one local queue share. By this result, each call gives up at its
//! own quorum timeout.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    algorithm::{
        failed_attempt::FailedAttempt,
        outage::{Outage, OutageStep, QuorumWait},
    },
    client::context::ClientContext,
    clock::Instant,
    error::{Error, Goal, NoQuorum},
    mutex::lock,
    values::{NodeReply, Resource},
};

/// The result of the last attempt in one local queue. The result is an outage if no quorum answered.
///
/// The call with the local turn makes the attempts. The calls behind read the outage here, so that each call ends at
/// its own quorum timeout.
#[derive(Debug, Default)]
pub(crate) struct SharedOutage {
    last: Mutex<LastResult>,
    /// The start of the attempt in flight.
    pending_since: Mutex<Option<Instant>>,
    /// Notified after an attempt without a quorum, for the calls without the local turn.
    attempt_failed: Notify,
    /// Notified when a call needs the result of an attempt, for the call with the local turn.
    attempt_wanted: Notify,
}

/// The result of the last attempt in a queue.
#[derive(Clone, Debug, Default)]
enum LastResult {
    /// No attempt in this queue.
    #[default]
    Nothing,
    /// A first attempt without an outcome so far.
    FirstAttempt,
    /// A lease, a refusal by a quorum, or a deferral by the queue node.
    Quorum,
    /// One or more attempts without a quorum.
    Outage(Box<Outage>),
}

/// The outage that the calls of one owner share. The calls of an owner enter a local queue one at a time. Calls of
/// writers and of readers enter different queues, so the outage moves between queues.
#[derive(Debug, Default)]
pub(crate) struct OwnerOutage {
    /// The result in the queue that the last call entered.
    current: Mutex<Arc<SharedOutage>>,
    changed: Notify,
}

/// The guard of an attempt in flight. The drop ends the attempt, also if the future of its call is dropped.
#[must_use = "the attempt ends when the guard is dropped"]
#[derive(Debug)]
pub(super) struct PendingAttempt<'a>(&'a SharedOutage);

impl Drop for PendingAttempt<'_> {
    fn drop(&mut self) {
        *lock(&self.0.pending_since) = None;
    }
}

impl SharedOutage {
    pub(super) fn attempt_begins(&self) {
        let mut last = lock(&self.last);
        if let LastResult::Nothing = *last {
            *last = LastResult::FirstAttempt;
        }
    }

    /// Records that an attempt is in flight since `begun`, until the guard is dropped.
    pub(super) fn attempt_pends(&self, begun: Instant) -> PendingAttempt<'_> {
        *lock(&self.pending_since) = Some(begun);
        PendingAttempt(self)
    }

    /// Handles the failure of an attempt. Returns the present duration of the outage; `None` if the attempt had a
    /// quorum.
    pub(super) fn attempt_failed(
        &self,
        failed: &FailedAttempt,
        begun: Instant,
        now: Instant,
        quarantined_until: Option<Instant>,
    ) -> Option<Duration> {
        let mut last = lock(&self.last);
        let earlier = std::mem::replace(&mut *last, LastResult::Quorum).into_outage();
        let outage = Outage::after(earlier, failed, begun, now, quarantined_until);
        let lasts = outage.as_ref().map(|outage| outage.lasts(now));
        *last = outage.map_or(LastResult::Quorum, |outage| LastResult::Outage(Box::new(outage)));
        drop(last);
        // An attempt with a quorum wakes no call, because each call checks the outage again at its own deadline.
        if lasts.is_some() {
            self.attempt_failed.notify_waiters();
        }
        lasts
    }

    /// Handles an attempt with the answers of a quorum.
    pub(super) fn quorum_answered(&self) {
        *lock(&self.last) = LastResult::Quorum;
    }

    /// Returns the end of the quorum timeout of a call; `None` without an outage.
    pub(super) fn deadline(&self, wait: &QuorumWait) -> Option<Instant> {
        lock(&self.last).outage().map(|outage| outage.deadline(wait))
    }

    /// Whether the last attempt ends a call, because no quorum answered until the end of the quorum timeout of the
    /// call.
    pub(super) fn ends(&self, wait: &QuorumWait) -> bool {
        lock(&self.last).outage().is_some_and(|outage| outage.ends(wait))
    }

    /// Whether a call without the local turn needs the result of an attempt now.
    pub(super) fn is_attempt_wanted(&self) -> bool {
        lock(&self.last).outage().is_some_and(Outage::is_attempt_wanted)
    }

    /// Waits until a call without the local turn may need the result of an attempt.
    pub(super) async fn attempt_wanted(&self) {
        self.attempt_wanted.notified().await;
    }

    /// Waits until an outage outlasts the quorum timeout of a call without the local turn. Returns the last attempt of
    /// the outage.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind, except that an attempt may begin early.
    pub(crate) async fn outlasts(&self, context: &ClientContext, wait: &QuorumWait) -> FailedAttempt {
        loop {
            // `notified` precedes the step, so that an attempt that ends after the step wakes this call.
            let attempt_failed = self.attempt_failed.notified();
            let step = self.step(wait, context.now()).or_else(|| self.pending_step(context, wait));
            let until = match step {
                // An attempt may begin at any time, and may get no answer until its end. Without the node timeout, a quorum
                // timeout of zero would be a loop without a pause.
                None => Some(context.now() + wait.timeout.max(wait.node_timeout)),
                Some(OutageStep::WaitUntil(deadline)) => Some(deadline),
                Some(OutageStep::WantAttempt(end)) => {
                    self.attempt_wanted.notify_one();
                    Some(end)
                }
                Some(OutageStep::GiveUp(failed)) => return failed,
            };
            tokio::select! {
                biased;
                () = attempt_failed => {}
                () = context.sleep_until(until) => {}
            }
        }
    }

    /// Decides the outcome of a call at the deadline of the call. If `has_asked` is false, the call has made no
    /// attempt. Otherwise, the last attempt of the call had a quorum. `Ok` means that another call or client has the
    /// resource.
    ///
    /// # Errors
    ///
    /// * During an outage, [`Error::NoQuorum`] with the replies to the last attempt of the queue.
    /// * If neither this call nor the first attempt of the queue has an outcome, [`Error::NoQuorum`] with pending
    ///   replies.
    pub(crate) fn at_deadline(
        &self,
        context: &ClientContext,
        resource: &Resource,
        has_asked: bool,
    ) -> Result<(), Error> {
        match &*lock(&self.last) {
            LastResult::Outage(outage) => Err(outage.last_attempt().to_no_quorum(resource).into()),
            LastResult::FirstAttempt if !has_asked => {
                let replies = context.same_replies(&NodeReply::Pending);
                Err(NoQuorum::new(Goal::Lock(resource.clone()), replies).into())
            }
            LastResult::Nothing | LastResult::FirstAttempt | LastResult::Quorum => Ok(()),
        }
    }

    /// Takes over the result of an earlier queue. An outage replaces any result of this queue except another outage.
    /// Every other result is taken over only if this queue has had no attempt.
    fn continue_from(&self, earlier: &Self) {
        let earlier = lock(&earlier.last).clone();
        let mut last = lock(&self.last);
        if matches!((&*last, &earlier), (LastResult::Nothing, _) | (_, LastResult::Outage(_)))
            && last.outage().is_none()
        {
            *last = earlier;
        }
    }

    /// Returns the next step of a call behind an attempt in flight, if there is no outage so far. The attempt may have
    /// a longer quorum timeout, and wait for votes for longer, than this call. Therefore the call gives up if the
    /// attempt is in flight for the quorum timeout of the call, and at least for a node timeout.
    fn pending_step(&self, context: &ClientContext, wait: &QuorumWait) -> Option<OutageStep> {
        let (begun, now) = ((*lock(&self.pending_since))?, context.now());
        let end = (begun.max(wait.start) + wait.timeout).max(begun + wait.node_timeout);
        if now < end {
            return Some(OutageStep::WaitUntil(end));
        }
        // If the process stood still at the end, the attempt may have answers that are unread.
        let took = now.saturating_duration_since(begun);
        let pending = || FailedAttempt::pending(context.same_replies(&NodeReply::Pending), took);
        (now < end + wait.node_timeout).then(|| OutageStep::GiveUp(pending()))
    }

    fn step(&self, wait: &QuorumWait, now: Instant) -> Option<OutageStep> {
        match &mut *lock(&self.last) {
            LastResult::Outage(outage) => Some(outage.step(wait, now)),
            LastResult::Nothing | LastResult::FirstAttempt | LastResult::Quorum => None,
        }
    }
}

impl LastResult {
    fn outage(&self) -> Option<&Outage> {
        match self {
            Self::Outage(outage) => Some(outage),
            Self::Nothing | Self::FirstAttempt | Self::Quorum => None,
        }
    }

    fn into_outage(self) -> Option<Outage> {
        match self {
            Self::Outage(outage) => Some(*outage),
            Self::Nothing | Self::FirstAttempt | Self::Quorum => None,
        }
    }
}

impl OwnerOutage {
    /// Handles a call that enters the queue of `outage`. The outage of earlier calls of the owner continues in that
    /// queue.
    pub(crate) fn follow(&self, outage: &Arc<SharedOutage>) {
        let earlier = std::mem::replace(&mut *lock(&self.current), Arc::clone(outage));
        outage.continue_from(&earlier);
        self.changed.notify_waiters();
    }

    /// Handles the beginning of a call that makes one attempt without a queue.
    pub(crate) fn attempt_begins(&self) {
        lock(&self.current).attempt_begins();
    }

    /// Handles the end of an attempt without a queue, if the attempt acquired the lock or was refused. The caller does
    /// not pass an attempt without a quorum.
    pub(crate) fn attempt_ends(&self) {
        lock(&self.current).quorum_answered();
    }

    /// Decides the outcome of a call as [`SharedOutage::at_deadline`] does.
    pub(crate) fn at_deadline(&self, context: &ClientContext, resource: &Resource) -> Result<(), Error> {
        lock(&self.current).at_deadline(context, resource, false)
    }

    /// Waits like [`SharedOutage::outlasts`], for a call that has not entered its queue yet.
    ///
    /// # Cancel safety
    ///
    /// As [`SharedOutage::outlasts`].
    pub(crate) async fn outlasts(&self, context: &ClientContext, wait: &QuorumWait) -> FailedAttempt {
        loop {
            let changed = self.changed.notified();
            let current = Arc::clone(&lock(&self.current));
            tokio::select! {
                biased;
                () = changed => {}
                failed = current.outlasts(context, wait) => return failed,
            }
        }
    }
}
