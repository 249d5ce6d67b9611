//! The local waiter: the state of a client that waits for some resources. The state passes from task to task of the
//! client with the local turn.
//!
//! The local waiter connects the notices of the nodes, the pure [`WaiterSchedule`] and the attempts:
//!
//! ```text
//!   first attempt, no known waiters ──────────────────────────┐
//!                                                             ▼
//!   notice, time, request of another call ──> schedule ──> attempt ──> acquired: the call leaves
//!                                                ▲            │
//!                                                └── failed ──┘
//!                                              (with a holder check, if the schedule wants one)
//! ```

use std::{sync::Arc, time::Duration};

use crate::{
    acquire::{
        attempt::attempt,
        checked_request::{CheckedRequest, EarlierResult},
        notifier::{Notices, Notifier},
        outcome::AttemptOutcome,
        queue_entries::QueueEntries,
        waiters::LocalQueue,
    },
    algorithm::{
        attempt::Plan,
        attempt_limit::AttemptLimit,
        failed_attempt::{FailedAttempt, RefusedResource},
        waiter_schedule::{NextAttempt, WaiterConfig, WaiterSchedule},
    },
    client::{broadcast::inspect_until_quorum, context::ClientContext},
    clock::Instant,
    node::{Answer, InspectAnswer},
    values::{LeaseId, NodeReply, Refusal},
};

/// The divisor of the node timeout in the longest wait for new subscriptions to become active.
pub(super) const LISTENING_SHARE: u32 = 64;

/// The state of a client that waits for some resources. Only the task with the local turn has access.
#[derive(Debug, Default)]
pub(super) struct LocalWaiter {
    /// `None` until an attempt fails, an earlier attempt of the call has shown that the resource is held, or the cache
    /// shows that clients wait.
    state: Option<WaiterState>,
    /// The largest hint of the failed attempts so far.
    hint: u64,
    /// The end of the quarantines that left the last attempt without a quorum, as reported by the nodes, plus the
    /// shortest delay between attempts.
    quarantined_until: Option<Instant>,
    /// The limit for the rate of attempts. The limit outlasts `state`, which a group replaces when it moves to another
    /// queue.
    limit: AttemptLimit,
    /// Whether an attempt is in flight. If this is set when the next task begins, the previous task was dropped during
    /// its attempt.
    is_attempting: bool,
}

/// The waiter of one resource: the schedule, the queue entries and the queue node order.
#[derive(Debug)]
struct WaiterState {
    schedule: WaiterSchedule,
    entries: QueueEntries,
    order: Vec<usize>,
}

impl LocalWaiter {
    /// Waits for the time of the next attempt, and returns the plan of that attempt. The first attempt is due at once
    /// if no waiters are known. If quarantines left the last attempt without a quorum, an attempt is also due at the
    /// end of these quarantines. During an outage, an attempt is also due at `quorum_deadline`, the end of this call's
    /// quorum timeout, and as soon as a call without the local turn needs the result of an attempt. The
    /// [`AttemptLimit`] may delay each of these attempts.
    pub(super) async fn until_next_attempt(
        &mut self,
        context: &ClientContext,
        checked: &CheckedRequest,
        queue: &LocalQueue,
        quorum_deadline: Option<Instant>,
    ) -> Plan {
        let LocalQueue { notifier, outage, .. } = queue;
        let state = match &mut self.state {
            Some(state) => state,
            None if checked.earlier == EarlierResult::NoQuorum => return checked.newcomer_plan(context),
            None => match context.resource_with_waiters(&checked.resources).await {
                None if checked.earlier == EarlierResult::Held => {
                    self.state.insert(WaiterState::begin(context, checked, 0, notifier))
                }
                None => return checked.newcomer_plan(context),
                Some(index) => self.state.insert(WaiterState::begin(context, checked, index, notifier)),
            },
        };
        if std::mem::take(&mut self.is_attempting) {
            // The dropped attempt has used up the wake, so this task makes an attempt without a wake.
            state.schedule.request_attempt(context.now());
        }
        loop {
            let notified = notifier.notified.notified();
            let now = context.now();
            state.on_notices(notifier.take(), now);
            let NextAttempt { at, mut plan } = state.schedule.next_attempt();
            let wanted_at = outage.is_attempt_wanted().then_some(now);
            let others = [quorum_deadline, self.quarantined_until, wanted_at];
            let at = others.into_iter().flatten().fold(at, Instant::min);
            let at = at.max(now + self.limit.delay(checked.settings.pacing.floor, now));
            if at <= now {
                state.schedule.attempt_begins(now);
                state.entries.set_enqueue_only(state.schedule.enqueues_only());
                if let Plan::QueueNodeFirst(order) = &mut plan {
                    // Since the beginning of the wait, nodes may have become silent or have answered again.
                    let present = context.queue_node_order(checked.resource_at(state.entries.index()));
                    *order = present.into_iter().filter(|node| order.contains(node)).collect();
                }
                return plan;
            }
            tokio::select! {
                biased;
                () = notified => {}
                () = outage.attempt_wanted() => {}
                () = context.clock.sleep_until(at) => {}
            }
        }
    }

