//! The reports about a connection, to the log and to the monitor.

use std::{sync::Arc, time::Duration};

use super::{ConnectionConfig, monitor::Monitor, registration::Registered};
use crate::{
    clock::Instant,
    node::{Incarnation, NewNodes},
    values::NodeError,
};

/// Reports the changes of one node's connection.
///
/// # Invariant
///
/// The monitor receives each connection and its end. The sum of the reported changes is the number of undelivered
/// requests. After the end of the task, the monitor has received the end of every connection, and the sum is 0.
#[derive(Debug)]
pub(super) struct ConnectionNotices {
    node: Arc<str>,
    monitor: Arc<dyn Monitor>,
    is_connected: bool,
    /// The number of connections until now.
    connections: u64,
    /// The number of undelivered requests that was reported last.
    undelivered: usize,
    last: LastIncarnation,
}

/// The incarnation of the last connection.
#[derive(Debug)]
struct LastIncarnation {
    /// The incarnation, and the time at which its connection broke.
    seen: Option<(Incarnation, Instant)>,
    /// The time for which a node that may have lost votes abstains, if this client lets new nodes begin a
    /// quarantine.
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
            last: LastIncarnation { seen: None, quarantine },
        }
    }

    /// Reports that a dial has failed.
    pub(super) fn unreachable(&self, error: &NodeError) {
        tracing::debug!(node = %self.node, %error, "node unreachable");
        self.violation(error);
    }

    pub(super) fn connected(&mut self, connection: &Registered, now: Instant) {
        self.monitor.connected(&self.node, self.connections > 0);
        if let Some(before) = self.last.unseen_change(connection, now) {
            tracing::warn!(
                node = %self.node, incarnation = ?connection.incarnation, ?before,
                "another server answers at a node's address without a quarantine: does the name lead to \
                 several servers?"
            );
        }
        self.is_connected = true;
        self.connections += 1;
        self.registered(connection);
    }

    pub(super) fn registered(&self, connection: &Registered) {
        if let Some(is_quarantined) = connection.is_quarantined {
            self.monitor.registered(&self.node, is_quarantined);
        }
    }

    /// Reports that the connection to this incarnation is broken.
    pub(super) fn broken(&mut self, incarnation: Option<Incarnation>, error: &NodeError, now: Instant) {
        self.last.seen = incarnation.map(|incarnation| (incarnation, now));
        tracing::debug!(node = %self.node, %error, "connection to a node broken");
        self.violation(error);
        self.disconnected();
    }

    /// Reports the number of requests that must be delivered, if it has changed.
    pub(super) fn undelivered(&mut self, undelivered: usize) {
        let before = std::mem::replace(&mut self.undelivered, undelivered);
        if undelivered != before {
            let count = |undelivered| i64::try_from(undelivered).unwrap_or(i64::MAX);
            self.monitor.undelivered_changed(&self.node, count(undelivered) - count(before));
        }
    }

    /// Reports that the task has ended.
    pub(super) fn ended(&mut self) {
        self.disconnected();
        self.undelivered(0);
    }

    fn disconnected(&mut self) {
        if std::mem::take(&mut self.is_connected) {
            self.monitor.disconnected(&self.node);
        }
    }

    fn violation(&self, error: &NodeError) {
        if error.is_violation() {
            tracing::warn!(node = %self.node, %error, "protocol violation by a node");
        }
    }
}

impl LastIncarnation {
    /// Returns the incarnation of the last connection if this connection leads to another incarnation that is not
    /// in quarantine, and no quarantine can have passed in between: votes may have been lost unnoticed, because a
    /// restarted server would be in quarantine. The time limit is half a quarantine, because the driver may have
    /// detected the break late. If the client admits or ignores new nodes, the result is `None`, because no
    /// quarantine would have begun.
    fn unseen_change(&self, connection: &Registered, now: Instant) -> Option<&Incarnation> {
        let (before, since) = self.seen.as_ref()?;
        let is_other = connection.incarnation.as_ref().is_some_and(|incarnation| incarnation != before)
            && connection.is_quarantined == Some(false);
        (is_other && now < *since + self.quarantine? / 2).then_some(before)
    }
}
