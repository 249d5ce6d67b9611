//! Latch: what a node keeps of those who have arrived.

use crate::{
    node::{
        names,
        operation::{Answer, Latch},
        state::{NodeState, NodeTime, Subscribers},
    },
    values::Arrivals,
};

/// What a node knows of a latch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LatchRecord {
    pub(crate) count: u32,
    pub(crate) is_open: bool,
    pub(crate) arrivals: Arrivals,
    pub(crate) expires_at: NodeTime,
}

impl NodeState {
    /// Nothing is ever taken back: a node knows more after it, unless it forgets all.
    pub(super) fn latch(&mut self, told: &Latch, now: NodeTime, subscribers: &mut Subscribers<'_>) -> Answer {
        self.latches.retain(|_, record| !record.expires_at.is_past(now));
        if let Some(record) = self.latches.get(&told.latch).filter(|record| record.count != told.count) {
            return Answer::CountMismatch(record.count);
        }
        let expires_at = now + told.ttl;
        if let Some(record) = self.latches.get_mut(&told.latch) {
            // Nobody makes it end sooner.
            record.expires_at = record.expires_at.max(expires_at);
        }
        if told.tells() {
            let Latch { count, .. } = *told;
            let record = self.latches.entry(told.latch.clone()).or_insert_with(|| LatchRecord {
                count,
                is_open: false,
                arrivals: Arrivals::new(),
                expires_at,
            });
            if !record.is_open {
                record.arrivals.extend(told.arrivals.iter().cloned());
                record.is_open = told.is_open || record.arrivals.len() >= count as usize;
                if record.is_open {
                    subscribers.publish(names::latch(&told.latch));
                }
            }
        }
        match self.latches.get(&told.latch) {
            Some(record) if record.is_open => Answer::Open,
            Some(record) => Answer::Arrived(record.arrivals.clone()),
            None => Answer::Arrived(Arrivals::new()),
        }
    }

    /// What is known of a latch, unless it is over.
    #[cfg(test)]
    pub(crate) fn latch_record(
        &self,
        latch: &crate::values::Resource,
        now: NodeTime,
    ) -> Option<&LatchRecord> {
        self.latches.get(latch).filter(|record| !record.expires_at.is_past(now))
    }
}
