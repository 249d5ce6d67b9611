//! The local waiter: the state that passes from task to task of a client with the turn to attempt.
//!
//! The local waiter connects the notices of the nodes, the pure [`WaiterSchedule`] and the attempts:
//!
//! ```text
//!   no known waiters ─────────────────────────────────────────┐
//!                                                             ▼
//!   notice, time, request of another call ──> schedule ──> attempt ──> acquired: the call leaves
//!                                                ▲            │
//!                                                └── failed ──┘
//!                                              (with a holder check, if the schedule wants one)
//! ```

use std::sync::Arc;

use crate::{
    acquire::{
        attempt::attempt,
        checked_request::CheckedRequest,
        notifier::{Notifications, Notifier},
        outcome::AttemptOutcome,
        queue_entries::QueueEntries,
        waiters::LocalQueue,
    },
    algorithm::{
        attempt::Plan,
        failed_attempt::{FailedAttempt, RefusedResource},
        waiter_schedule::{NextAttempt, WaiterConfig, WaiterSchedule},
    },
    client::{broadcast::inspect_all, context::ClientContext},
    clock::Instant,
    node::{Answer, InspectAnswer},
    values::{LeaseId, NodeReply, Refusal},
};

/// The share of a node timeout for which a waiter waits for a subscription.
pub(super) const LISTENING_SHARE: u32 = 64;

