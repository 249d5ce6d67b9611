//! What the driver tells the log and its monitor.

use super::Driver;
use crate::{
    node::{Incarnation, NewNodes, remote::registration::Registered},
    values::NodeError,
};

impl Driver {
    pub(super) fn tell_violation(&self, error: &NodeError) {
        if error.is_violation() {
            tracing::warn!(node = %self.address, %error, "a node has sent what it must not");
        }
    }

    pub(super) fn tell_connected(&mut self, connection: &Registered) {
        self.monitor.connected(&self.address, self.connections > 0);
        if let Some(before) = self.unseen_change(connection) {
            tracing::warn!(
                node = %self.address, incarnation = ?connection.incarnation, ?before,
                "another server answers at a node's address, and is in no quarantine: does its name \
                 lead to several servers?"
            );
        }
        self.is_connected = true;
        self.connections += 1;
        self.tell_registered(connection);
    }

    /// The incarnation of the connection before, if this one leads to another although no
    /// quarantine can have come and gone meanwhile: a server that was restarted would be in it.
    /// Half of its time, as the break may have been noticed late. Where new nodes are admitted, or
    /// left alone, no quarantine would have begun.
    fn unseen_change(&self, connection: &Registered) -> Option<&Incarnation> {
        if self.registers != Some(NewNodes::Quarantine) {
            return None;
        }
        let (before, since) = self.last.as_ref()?;
        let is_other = connection.incarnation.as_ref().is_some_and(|incarnation| incarnation != before)
            && connection.is_quarantined == Some(false);
        (is_other && self.clock.now() < *since + self.quarantine / 2).then_some(before)
    }

    pub(super) fn tell_registered(&self, connection: &Registered) {
        if let Some(is_quarantined) = connection.is_quarantined {
            self.monitor.registered(&self.address, is_quarantined);
        }
    }

    pub(super) fn tell_disconnected(&mut self) {
        if std::mem::take(&mut self.is_connected) {
            self.monitor.disconnected(&self.address);
        }
    }

    pub(super) fn tell_undelivered(&mut self, undelivered: usize) {
        let before = std::mem::replace(&mut self.undelivered, undelivered);
        if undelivered != before {
            let count = |undelivered| i64::try_from(undelivered).unwrap_or(i64::MAX);
            self.monitor.undelivered_changed(&self.address, count(undelivered) - count(before));
        }
    }
}
