//! The monitor of connections.

use std::{fmt, sync::Arc, time::Duration};

use crate::{node::transport::NoticeCommand, values::NodeError};

/// A receiver of the events of connections. The tasks that own the connections call its methods.
pub(crate) trait Monitor: fmt::Debug + Send + Sync {
    /// Handles the creation of the task that dials a node, before the first dial.
    fn dials(&self, _node: &Arc<str>) {}

    /// Handles the end of a dial, with its error unless the dial has succeeded.
    fn dialled(&self, _node: &Arc<str>, _error: Option<&NodeError>) {}

    /// Handles a new connection. `again` is whether the node was connected before.
    fn connected(&self, _node: &Arc<str>, _again: bool) {}

    /// Handles the end of a connection.
    fn disconnected(&self, _node: &Arc<str>) {}

    /// Handles a registration, with whether the node is in quarantine.
    fn registered(&self, _node: &Arc<str>, _is_quarantined: bool) {}

    /// Handles a notice that the node did not publish, or a subscription that the node did not change.
    fn notice_refused(&self, _node: &Arc<str>, _command: NoticeCommand) {}

    /// Handles answers to locks, write-backs and renewals whose callers no longer wait.
    fn answered_late(&self, _node: &Arc<str>, _answers: u64) {}

    /// Handles a change of the age of the oldest call without an answer, in whole seconds; zero if there is none.
    fn oldest_call_changed(&self, _node: &Arc<str>, _age: Duration) {}

    /// Handles a change of the number of requests that must be delivered to the node.
    fn undelivered_changed(&self, _node: &Arc<str>, _change: i64) {}
}

/// A monitor that ignores every event.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct NoMonitor;

#[cfg(test)]
impl Monitor for NoMonitor {}
