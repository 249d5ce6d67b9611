//! The requests of a client to one node.

use std::sync::Arc;

use crate::{
    clock::Instant,
    node::operation::{AnswerSize, MAX_VALUE_BYTES, Operation, Resources},
};

/// The maximum number of operations in one call, so that no call keeps a server busy for more than a few
/// milliseconds.
pub(crate) const MAX_OPERATIONS: usize = 64;

/// The maximum number of resources in one call, so that no call keeps a server busy for more than a few
/// milliseconds. A server needs 10 to 30 microseconds for each resource.
pub(crate) const MAX_RESOURCES: usize = 256;

/// The maximum size of all answers to one call, beyond that of ordinary answers. A client reserves that much memory for
/// every node, because a node that floods the client sends as much as the client expects. Four leaders with the longest
/// values need this number of bytes.
pub(crate) const MAX_ANSWERS: AnswerSize =
    AnswerSize { bytes: 4 * (MAX_VALUE_BYTES + 1024), values: 4 * 1024 };

/// The maximum number of resources of one lock.
///
/// The number exceeds [`MAX_RESOURCES`], so a large lock has a call of its own. The number is so small that each node
/// executes the lock in a small part of a node timeout.
pub(crate) const MAX_GROUP_SIZE: usize = 1000;

/// The size of a call that is being composed.
#[derive(Debug, Default)]
pub(crate) struct RequestSize {
    operations: usize,
    resources: usize,
    answers: AnswerSize,
}

impl RequestSize {
    /// Adds the operations of a request if all of them fit into the call, and returns whether they fit. The first
    /// request always fits.
    pub(crate) fn try_add(&mut self, operations: usize, resources: usize, answers: AnswerSize) -> bool {
        let extended = Self {
            operations: self.operations + operations,
            resources: self.resources + resources,
            answers: self.answers + answers,
        };
        let fits = self.operations == 0
            || (extended.operations <= MAX_OPERATIONS
                && extended.resources <= MAX_RESOURCES
                && extended.answers.fits(MAX_ANSWERS));
        if fits {
            *self = extended;
        }
        fits
    }
}

/// Operations for one node, which are executed in order, each with its own answer.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The operations: at least one, and at most [`MAX_OPERATIONS`]. All nodes that get the same request share them.
    pub(crate) operations: Arc<[Operation]>,
    /// The expiry of the request, at which an unsent request is dropped. An unlock is kept over reconnections until
    /// then.
    pub(crate) until: Instant,
    /// The latest expiry of the keys that an unlock deletes. If no quorum has confirmed the unlock, a shutdown waits
    /// until then. `None` if no shutdown has to wait.
    pub(crate) blocks_until: Option<Instant>,
}

/// The unconfirmed unlocks and withdrawals of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingUnlocks {
    pub(crate) resources: Resources,
    /// The same as in the [`Request`].
    pub(crate) blocks_until: Option<Instant>,
}

impl Request {
    pub(crate) fn one(operation: Operation, until: Instant) -> Self {
        Self::new([operation], until)
    }

    pub(crate) fn new(operations: impl Into<Arc<[Operation]>>, until: Instant) -> Self {
        Self { operations: operations.into(), until, blocks_until: None }
    }

    /// Sets the latest expiry of the keys that an unlock deletes.
    #[must_use]
    pub(crate) fn blocks_until(self, end: Instant) -> Self {
        Self { blocks_until: Some(end), ..self }
    }
}
