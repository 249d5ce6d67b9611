//! The turn to try, which passes from task to task.

use std::sync::Arc;

use crate::{
    acquire::{
        attempt::attempt,
        checked_request::CheckedRequest,
        notifier::{Notifications, Notifier},
        outcome::AttemptOutcome,
        queue_entries::QueueEntries,
        waiters::TaskQueue,
    },
    algorithm::{
        attempt::{HEDGE_SHARE, Plan},
        failed_attempt::{FailedAttempt, RefusedResource},
        waiter_schedule::{NextAttempt, WaiterConfig, WaiterSchedule},
    },
    client::{broadcast::inspect_all, context::ClientContext},
    clock::Instant,
    node::{Answer, Inspection},
    values::{LeaseId, NodeReply, Refusal},
};

/// A subscription is waited for no longer than this part of a node timeout.
pub(super) const LISTENING_SHARE: u32 = 64;

/// What the waiter knows, and hands on.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// `None` until it knows of others.
    waiting: Option<WaiterState>,
    hint: u64,
    /// When the quarantines are over for which the last attempt had no quorum, as the nodes told
    /// it.
    quarantined_until: Option<Instant>,
    /// Whether an attempt is under way; if nobody makes it any more, it was given up in the middle.
    is_asking: bool,
}

#[derive(Debug)]
struct WaiterState {
    schedule: WaiterSchedule,
    entries: QueueEntries,
    order: Vec<usize>,
}

