//! What a client asks of one node in one call: some operations.

use std::sync::Arc;

use crate::{
    clock::Instant,
    node::operation::{Operation, Resources},
};

/// The most operations that travel in one call, so that no call keeps a server busy for more than a
/// few milliseconds.
pub(crate) const MAX_OPERATIONS: usize = 64;

/// The most resources that the operations of one call name, for the same reason: each takes a
/// server some 10 to 30 microseconds.
pub(crate) const MAX_RESOURCES: usize = 256;

/// The most resources that one lock names. More than travel together otherwise, so that it
/// travels alone; and few enough for each node to be done with it far within a node timeout.
pub(crate) const MAX_GROUP_SIZE: usize = 1000;

/// The size of a call that is being put together.
#[derive(Debug, Default)]
pub(crate) struct RequestSize {
    operations: usize,
    resources: usize,
}

impl RequestSize {
    /// Takes so much more if that fits into the call, as whatever is the first always does.
    pub(crate) fn take(&mut self, operations: usize, resources: usize) -> bool {
        let taken = Self { operations: self.operations + operations, resources: self.resources + resources };
        let fits =
            self.operations == 0 || (taken.operations <= MAX_OPERATIONS && taken.resources <= MAX_RESOURCES);
        if fits {
            *self = taken;
        }
        fits
    }
}

/// Some operations for one node, executed in order, each with its own answer.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Shared by all nodes that are asked the same. One to [`MAX_OPERATIONS`].
    pub(crate) operations: Arc<[Operation]>,
    /// Until when the request is of use. What is still unsent by then is dropped; an unlock must be
    /// delivered (kept over reconnections) until then.
    pub(crate) until: Instant,
    /// Until when that which an unlock deletes may be there without it, by its own ttl: a shutdown
    /// waits so long where a quorum is not free of it. `None` if no shutdown need wait.
    pub(crate) blocks_until: Option<Instant>,
}

/// The unlocks of one request that its node has not confirmed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingUnlocks {
    pub(crate) resources: Resources,
    /// As in the [`Request`].
    pub(crate) blocks_until: Option<Instant>,
}

impl Request {
    pub(crate) fn one(operation: Operation, until: Instant) -> Self {
        Self::new([operation], until)
    }

    pub(crate) fn new(operations: impl Into<Arc<[Operation]>>, until: Instant) -> Self {
        Self { operations: operations.into(), until, blocks_until: None }
    }

    /// For an unlock: when its keys are over without it.
    #[must_use]
    pub(crate) fn blocks_until(self, end: Instant) -> Self {
        Self { blocks_until: Some(end), ..self }
    }
}
