//! The reports about a connection, to the log and to the monitor.

use std::{
    collections::BTreeSet,
    mem::{Discriminant, discriminant},
    sync::Arc,
    time::Duration,
};

use super::{ConnectionConfig, monitor::Monitor, registration::Registered};
use crate::{
    clock::Instant,
    node::{Incarnation, NewNodes, transport::NoticeCommand},
    values::{NodeError, Printable},
};

/// The largest number of reasons for which one connection warns that notices are refused. The texts are the
/// server's, and may differ each time.
const MAX_REASONS: usize = 8;

/// Reports the changes of one node's connection.
///
/// # Invariant
///
/// The monitor receives the beginning and the end of each connection. The sum of the reported changes is the number of
/// undelivered requests. After the end of the task, no connection is without its end, and the sum is 0.
#[derive(Debug)]
pub(super) struct ConnectionNotices {
    node: Arc<str>,
    monitor: Arc<dyn Monitor>,
    is_connected: bool,
    /// The number of connections until now.
    connections: u64,
    /// The number of undelivered requests that was reported last.
    undelivered: usize,
    /// The age of the oldest call that was reported last.
    oldest_call: Duration,
    refusals: LoggedRefusals,
    last: LastIncarnation,
    outage: Outage,
    violations: LoggedViolations,
    refused_calls: RefusedCalls,
    idle_closes: IdleCloses,
    /// Whether the log has the warning that the node was replaced.
    is_replacement_reported: bool,
}

/// The time for which a node refuses calls or connections for one reason before the refusal is reported as a warning.
const LONG_REFUSAL: Duration = Duration::from_secs(1);

/// The refusals of calls and connections by the server, by reason.
#[derive(Debug, Default)]
struct RefusedCalls(Vec<RefusalReason>);

/// A reason for which the server refuses calls or connections.
#[derive(Debug)]
struct RefusalReason {
    kind: Discriminant<NodeError>,
    since: Instant,
    /// Whether the refusal was reported as a warning.
    is_reported: bool,
    /// Whether the refusal lasts although the node executes other calls. A missing permission concerns some commands
    /// and keys only.
    is_partial: bool,
}

/// The time without a connection after which an outage is reported as a warning. Restarts and failovers take less.
const LONG_OUTAGE: Duration = Duration::from_secs(60);

/// The time without a connection to the node.
#[derive(Debug, Default)]
struct Outage {
    /// The beginning; `None` while the node is connected.
    since: Option<Instant>,
    /// Whether the outage was reported as a warning.
    is_reported: bool,
}

/// The least time between two warnings of protocol violations. A node that floods its clients violates the protocol at
/// every dial.
const VIOLATION_INTERVAL: Duration = Duration::from_secs(30);

/// The time of the last violation that was logged as a warning.
#[derive(Debug, Default)]
struct LoggedViolations(Option<Instant>);

/// The refusals of notices that were logged on one connection, by command and reason.
#[derive(Debug, Default)]
struct LoggedRefusals(BTreeSet<(NoticeCommand, String)>);

/// The least time without traffic after which the end of a connection counts as the end of an idle connection.
const MIN_IDLE: Duration = Duration::from_secs(1);

/// The largest difference of two idle times that one limit explains. A server checks its limit once a second or less.
const MAX_IDLE_DIFFERENCE: Duration = Duration::from_secs(2);

/// The ends of connections that were idle.
#[derive(Debug, Default)]
struct IdleCloses {
    /// The idle time of the last connection that was closed while it was idle.
    last: Option<Duration>,
    is_reported: bool,
}

/// The incarnation of the last connection.
#[derive(Debug)]
struct LastIncarnation {
    /// The incarnation, and the time at which its connection broke.
    seen: Option<(Incarnation, Instant)>,
    /// The length of a quarantine; `None` if this client does not let new nodes begin a quarantine.
    quarantine: Option<Duration>,
}

impl ConnectionNotices {
    pub(super) fn new(node: Arc<str>, config: &ConnectionConfig) -> Self {
        config.monitor.dials(&node);
        let quarantine = (config.registers == Some(NewNodes::Quarantine)).then_some(config.quarantine);
        Self {
            node,
            monitor: Arc::clone(&config.monitor),
            is_connected: false,
            connections: 0,
            undelivered: 0,
            oldest_call: Duration::ZERO,
            refusals: LoggedRefusals::default(),
            last: LastIncarnation { seen: None, quarantine },
            outage: Outage::default(),
            violations: LoggedViolations::default(),
            refused_calls: RefusedCalls::default(),
            idle_closes: IdleCloses::default(),
            is_replacement_reported: false,
        }
    }