impl Turn {
    /// Waits for the time of the next attempt, and says how to make it. One is made as soon as
    /// quarantines are over for which there was no quorum; while none can be asked, the last one is
    /// made at the end of the quorum timeout: that of this call, or of one that waits behind it.
    pub(super) async fn until_next_attempt(
        &mut self,
        context: &ClientContext,
        checked: &CheckedRequest,
        queue: &TaskQueue,
        quorum_deadline: Option<Instant>,
    ) -> Plan {
        let TaskQueue { notifier, outage, .. } = queue;
        let waiting = match &mut self.waiting {
            Some(waiting) => waiting,
            None => match context.resource_with_waiters(&checked.resources).await {
                None if checked.is_known_held => {
                    self.waiting.insert(WaiterState::begin(context, checked, 0, notifier))
                }
                None => return checked.first_contact(context),
                Some(index) => self.waiting.insert(WaiterState::begin(context, checked, index, notifier)),
            },
        };
        if std::mem::take(&mut self.is_asking) {
            // Its turn was given back with the attempt.
            waiting.schedule.request_attempt(context.now());
        }
        loop {
            let notified = notifier.notified.notified();
            let now = context.now();
            waiting.hear(notifier.take(), now);
            let NextAttempt { at, mut plan } = waiting.schedule.next_attempt();
            let at = [quorum_deadline, self.quarantined_until].into_iter().flatten().fold(at, Instant::min);
            if at <= now || outage.is_attempt_wanted() {
                waiting.schedule.attempt_begins(now);
                waiting.entries.set_enqueue_only(waiting.schedule.enqueues_only());
                if let Plan::QueueNodeFirst(order) = &mut plan {
                    // Others may be silent than when it began to wait.
                    let now = context.queue_node_order(checked.resource_at(waiting.entries.index()));
                    *order = now.into_iter().filter(|node| order.contains(node)).collect();
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

    /// Makes the attempt.
    pub(super) async fn attempt(
        &mut self,
        context: &ClientContext,
        checked: &CheckedRequest,
        plan: Plan,
    ) -> AttemptOutcome {
        self.is_asking = true;
        let entries = self.waiting.as_mut().map(|waiting| &mut waiting.entries);
        let outcome = attempt(context, checked, plan, self.hint, entries).await;
        self.is_asking = false;
        outcome
    }

    pub(super) fn failed(
        &mut self,
        context: &ClientContext,
        checked: &CheckedRequest,
        queue: &TaskQueue,
        failed: &FailedAttempt,
        begun: Instant,
    ) {
        let TaskQueue { notifier, outage, .. } = queue;
        let now = context.now();
        self.hint = self.hint.max(failed.hint);
        let quarantine = failed.replies.quarantined_for();
        self.quarantined_until = quarantine.map(|remaining| now + remaining + checked.settings.pacing.floor);
        outage.attempt_failed(failed, begun, now, self.quarantined_until);
        let index = failed.refused.map_or(0, |refused| refused.index);
        match &mut self.waiting {
            // A waiter that is refused for another resource waits for that one: in both queues, it
            // would keep others from what is free.
            Some(waiting) if is_elsewhere(waiting, failed.refused) => {
                let mut other = WaiterState::begin(context, checked, index, notifier);
                other.entries.take_arrival_of(&waiting.entries);
                *waiting = other;
            }
            Some(waiting) => waiting.failed(failed, notifier, now, context.jitter()),
            None => {
                let waiting = self.waiting.insert(WaiterState::begin(context, checked, index, notifier));
                waiting.failed(failed, notifier, now, context.jitter());
            }
        }
    }

    /// Asks all nodes who holds the resource, where the queue node may be wrong. Silent ones are
    /// waited for no longer than a silent queue node.
    pub(super) async fn look(
        &mut self,
        context: &ClientContext,
        checked: &CheckedRequest,
        refused: Option<RefusedResource>,
    ) {
        let Some(WaiterState { schedule, entries, .. }) = &mut self.waiting else { return };
        if !schedule.wants_holder_check() {
            return;
        }
        // A group may be refused for another of its resources than the one that it is queued for.
        let index = refused.map_or_else(|| entries.index(), |refused| refused.index);
        let resource = checked.resource_at(index);
        let start = context.now();
        let deadline = start + checked.settings.rules.node_timeout / HEDGE_SHARE;
        let answers = inspect_all(context, resource, deadline).await;
        let votes: Vec<_> = answers.iter().map(vote_of).collect();
        let readers: Vec<_> = answers.iter().map(first_reader).collect();
        let now = context.now();
        schedule.holder_checked(&votes, &readers, now.saturating_duration_since(start), now);
    }

    /// The next in the queue waits for what this one has acquired.
    pub(super) fn acquired(&mut self, context: &ClientContext, queue: &TaskQueue) {
        self.quarantined_until = None;
        queue.outage.end();
        if let Some(WaiterState { schedule, entries, .. }) = &mut self.waiting {
            entries.acquired(context);
            // Wakes until now were for this turn.
            queue.notifier.take();
            schedule.acquired(context.now());
        }
    }
}

impl WaiterState {
    /// Waits for this one of the resources from now on.
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
            // It enters the queue by its first question, once it listens, or could by now.
            Some(queue_node) if checked.is_known_held => {
                entries.listen(*queue_node);
                schedule.request_attempt(now + settings.rules.node_timeout / LISTENING_SHARE);
            }
            _ => schedule.request_attempt(now),
        }
        Self { schedule, entries, order }
    }

    fn hear(&mut self, notifications: Notifications, now: Instant) {
        notifications.interrupted.iter().for_each(|node| self.schedule.interrupted(node, now));
        notifications.news.iter().for_each(|node| self.schedule.may_have_missed(node, now));
        self.come_next(notifications);
        notifications.releases.iter().for_each(|node| self.schedule.released(node, now));
        notifications.wakes.iter().for_each(|node| self.schedule.woken(node, now));
    }

    fn failed(&mut self, failed: &FailedAttempt, notifier: &Notifier, now: Instant, jitter: f64) {
        self.schedule.attempt_failed(failed, now, jitter);
        if let Some(deferral) = &failed.deferral {
            self.listen(deferral.node);
        }
        // What came during the attempt may be older than its refusal: one more look, and no wake.
        let notifications = notifier.take();
        self.come_next(notifications);
        let news = notifications.news.union(notifications.wakes).union(notifications.releases);
        news.iter().for_each(|node| self.schedule.may_have_missed(node, now));
        notifications.interrupted.iter().for_each(|node| self.schedule.interrupted(node, now));
    }

    fn come_next(&mut self, notifications: Notifications) {
        for node in notifications.nexts.iter() {
            self.schedule.is_next(node);
            self.listen(node);
        }
    }

    /// Listens to the queue node, as far as this waiter has to.
    fn listen(&mut self, queue_node: usize) {
        if self.schedule.listens_for_releases() {
            self.entries.listen_for_releases(queue_node, &self.order);
        } else {
            self.entries.ignore_releases();
        }
        self.entries.listen(queue_node);
    }
}

/// Whether it is certain that a waiter is refused for another resource than the one that it waits
/// for.
fn is_elsewhere(waiting: &WaiterState, refused: Option<RefusedResource>) -> bool {
    refused.is_some_and(|refused| refused.is_sure && refused.index != waiting.entries.index())
}

/// The vote that a node would have given, by what it says of the resource.
fn vote_of(answer: &Answer) -> NodeReply {
    match answer {
        Answer::Inspected(Inspection { held: Some(held), .. }) => NodeReply::Refused(Refusal::Held {
            by: held.owner.clone(),
            remaining: Some(held.remaining.unwrap_or_default()),
        }),
        answer => NodeReply::from(answer),
    }
}

/// Which reader of the resource ends first, of those that a node names.
fn first_reader(answer: &Answer) -> Option<LeaseId> {
    let Answer::Inspected(inspection) = answer else { return None };
    inspection.readers.first().map(|(owner, _)| owner.clone())
}