    /// Makes an attempt of a call whose quorum timeout ends after `quorum_timeout`. If the future is dropped, the next
    /// task makes its attempt without waiting for a wake.
    pub(super) async fn attempt(
        &mut self,
        context: &ClientContext,
        checked: &CheckedRequest,
        plan: Plan,
        quorum_timeout: Duration,
    ) -> AttemptOutcome {
        self.is_attempting = true;
        let entries = self.state.as_mut().map(|state| &mut state.entries);
        let outcome = attempt(context, checked, plan, quorum_timeout, self.hint, entries).await;
        self.is_attempting = false;
        outcome
    }

    /// Handles a failed attempt that began at `begun`.
    pub(super) fn failed(
        &mut self,
        context: &ClientContext,
        checked: &CheckedRequest,
        queue: &LocalQueue,
        failed: &FailedAttempt,
        begun: Instant,
    ) {
        let LocalQueue { notifier, outage, .. } = queue;
        let now = context.now();
        self.hint = self.hint.max(failed.hint);
        self.limit.failed(checked.settings.pacing.floor, now);
        let quarantine = failed.replies.quarantined_for();
        self.quarantined_until = quarantine.map(|remaining| now + remaining + checked.settings.pacing.floor);
        let lasts = outage.attempt_failed(failed, begun, now, self.quarantined_until);
        if let Some(lasts) = lasts {
            context.outage_warnings.attempt_failed(now, lasts, || failed.to_no_quorum(&checked.resource));
        }
        let index = failed.refused.map_or(0, |refused| refused.index);
        match &mut self.state {
            // If a group is certainly refused for another resource than before, the waiter moves to the queue of that
            // resource. With entries in both queues, the waiter would block the resource that is free now.
            Some(state) if is_elsewhere(state, failed.refused) => {
                let mut other = WaiterState::begin(context, checked, index, notifier);
                other.entries.take_arrival_of(&state.entries);
                other.schedule.continue_after(&state.schedule, failed, now, context.jitter());
                *state = other;
            }
            Some(state) => state.failed(failed, notifier, now, context.jitter()),
            None => {
                let state = self.state.insert(WaiterState::begin(context, checked, index, notifier));
                state.failed(failed, notifier, now, context.jitter());
            }
        }
    }

    /// Makes the holder check if the schedule wants one: inspects all nodes, and passes the answers to the schedule.
    pub(super) async fn check_holder(
        &mut self,
        context: &ClientContext,
        checked: &CheckedRequest,
        refused: Option<RefusedResource>,
    ) {
        let Some(WaiterState { schedule, entries, .. }) = &mut self.state else { return };
        if !schedule.wants_holder_check() {
            return;
        }
        // A group may be refused for another resource than the resource of its queue entry.
        let index = refused.map_or_else(|| entries.index(), |refused| refused.index);
        let resource = checked.resource_at(index);
        let start = context.now();
        let answers = inspect_until_quorum(context, resource, &checked.settings.attempt).await;
        let votes: Vec<_> = answers.iter().map(vote_of).collect();
        let readers: Vec<_> = answers.iter().map(first_reader).collect();
        let now = context.now();
        schedule.holder_checked(&votes, &readers, now.saturating_duration_since(start), now);
    }

    /// Handles an acquired lease. The next task attempts at once, and enters the end of the wait queue.
    pub(super) fn acquired(&mut self, context: &ClientContext, queue: &LocalQueue) {
        self.quarantined_until = None;
        self.limit.acquired();
        queue.outage.quorum_answered();
        if let Some(WaiterState { schedule, entries, .. }) = &mut self.state {
            entries.acquired(context);
            // A wake until now may have led to this attempt. Therefore the wake must not lead to the next attempt.
            queue.notifier.take();
            schedule.acquired(context.now());
        }
    }
}