    /// Reports that a dial has failed.
    pub(super) fn unreachable(&mut self, error: &NodeError, now: Instant) {
        if self.is_replacement_reported {
            return;
        }
        self.monitor.dialled(&self.node, Some(error));
        tracing::debug!(node = %self.node, %error, "node unreachable");
        if let Some(time) = self.outage.failed(now) {
            tracing::warn!(node = %self.node, %error, ?time, "node unreachable for a long time");
        }
        if error.is_refused_connection() {
            self.calls_refused(error, now);
        }
        self.violation(error, now);
    }

    /// Reports the answers to a call, of which `error` is the first error by which the server refuses calls. The log
    /// has one warning for each reason that lasts for [`LONG_REFUSAL`].
    pub(super) fn answered(&mut self, error: Option<&NodeError>, now: Instant) {
        match error {
            Some(error) => self.calls_refused(error, now),
            None => self.refused_calls.accepted(),
        }
    }

    /// Reports that the node was replaced by the server at this address: once, because the node never votes again.
    pub(super) fn replaced(&mut self, new: &str) {
        if !std::mem::replace(&mut self.is_replacement_reported, true) {
            let new = Printable(new);
            tracing::warn!(node = %self.node, %new, "node was replaced: restart with the new list of nodes");
        }
    }

    fn calls_refused(&mut self, error: &NodeError, now: Instant) {
        if self.refused_calls.must_log(error, now) {
            tracing::warn!(node = %self.node, %error, "node refuses calls");
        }
    }

    /// Reports the number of answers whose callers no longer wait.
    pub(super) fn answered_late(&self, answers: usize) {
        if answers > 0 {
            self.monitor.answered_late(&self.node, u64::try_from(answers).unwrap_or(u64::MAX));
        }
    }

    /// Reports a new connection.
    pub(super) fn connected(&mut self, connection: &Registered, now: Instant) {
        self.monitor.dialled(&self.node, None);
        self.monitor.connected(&self.node, self.connections > 0);
        if let Some(before) = self.last.unseen_change(connection, now) {
            tracing::warn!(
                node = %self.node, incarnation = ?connection.incarnation(), ?before,
                "another server answers at a node's address without a quarantine: does the name lead to \
                 several servers?"
            );
        }
        if self.outage.ended() {
            tracing::warn!(node = %self.node, "node reachable again");
        }
        self.is_connected = true;
        self.connections += 1;
        self.refusals = LoggedRefusals::default();
        self.registered(connection);
    }

    /// Reports a registration, if the client registers.
    pub(super) fn registered(&self, connection: &Registered) {
        if let Some(is_quarantined) = connection.is_quarantined() {
            self.monitor.registered(&self.node, is_quarantined);
        }
    }

    /// Reports that the node refused a command of notices: to the log once for each connection and reason.
    pub(super) fn notice_refused(&mut self, command: NoticeCommand, error: &NodeError) {
        self.monitor.notice_refused(&self.node, command);
        if self.refusals.must_log(command, error) {
            match command {
                NoticeCommand::Publish | NoticeCommand::Subscribe => tracing::warn!(
                    node = %self.node, command = command.name(), %error,
                    "node refuses notices: waiters poll"
                ),
                // The node goes on sending the notices, which the client ignores.
                NoticeCommand::Unsubscribe => tracing::warn!(
                    node = %self.node, command = command.name(), %error,
                    "node refuses the end of subscriptions: its channels pile up"
                ),
            }
        }
    }

    /// Reports that the connection to this incarnation is broken.
    pub(super) fn broken(&mut self, incarnation: Option<Incarnation>, error: &NodeError, now: Instant) {
        self.last.seen = incarnation.map(|incarnation| (incarnation, now));
        tracing::debug!(node = %self.node, %error, "connection to a node broken");
        self.outage.failed(now);
        self.violation(error, now);
        self.disconnected();
    }

