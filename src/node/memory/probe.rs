//! Access to in-memory servers for tests of the layers above.

use std::time::Duration;

use crate::{
    mutex,
    node::{memory::MemoryServer, state::HeldKey},
    values::{LeaseId, Resource},
};

impl MemoryServer {
    /// Returns the locked resources.
    pub(crate) fn locks(&self) -> Vec<Resource> {
        let now = self.now();
        mutex::lock(&self.memory).state.locks(now)
    }

    /// Returns the number of holds of a resource; `None` if no lease holds the resource.
    pub(crate) fn holds(&self, resource: &str) -> Option<u32> {
        let resource = Resource::new(resource).ok()?;
        let now = self.now();
        mutex::lock(&self.memory).state.held(&resource, now).map(|held| held.holds)
    }

    /// Returns the number of waiters for a resource.
    pub(crate) fn waiters(&self, resource: &str) -> usize {
        let now = self.now();
        let memory = mutex::lock(&self.memory);
        let queue = Resource::new(resource).ok().and_then(|resource| memory.state.wait_queue(&resource, now));
        queue.map_or(0, |queue| queue.entries().len())
    }

    /// Whether the server has a proclamation of this election.
    pub(crate) fn has_leader(&self, election: &str) -> bool {
        let now = self.now();
        let memory = mutex::lock(&self.memory);
        Resource::new(election).is_ok_and(|election| memory.state.leader(&election, now).is_some())
    }

    /// Writes a lock of `lease_id` with this ttl.
    pub(crate) fn hold(&self, resource: &str, lease_id: &str, ttl: Duration) {
        let resource = Resource::internal(resource.as_bytes());
        let held = HeldKey {
            lease_id: LeaseId::from_wire(lease_id.as_bytes()),
            holds: 1,
            expires_at: self.now() + ttl,
        };
        mutex::lock(&self.memory).state.set_lock(&resource, Some(held));
    }

    /// Deletes all data, as a flush does.
    pub(crate) fn forget(&self) {
        mutex::lock(&self.memory).state.flush();
    }

    /// Returns the number of subscribed listeners.
    pub(crate) fn subscriptions(&self) -> usize {
        self.listeners.count()
    }
}
