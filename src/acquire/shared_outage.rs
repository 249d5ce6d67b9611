//! The outages that calls of one client see together.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::{
    algorithm::{
        failed_attempt::FailedAttempt,
        outage::{Outage, OutageStep, QuorumWait},
    },
    client::environment::Environment,
    clock::Instant,
    mutex::lock,
};

/// The outage that the attempts of one queue of calls meet, if there is one.
///
/// Attempts are made by the call that has the turn. The calls behind it see the outage here, so that
/// none of them waits by the quorum timeout of another.
#[derive(Debug, Default)]
pub(crate) struct SharedOutage {
    outage: Mutex<Option<Outage>>,
    /// For the calls without the turn: an attempt has found no quorum.
    attempt_failed: Notify,
    /// For the call with the turn: an attempt is wanted.
    attempt_wanted: Notify,
}

/// The outage that the calls of one owner meet, which come to a queue one at a time. A call that
/// writes comes to another queue than a call that reads.
#[derive(Debug, Default)]
pub(crate) struct FollowedOutage {
    /// The outage of the queue to which the last of the calls came.
    followed: Mutex<Arc<SharedOutage>>,
    changed: Notify,
}

impl SharedOutage {
    /// An attempt has failed.
    pub(super) fn attempt_failed(
        &self,
        failed: &FailedAttempt,
        begun: Instant,
        now: Instant,
        quarantined_until: Option<Instant>,
    ) {
        let mut outage = lock(&self.outage);
        *outage = Outage::after(outage.take(), failed, begun, now, quarantined_until);
        let is_outage = outage.is_some();
        drop(outage);
        // Nothing has to be said of the end of an outage: a call sees it when it wakes at its deadline.
        if is_outage {
            self.attempt_failed.notify_waiters();
        }
    }

    /// An attempt has acquired the lock.
    pub(super) fn end(&self) {
        *lock(&self.outage) = None;
    }

    /// When a call has waited for a quorum as long as it may; `None` if there is no outage.
    pub(super) fn deadline(&self, wait: &QuorumWait) -> Option<Instant> {
        lock(&self.outage).as_ref().map(|outage| outage.deadline(wait))
    }

    /// Whether the call with the turn is to make an attempt now.
    pub(super) fn is_attempt_wanted(&self) -> bool {
        lock(&self.outage).as_ref().is_some_and(Outage::is_attempt_wanted)
    }

    /// Ready when an attempt may be wanted.
    pub(super) async fn attempt_wanted(&self) {
        self.attempt_wanted.notified().await;
    }

    /// Ready when a call without a turn has waited for a quorum as long as it may: with the attempt
    /// that shows it.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves nothing behind but an attempt that is made early.
    pub(crate) async fn outlasts(&self, environment: &Environment, wait: &QuorumWait) -> FailedAttempt {
        loop {
            // Made before the step, so that no attempt is missed that ends after it.
            let attempt_failed = self.attempt_failed.notified();
            let until = match self.step(wait, environment.now()) {
                None => None,
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
                () = environment.until(until) => {}
            }
        }
    }

    /// What calls have met in another queue goes on in this one, unless it has an outage already.
    fn go_on(&self, earlier: &Self) {
        let earlier = lock(&earlier.outage).clone();
        let mut outage = lock(&self.outage);
        if outage.is_none() {
            *outage = earlier;
        }
    }

    fn step(&self, wait: &QuorumWait, now: Instant) -> Option<OutageStep> {
        lock(&self.outage).as_mut().map(|outage| outage.step(wait, now))
    }
}

impl FollowedOutage {
    /// A call comes to the queue that meets this outage. What the calls before it have met goes on
    /// there.
    pub(crate) fn follow(&self, outage: &Arc<SharedOutage>) {
        let earlier = std::mem::replace(&mut *lock(&self.followed), Arc::clone(outage));
        outage.go_on(&earlier);
        self.changed.notify_waiters();
    }

    /// As [`SharedOutage::outlasts`], for a call that has not come to its queue yet.
    ///
    /// # Cancel safety
    ///
    /// As [`SharedOutage::outlasts`].
    pub(crate) async fn outlasts(&self, environment: &Environment, wait: &QuorumWait) -> FailedAttempt {
        loop {
            let changed = self.changed.notified();
            let followed = Arc::clone(&lock(&self.followed));
            tokio::select! {
                biased;
                () = changed => {}
                failed = followed.outlasts(environment, wait) => return failed,
            }
        }
    }
}
