//! What tests of the layers above want to see and do.

use crate::{
    mutex,
    node::{memory::MemoryServer, state::NodeState},
    resource::Resource,
};

impl MemoryServer {
    /// The resources that are locked here now.
    pub(crate) fn locks(&self) -> Vec<Resource> {
        let now = self.now();
        mutex::lock(&self.memory).state.locks(now)
    }

    /// How many holds a resource has here.
    pub(crate) fn holds(&self, resource: &str) -> Option<u32> {
        let resource = Resource::new(resource).ok()?;
        let now = self.now();
        mutex::lock(&self.memory).state.held(&resource, now).map(|held| held.holds)
    }

    /// Loses all data, as a restart without persistence does.
    pub(crate) fn forget(&self) {
        mutex::lock(&self.memory).state = NodeState::new("another run");
    }

    /// How many listeners are subscribed.
    pub(crate) fn subscriptions(&self) -> usize {
        self.listeners.count()
    }
}