    /// Reports that the server, or a machine before it, closed a connection that was idle for this time.
    pub(super) fn closed_idle(&mut self, idle: Duration) {
        if self.idle_closes.must_log(idle) {
            tracing::warn!(
                node = %self.node, ?idle,
                "idle connections are closed: set `timeout 0` on the server, or look for a limit of a proxy or firewall"
            );
        }
    }

    /// Reports the number of requests that must be delivered, if it has changed.
    pub(super) fn undelivered(&mut self, undelivered: usize) {
        let before = std::mem::replace(&mut self.undelivered, undelivered);
        if undelivered != before {
            let count = |undelivered| i64::try_from(undelivered).unwrap_or(i64::MAX);
            self.monitor.undelivered_changed(&self.node, count(undelivered) - count(before));
        }
    }

    /// Reports the age of the oldest call without an answer, if it has changed by whole seconds.
    pub(super) fn oldest_call(&mut self, age: Duration) {
        let age = Duration::from_secs(age.as_secs());
        if std::mem::replace(&mut self.oldest_call, age) != age {
            self.monitor.oldest_call_changed(&self.node, age);
        }
    }

    /// Reports that the task has ended.
    pub(super) fn ended(&mut self) {
        self.disconnected();
        self.oldest_call(Duration::ZERO);
        self.undelivered(0);
    }

    fn disconnected(&mut self) {
        if std::mem::take(&mut self.is_connected) {
            self.monitor.disconnected(&self.node);
        }
    }

    fn violation(&mut self, error: &NodeError, now: Instant) {
        if error.is_violation() && self.violations.is_due(now) {
            tracing::warn!(node = %self.node, %error, "protocol violation by a node");
        }
    }
}

impl LoggedRefusals {
    /// Records a refusal. Returns whether to log it: each reason once, and [`MAX_REASONS`] at most.
    fn must_log(&mut self, command: NoticeCommand, error: &NodeError) -> bool {
        self.0.len() < MAX_REASONS && self.0.insert((command, error.to_string()))
    }
}

impl LoggedViolations {
    /// Records a violation. Returns whether to log it as a warning.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.0.is_none_or(|last| now >= last + VIOLATION_INTERVAL);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

impl IdleCloses {
    /// Records the end of a connection after this idle time. Returns whether to log a limit of idle times: once, when a
    /// second connection ends after a similar time.
    fn must_log(&mut self, idle: Duration) -> bool {
        if idle < MIN_IDLE {
            return false;
        }
        let is_limit = self.last.replace(idle).is_some_and(|last| last.abs_diff(idle) <= MAX_IDLE_DIFFERENCE);
        is_limit && !std::mem::replace(&mut self.is_reported, is_limit)
    }
}

impl RefusedCalls {
    /// Records a refusal. Returns whether to log the refusal, because its reason has lasted for [`LONG_REFUSAL`] and is
    /// not logged yet.
    fn must_log(&mut self, error: &NodeError, now: Instant) -> bool {
        let kind = discriminant(error);
        let Some(reason) = self.0.iter_mut().find(|reason| reason.kind == kind) else {
            let is_partial = matches!(error, NodeError::NoPermission(_));
            self.0.push(RefusalReason { kind, since: now, is_reported: false, is_partial });
            return false;
        };
        let is_long = now.saturating_duration_since(reason.since) >= LONG_REFUSAL;
        is_long && !std::mem::replace(&mut reason.is_reported, is_long)
    }

    /// Records that the node has executed a call.
    fn accepted(&mut self) {
        self.0.retain(|reason| reason.is_partial);
    }
}

impl Outage {
    /// Records a failure. Returns the time without a connection if the outage is long and not reported yet.
    fn failed(&mut self, now: Instant) -> Option<Duration> {
        let time = now.saturating_duration_since(*self.since.get_or_insert(now));
        let is_due = time >= LONG_OUTAGE && !std::mem::replace(&mut self.is_reported, time >= LONG_OUTAGE);
        is_due.then_some(time)
    }

