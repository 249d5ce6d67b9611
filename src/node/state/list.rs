//! List in the pure node: the held resources and the latches.

use crate::node::{
    names,
    operation::{Answer, ListPage},
    state::{NodeState, NodeTime},
};

impl NodeState {
    /// Returns the resources that leases of this library hold, and the keys of latches, as one page. On a server, a list
    /// has several pages, so that other requests are executed in between.
    pub(super) fn list(&self, now: NodeTime) -> Answer {
        let held = self.locks.iter().filter(|(_, held)| !held.expires_at.is_past(now));
        let locks = held.filter(|(_, held)| held.holds > 0 || held.lease_id.is_of_readers());
        let ours = locks.filter(|(_, held)| held.lease_id.is_of_readers() || held.lease_id.is_of_a_lock());
        let latches = self.latches.iter().filter(|(_, record)| !record.expires_at.is_past(now));
        let latches = latches.map(|(latch, _)| names::latch(latch));
        Answer::Listed(ListPage {
            cursor: 0,
            resources: ours.map(|(resource, _)| resource.clone()).chain(latches).collect(),
        })
    }
}
