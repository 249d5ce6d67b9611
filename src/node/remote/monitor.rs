//! Who is told how a node is connected.

use std::{fmt, sync::Arc};

/// Is told, by the task that owns the connection to a node, what becomes of that.
pub(crate) trait Monitor: fmt::Debug + Send + Sync {
    /// A client begins to connect.
    fn dials(&self, _node: &Arc<str>) {}

    /// There is a connection, again or for the first time.
    fn connected(&self, _node: &Arc<str>, _again: bool) {}

    /// There is none any more.
    fn disconnected(&self, _node: &Arc<str>) {}

    /// The node has registered: whether it is in quarantine.
    fn registered(&self, _node: &Arc<str>, _is_quarantined: bool) {}

    /// What must be delivered to the node has become more, or less, by so much.
    fn undelivered_changed(&self, _node: &Arc<str>, _change: i64) {}
}

/// A monitor that records nothing.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct NoMonitor;

#[cfg(test)]
impl Monitor for NoMonitor {}
