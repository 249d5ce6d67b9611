//! Latch in the pure node: records arrivals.

use crate::{
    node::{
        names,
        operation::{Answer, Latch},
        state::{NodeState, NodeTime, Subscribers},
    },
    values::Arrivals,
};

/// The record of a latch on one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LatchRecord {
    pub(crate) count: u32,
    pub(crate) is_open: bool,
    pub(crate) arrivals: Arrivals,
    pub(crate) expires_at: NodeTime,
}

impl NodeState {
    /// Merges the arrivals of a client. A node never removes an arrival, unless the node loses all its data.
    pub(super) fn latch(
        &mut self,
        update: &Latch,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Answer {
        self.latches.retain(|_, record| !record.expires_at.is_past(now));
        if let Some(record) = self.latches.get(&update.latch).filter(|record| record.count != update.count) {
            return Answer::CountMismatch(record.count);
        }
        let expires_at = now + update.ttl;
        if let Some(record) = self.latches.get_mut(&update.latch) {
            // No client shortens the time for which the node keeps the latch.
            record.expires_at = record.expires_at.max(expires_at);
        }
        if update.has_news() {
            let Latch { count, .. } = *update;
            let record = self.latches.entry(update.latch.clone()).or_insert_with(|| LatchRecord {
                count,
                is_open: false,
                arrivals: Arrivals::new(),
                expires_at,
            });
            if !record.is_open {
                record.arrivals.extend(update.arrivals.iter().cloned());
                record.is_open = update.is_open || record.arrivals.len() >= count as usize;
                if record.is_open {
                    subscribers.publish(names::latch(&update.latch));
                }
            }
        }
        match self.latches.get(&update.latch) {
            Some(record) if record.is_open => Answer::Open,
            Some(record) => Answer::Arrived(record.arrivals.clone()),
            None => Answer::Arrived(Arrivals::new()),
        }
    }

    /// Returns the record of a latch, unless it has expired.
    #[cfg(test)]
    pub(crate) fn latch_record(
        &self,
        latch: &crate::values::Resource,
        now: NodeTime,
    ) -> Option<&LatchRecord> {
        self.latches.get(latch).filter(|record| !record.expires_at.is_past(now))
    }
}
