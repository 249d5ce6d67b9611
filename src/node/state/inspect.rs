//! Inspect in the pure node: the state of one resource.

use std::sync::Arc;

use crate::node::{
    operation::{Answer, HolderInfo, Inspect, InspectAnswer, WaitersInfo},
    parameters::QuorumParameters,
    state::{NodeState, NodeTime},
};

impl NodeState {
    pub(super) fn inspect(
        &self,
        parameters: &QuorumParameters,
        inspect: &Inspect,
        now: NodeTime,
    ) -> Result<Answer, Answer> {
        let counters = self.counters(std::slice::from_ref(&inspect.resource), now)?;
        let readers = self.live_readers(&inspect.resource, now);
        let held = self.held(&inspect.resource, now).map(|held| HolderInfo {
            lease_id: Some(held.lease_id.clone()),
            holds: u32::try_from(readers.len()).unwrap_or(u32::MAX).max(held.holds),
            remaining: Some(held.expires_at.remaining(now)),
        });
        let queue = self.wait_queue(&inspect.resource, now);
        let entries = queue.map(|queue| &queue.entries[..]).unwrap_or_default();
        let waiters = entries.iter().filter(|entry| !entry.ends.is_past(now)).count();
        let count = u32::try_from(waiters).unwrap_or(u32::MAX);
        let first = entries.first().filter(|_| waiters > 0);
        let shown = readers.into_iter().take(inspect.max_readers as usize);
        Ok(Answer::Inspected(InspectAnswer {
            held,
            counter: counters.largest,
            incarnation: Some(Arc::clone(&self.incarnation)),
            fingerprint: self.metadata().map(|metadata| metadata.fingerprint.clone()),
            abstention: self.abstention(parameters, now),
            readers: shown.map(|(end, lease_id)| (lease_id, end.remaining(now))).collect(),
            waiters: first.map(|entry| Box::new(WaitersInfo { count, first: entry.waiter.clone() })),
        }))
    }
}