/// The state of a client that waits for some resources. The state passes from task to task with the turn to attempt.
#[derive(Debug, Default)]
pub(super) struct LocalWaiter {
    /// `None` until the client knows of other waiters or a holder.
    state: Option<WaiterState>,
    /// The largest counter in any answer so far, plus one.
    hint: u64,
    /// The end of the quarantines that left the last attempt without a quorum, as the nodes have reported it.
    quarantined_until: Option<Instant>,
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
    /// Waits for the time of the next attempt, and returns the plan of that attempt. If quarantines left the last
    /// attempt without a quorum, an attempt is also due at the end of these quarantines. While no quorum answers, the
    /// last attempt is due at the end of the quorum timeout, of this call or of a call behind.
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
            None => match context.resource_with_waiters(&checked.resources).await {
                None if checked.is_known_held => {
                    self.state.insert(WaiterState::begin(context, checked, 0, notifier))
                }
                None => return checked.first_contact(context),
                Some(index) => self.state.insert(WaiterState::begin(context, checked, index, notifier)),
            },
        };
        if std::mem::take(&mut self.is_attempting) {
            // The rollback of that attempt has given up the wake, so this task makes an attempt without a wake.
            state.schedule.request_attempt(context.now());
        }
        loop {
            let notified = notifier.notified.notified();
            let now = context.now();
            state.on_notifications(notifier.take(), now);
            let NextAttempt { at, mut plan } = state.schedule.next_attempt();
            let at = [quorum_deadline, self.quarantined_until].into_iter().flatten().fold(at, Instant::min);
            if at <= now || outage.is_attempt_wanted() {
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

    /// Makes an attempt.
    pub(super) async fn attempt(
        &mut self,
        context: &ClientContext,
        checked: &CheckedRequest,
        plan: Plan,
    ) -> AttemptOutcome {
        self.is_attempting = true;
        let entries = self.state.as_mut().map(|state| &mut state.entries);
        let outcome = attempt(context, checked, plan, self.hint, entries).await;
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
        let quarantine = failed.replies.quarantined_for();
        self.quarantined_until = quarantine.map(|remaining| now + remaining + checked.settings.pacing.floor);
        outage.attempt_failed(failed, begun, now, self.quarantined_until);
        let index = failed.refused.map_or(0, |refused| refused.index);
        match &mut self.state {
            // If a group is refused for a different resource, its waiter moves to the queue of that resource. With
            // entries in both queues, the waiter would block the free resource.
            Some(state) if is_elsewhere(state, failed.refused) => {
                let mut other = WaiterState::begin(context, checked, index, notifier);
                other.entries.take_arrival_of(&state.entries);
                *state = other;
            }
            Some(state) => state.failed(failed, notifier, now, context.jitter()),
            None => {
                let state = self.state.insert(WaiterState::begin(context, checked, index, notifier));
                state.failed(failed, notifier, now, context.jitter());
            }
        }
    }

    /// Inspects all nodes for the holder, if the queue node may have an orphaned key. The wait for silent nodes is no
    /// longer than the wait for a silent queue node.
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
        // The group may be refused for a different resource than the resource of its queue entry.
        let index = refused.map_or_else(|| entries.index(), |refused| refused.index);
        let resource = checked.resource_at(index);
        let start = context.now();
        let deadline = start + checked.settings.attempt.hedge();
        let answers = inspect_all(context, resource, deadline).await;
        let votes: Vec<_> = answers.iter().map(vote_of).collect();
        let readers: Vec<_> = answers.iter().map(first_reader).collect();
        let now = context.now();
        schedule.holder_checked(&votes, &readers, now.saturating_duration_since(start), now);
    }

    /// Handles an acquired lease. The next task waits until that lease ends.
    pub(super) fn acquired(&mut self, context: &ClientContext, queue: &LocalQueue) {
        self.quarantined_until = None;
        queue.outage.end();
        if let Some(WaiterState { schedule, entries, .. }) = &mut self.state {
            entries.acquired(context);
            // All wakes until now were meant for this attempt.
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
            order: order.clone(),
        };
        let mut schedule = WaiterSchedule::new(config, now);
        let mut entries = QueueEntries::new(context, checked, index, notifier);
        match order.first() {
            // The first attempt enters the queue. The attempt waits for the subscription, or for the deadline of the
            // subscription.
            Some(queue_node) if checked.is_known_held => {
                entries.listen(*queue_node);
                schedule.request_attempt(now + settings.attempt.node_timeout / LISTENING_SHARE);
            }
            _ => schedule.request_attempt(now),
        }
        Self { schedule, entries, order }
    }

    fn on_notifications(&mut self, notifications: Notifications, now: Instant) {
        notifications.interrupted.iter().for_each(|node| self.schedule.interrupted(node, now));
        notifications.subscribed.iter().for_each(|node| self.schedule.may_have_missed(node, now));
        self.reached_head(notifications);
        notifications.releases.iter().for_each(|node| self.schedule.released(node, now));
        notifications.wakes.iter().for_each(|node| self.schedule.woken(node, now));
    }

    fn failed(&mut self, failed: &FailedAttempt, notifier: &Notifier, now: Instant, jitter: f64) {
        self.schedule.attempt_failed(failed, now, jitter);
        if let Some(deferral) = &failed.deferral {
            self.listen(deferral.node);
        }
        // A notice during the attempt may be older than the refusal. Therefore the notice does not count as a wake, but
        // leads to one more attempt.
        let notifications = notifier.take();
        self.reached_head(notifications);
        let notices = notifications.subscribed.union(notifications.wakes).union(notifications.releases);
        notices.iter().for_each(|node| self.schedule.may_have_missed(node, now));
        notifications.interrupted.iter().for_each(|node| self.schedule.interrupted(node, now));
    }

    fn reached_head(&mut self, notifications: Notifications) {
        for node in notifications.heads.iter() {
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

/// Whether a waiter was certainly refused for another resource than the resource of its queue entry.
fn is_elsewhere(state: &WaiterState, refused: Option<RefusedResource>) -> bool {
    refused.is_some_and(|refused| refused.is_sure && refused.index != state.entries.index())
}

/// Returns the vote that corresponds to the answer of an inspection.
fn vote_of(answer: &Answer) -> NodeReply {
    match answer {
        Answer::Inspected(InspectAnswer { held: Some(held), .. }) => NodeReply::Refused(Refusal::Held {
            by: held.lease_id.clone(),
            remaining: Some(held.remaining.unwrap_or_default()),
        }),
        answer => NodeReply::from(answer),
    }
}

/// Returns the reader whose key expires first among the readers that a node names.
fn first_reader(answer: &Answer) -> Option<LeaseId> {
    let Answer::Inspected(inspection) = answer else { return None };
    inspection.readers.first().map(|(lease_id, _)| lease_id.clone())
}