    /// Records a connection. Returns whether an outage was reported.
    fn ended(&mut self) -> bool {
        std::mem::take(self).is_reported
    }
}

impl LastIncarnation {
    /// Returns the incarnation of the last connection if votes may have been lost without a quarantine: the present
    /// connection leads to another incarnation that is not in quarantine, and a quarantine that began after the last
    /// connection would not have ended yet.
    ///
    /// The time limit is half a quarantine, because the driver may have detected the end of the last connection late.
    /// If the client admits or ignores new nodes, the result is `None`, because no quarantine would have begun.
    fn unseen_change(&self, connection: &Registered, now: Instant) -> Option<&Incarnation> {
        let (before, since) = self.seen.as_ref()?;
        let is_other = connection.incarnation().is_some_and(|incarnation| incarnation != before)
            && connection.is_quarantined() == Some(false);
        (is_other && now < *since + self.quarantine? / 2).then_some(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_notices_is_logged_once_for_each_reason() {
        let (no_channel, no_command) = (NodeError::NoPermission("a".into()), NodeError::Server("b".into()));
        let mut logged = LoggedRefusals::default();
        assert!(logged.must_log(NoticeCommand::Publish, &no_channel));
        assert!(!logged.must_log(NoticeCommand::Publish, &no_channel));
        assert!(logged.must_log(NoticeCommand::Subscribe, &no_channel));
        assert!(logged.must_log(NoticeCommand::Publish, &no_command));
        assert!(!logged.must_log(NoticeCommand::Subscribe, &no_channel));
    }

    /// A server may put the name of a channel into the error text, and each resource has a channel.
    #[test]
    fn a_connection_logs_a_limited_number_of_reasons() {
        let mut logged = LoggedRefusals::default();
        let errors = (0..1_000).map(|number| NodeError::NoPermission(number.to_string().into()));
        let count = errors.filter(|error| logged.must_log(NoticeCommand::Publish, error)).count();
        assert_eq!(count, MAX_REASONS);
    }

    #[test]
    fn violations_are_logged_at_most_every_half_minute() {
        let mut violations = LoggedViolations::default();
        let logged =
            (0..100).filter(|second| violations.is_due(Instant::from_origin(Duration::from_secs(*second))));
        assert_eq!(logged.collect::<Vec<_>>(), [0, 30, 60, 90]);
    }

    #[test]
    fn a_reason_that_lasts_for_a_second_is_logged_once() {
        let at = |millis| Instant::from_origin(Duration::from_millis(millis));
        let mut refused = RefusedCalls::default();
        assert!(!refused.must_log(&NodeError::CannotPersist, at(0)));
        assert!(!refused.must_log(&NodeError::CannotPersist, at(999)));
        assert!(refused.must_log(&NodeError::CannotPersist, at(1000)));
        assert!(!refused.must_log(&NodeError::CannotPersist, at(9000)));
        assert!(!refused.must_log(&NodeError::ReadOnly, at(9000)), "another reason begins");
        assert!(refused.must_log(&NodeError::ReadOnly, at(10_000)));
        refused.accepted();
        assert!(
            !refused.must_log(&NodeError::ReadOnly, at(20_000)),
            "the node has executed calls in between"
        );
        let missing = |text: &str| NodeError::NoPermission(text.into());
        assert!(!refused.must_log(&missing("a"), at(20_000)));
        refused.accepted();
        assert!(refused.must_log(&missing("b"), at(21_000)), "other commands are permitted");
    }

    #[test]
    fn a_limit_of_idle_times_is_logged_once() {
        let mut closes = IdleCloses::default();
        let logged = [0.5, 0.5, 300.0, 20.0, 300.4, 301.0, 300.0]
            .map(|idle| closes.must_log(Duration::from_secs_f64(idle)));
        assert_eq!(logged, [false, false, false, false, false, true, false]);
    }

    #[test]
    fn a_long_outage_and_its_end_are_each_reported_once() {
        let mut outage = Outage::default();
        let at = |seconds| Instant::from_origin(Duration::from_secs(seconds));
        assert!(!outage.ended(), "the first connection ends no outage");
        for seconds in [0, 1, 59] {
            assert_eq!(outage.failed(at(seconds)), None, "{seconds}");
        }
        assert_eq!(outage.failed(at(60)), Some(Duration::from_secs(60)));
        assert_eq!(outage.failed(at(3600)), None);
        assert!(outage.ended());
        assert_eq!(outage.failed(at(3700)), None, "a short outage follows");
        assert!(!outage.ended());
    }
}