impl WaiterState {
    /// Begins to wait for the resource at `index`.
    fn begin(
        context: &ClientContext,
        checked: &CheckedRequest,
        index: usize,
        notifier: &Arc<Notifier>,
    ) -> Self {
        let settings = &checked.settings;
        let now = context.now();
        let order = checked.queue_nodes(context, index).to_vec();
        let config = WaiterConfig {
            electorate: context.settings.electorate,
            pacing: settings.pacing,
            entry_ttl: settings.entry_ttl,
            hand_over: context.settings.parameters.hand_over,
            ttl: settings.attempt.ttl,
            node_timeout: settings.attempt.node_timeout,
            order: order.clone(),
        };
        let mut schedule = WaiterSchedule::new(config, now);
        let mut entries = QueueEntries::new(context, checked, index, notifier);
        match order.first() {
            // An earlier attempt has shown that the resource is held, so the first attempt of this wait enters the
            // queue. The attempt begins when the subscription is active, and at the latest after a part of the node
            // timeout.
            Some(queue_node) if checked.earlier == EarlierResult::Held => {
                entries.listen(*queue_node);
                schedule.request_attempt(now + settings.attempt.node_timeout / LISTENING_SHARE);
            }
            _ => schedule.request_attempt(now),
        }
        Self { schedule, entries, order }
    }

    fn on_notices(&mut self, notices: Notices, now: Instant) {
        notices.interrupted.iter().for_each(|node| self.schedule.interrupted(node, now));
        notices.subscribed.iter().for_each(|node| self.schedule.may_have_missed(node, now));
        self.reached_head(notices);
        notices.releases.iter().for_each(|node| self.schedule.released(node, now));
        notices.wakes.iter().for_each(|node| self.schedule.woken(node, now));
    }

    fn failed(&mut self, failed: &FailedAttempt, notifier: &Notifier, now: Instant, jitter: f64) {
        self.schedule.attempt_failed(failed, now, jitter);
        if let Some(deferral) = &failed.deferral {
            self.listen(deferral.node);
        }
        // A notice that arrived during the attempt may be older than the refusal. Therefore the notice is no wake, but
        // leads to one more attempt.
        let notices = notifier.take();
        self.reached_head(notices);
        let nodes = notices.subscribed.union(notices.wakes).union(notices.releases);
        nodes.iter().for_each(|node| self.schedule.may_have_missed(node, now));
        notices.interrupted.iter().for_each(|node| self.schedule.interrupted(node, now));
    }

    fn reached_head(&mut self, notices: Notices) {
        for node in notices.heads.iter() {
            self.schedule.reached_head(node);
            self.listen(node);
        }
    }

    /// Subscribes at the queue node to wakes, and to releases if this waiter is one of the first two.
    fn listen(&mut self, queue_node: usize) {
        if self.schedule.listens_for_releases() {
            self.entries.listen_for_releases(queue_node, &self.order);
        } else {
            self.entries.ignore_releases();
        }
        self.entries.listen(queue_node);
    }
}

/// Whether a waiter was certainly refused for another resource than the resource of its queue entry. An attempt that
/// only enqueues shows nothing, because keys of other attempts come and go at the stale queue node.
fn is_elsewhere(state: &WaiterState, refused: Option<RefusedResource>) -> bool {
    let is_other = |refused: RefusedResource| refused.is_sure && refused.index != state.entries.index();
    refused.is_some_and(is_other) && !state.schedule.enqueues_only()
}

/// Converts the answer to an inspection to the reply that a refused lock would have got from the same node.
fn vote_of(answer: &Answer) -> NodeReply {
    match answer {
        Answer::Inspected(InspectAnswer { held: Some(held), .. }) => NodeReply::Refused(Refusal::Held {
            by: held.lease_id.clone(),
            remaining: Some(held.remaining.unwrap_or_default()),
        }),
        answer => NodeReply::from(answer),
    }
}

/// Returns the reader with the earliest expiry among the readers in the answer to an inspection.
fn first_reader(answer: &Answer) -> Option<LeaseId> {
    let Answer::Inspected(inspection) = answer else { return None };
    inspection.readers.first().map(|(lease_id, _)| lease_id.clone())
}
