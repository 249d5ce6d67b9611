//! Inspect in the pure node: the state of one resource, and on request its details.

use std::sync::Arc;

use crate::{
    node::{
        operation::{Answer, HolderInfo, Inspect, InspectAnswer, InspectDetails, LatchInfo},
        parameters::QuorumParameters,
        state::{NodeState, NodeTime},
    },
    values::Arrivals,
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
        let shown = readers.into_iter().take(inspect.max_readers as usize);
        Ok(Answer::Inspected(InspectAnswer {
            held,
            counter: counters.largest,
            incarnation: Some(Arc::clone(&self.incarnation)),
            fingerprint: self.metadata().map(|metadata| metadata.fingerprint.clone()),
            abstention: self.abstention(parameters, now),
            readers: shown.map(|(end, lease_id)| (lease_id, end.remaining(now))).collect(),
            details: (inspect.max_details > 0).then(|| Box::new(self.details(inspect, now))),
        }))
    }

    fn details(&self, inspect: &Inspect, now: NodeTime) -> InspectDetails {
        let Inspect { resource, max_details, .. } = inspect;
        let queue = self.wait_queue(resource, now);
        let entries = queue.map(|queue| &queue.entries[..]).unwrap_or_default();
        let waiters = entries.iter().filter(|entry| !entry.ends.is_past(now)).count();
        let live = entries.iter().filter(|entry| !entry.ends.is_past(now));
        let first = live.take(*max_details as usize);
        let holder = self.held(resource, now).map(|held| &held.lease_id);
        let leader = self.leader(resource, now).map(|leader| &leader.proclamation.lease_id);
        let latch = self.latches.get(resource).filter(|record| !record.expires_at.is_past(now));
        InspectDetails {
            waiters: u32::try_from(waiters).unwrap_or(u32::MAX),
            queue: first.map(|entry| entry.waiter.clone()).collect(),
            leads: holder.is_some() && holder == leader,
            latch: latch.map(|record| {
                let arrived = u32::try_from(record.arrivals.len()).unwrap_or(u32::MAX);
                let are_shown = arrived <= *max_details;
                LatchInfo {
                    count: record.count,
                    is_open: record.is_open,
                    arrived,
                    arrivals: if are_shown { record.arrivals.clone() } else { Arrivals::new() },
                    remaining: record.expires_at.remaining(now),
                }
            }),
        }
    }
}
