//! The outage that the calls in one local queue share.

use std::sync::{Arc, Mutex};

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

/// The result of the last attempt of one queue of calls: an outage, if no quorum answered.
///
/// The call with the turn makes the attempts. The calls behind read the outage here, so that each call ends by its own
/// quorum timeout.
#[derive(Debug, Default)]
pub(crate) struct SharedOutage {
    found: Mutex<Found>,
    /// Wakes the calls without the turn after an attempt without a quorum.
    attempt_failed: Notify,
    /// Wakes the call with the turn when another call needs the result of an attempt.
    attempt_wanted: Notify,
}

/// The result of the last attempt of a queue.
#[derive(Clone, Debug, Default)]
enum Found {
    /// No attempt so far.
    #[default]
    Nothing,
    /// A first attempt in flight, without a result.
    FirstAttempt,
    /// A lease, a refusal by a quorum, or a deferral by the queue node.
    Quorum,
    /// No quorum answered.
    Outage(Box<Outage>),
}

/// The outage of the calls of one owner. These calls enter a queue one at a time. Calls that write and calls that read
/// enter different queues.
#[derive(Debug, Default)]
pub(crate) struct FollowedOutage {
    /// The outage of the queue that the last call entered.
    followed: Mutex<Arc<SharedOutage>>,
    changed: Notify,
}

impl SharedOutage {
    pub(super) fn attempt_begins(&self) {
        let mut found = lock(&self.found);
        if let Found::Nothing = *found {
            *found = Found::FirstAttempt;
        }
    }

    /// Handles the failure of an attempt.
    pub(super) fn attempt_failed(
        &self,
        failed: &FailedAttempt,
        begun: Instant,
        now: Instant,
        quarantined_until: Option<Instant>,
    ) {
        let mut found = lock(&self.found);
        let earlier = std::mem::replace(&mut *found, Found::Quorum).into_outage();
        let outage = Outage::after(earlier, failed, begun, now, quarantined_until);
        let is_outage = outage.is_some();
        *found = outage.map_or(Found::Quorum, |outage| Found::Outage(Box::new(outage)));
        drop(found);
        // The end of an outage wakes no call, because each call checks the outage at its own deadline.
        if is_outage {
            self.attempt_failed.notify_waiters();
        }
    }

    /// Handles an acquired lock.
    pub(super) fn end(&self) {
        *lock(&self.found) = Found::Quorum;
    }

    /// Returns the end of the quorum timeout of a call; `None` without an outage.
    pub(super) fn deadline(&self, wait: &QuorumWait) -> Option<Instant> {
        lock(&self.found).outage().map(|outage| outage.deadline(wait))
    }

    /// Whether the last attempt ends a call: no quorum answered until the end of its quorum timeout.
    pub(super) fn ends(&self, wait: &QuorumWait) -> bool {
        lock(&self.found).outage().is_some_and(|outage| outage.ends(wait))
    }

    /// Whether another call needs the result of an attempt now.
    pub(super) fn is_attempt_wanted(&self) -> bool {
        lock(&self.found).outage().is_some_and(Outage::is_attempt_wanted)
    }

    /// Ready when another call may need the result of an attempt.
    pub(super) async fn attempt_wanted(&self) {
        self.attempt_wanted.notified().await;
    }

    /// Waits until an outage outlasts the quorum timeout of a call without the turn. Returns the attempt that shows the
    /// outage.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind, except that an attempt may begin early.
    pub(crate) async fn outlasts(&self, context: &ClientContext, wait: &QuorumWait) -> FailedAttempt {
        loop {
            // Subscribed before the step, so that an attempt that ends after the step wakes this call.
            let attempt_failed = self.attempt_failed.notified();
            let until = match self.step(wait, context.now()) {
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
                () = context.sleep_until(until) => {}
            }
        }
    }

    /// Decides the outcome at the deadline of a call that has made no attempt (`has_asked` is false), or whose own last
    /// attempt had a quorum. `Ok` means that another call or client has the resource.
    ///
    /// # Errors
    ///
    /// [`Error::NoQuorum`] with the replies to the last attempt of the queue.
    pub(crate) fn at_deadline(
        &self,
        context: &ClientContext,
        resource: &Resource,
        has_asked: bool,
    ) -> Result<(), Error> {
        match &*lock(&self.found) {
            Found::Outage(outage) => Err(outage.last_attempt().to_no_quorum(resource).into()),
            Found::FirstAttempt if !has_asked => {
                let replies = context.same_replies(&NodeReply::Pending);
                Err(NoQuorum::new(Goal::Lock(resource.clone()), replies).into())
            }
            Found::Nothing | Found::FirstAttempt | Found::Quorum => Ok(()),
        }
    }

    /// Continues the outage of another queue, unless this queue has an outage of its own.
    fn go_on(&self, earlier: &Self) {
        let earlier = lock(&earlier.found).clone();
        let mut found = lock(&self.found);
        if matches!((&*found, &earlier), (Found::Nothing, _) | (_, Found::Outage(_)))
            && found.outage().is_none()
        {
            *found = earlier;
        }
    }

    fn step(&self, wait: &QuorumWait, now: Instant) -> Option<OutageStep> {
        match &mut *lock(&self.found) {
            Found::Outage(outage) => Some(outage.step(wait, now)),
            Found::Nothing | Found::FirstAttempt | Found::Quorum => None,
        }
    }
}

impl Found {
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

impl FollowedOutage {
    /// Handles a call that enters the queue of this outage. The outage of the owner's earlier calls continues there.
    pub(crate) fn follow(&self, outage: &Arc<SharedOutage>) {
        let earlier = std::mem::replace(&mut *lock(&self.followed), Arc::clone(outage));
        outage.go_on(&earlier);
        self.changed.notify_waiters();
    }

    /// Handles a call that makes one attempt without a queue.
    pub(crate) fn attempt_begins(&self) {
        lock(&self.followed).attempt_begins();
    }

    /// Handles an attempt that acquired the lock or was refused. An attempt without a quorum is not recorded here.
    pub(crate) fn attempt_ends(&self) {
        lock(&self.followed).end();
    }

    /// Decides the outcome of a call as [`SharedOutage::at_deadline`] does.
    pub(crate) fn at_deadline(&self, context: &ClientContext, resource: &Resource) -> Result<(), Error> {
        lock(&self.followed).at_deadline(context, resource, false)
    }

    /// Waits as [`SharedOutage::outlasts`] does, for a call that has not entered its queue yet.
    ///
    /// # Cancel safety
    ///
    /// As [`SharedOutage::outlasts`].
    pub(crate) async fn outlasts(&self, context: &ClientContext, wait: &QuorumWait) -> FailedAttempt {
        loop {
            let changed = self.changed.notified();
            let followed = Arc::clone(&lock(&self.followed));
            tokio::select! {
                biased;
                () = changed => {}
                failed = followed.outlasts(context, wait) => return failed,
            }
        }
    }
}
