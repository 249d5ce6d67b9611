//! Count permits in the pure node: records the number of permits of a semaphore.

use crate::node::{
    operation::{Answer, CountPermits},
    state::{NodeState, NodeTime},
};

/// The number of permits that the last client has counted for a semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PermitCount {
    pub(crate) permits: u32,
    pub(crate) expires_at: NodeTime,
}

impl NodeState {
    pub(super) fn count_permits(&mut self, count: &CountPermits, now: NodeTime) -> Answer {
        let CountPermits { semaphore, permits, ttl } = count;
        let before = self.permit_counts.get(semaphore).filter(|count| !count.expires_at.is_past(now));
        let before = before.map(|count| count.permits);
        let count = PermitCount { permits: *permits, expires_at: now + *ttl };
        self.permit_counts.insert(semaphore.clone(), count);
        Answer::PermitsCounted { before }
    }

    /// Returns the recorded number of permits of a semaphore, unless the record has expired.
    #[cfg(test)]
    pub(crate) fn permit_count(
        &self,
        semaphore: &crate::values::Resource,
        now: NodeTime,
    ) -> Option<PermitCount> {
        self.permit_counts.get(semaphore).copied().filter(|count| !count.expires_at.is_past(now))
    }
}
