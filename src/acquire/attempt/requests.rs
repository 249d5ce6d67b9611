//! The requests of an attempt.

use crate::{
    acquire::checked_request::CheckedRequest,
    client::context::ClientContext,
    clock::Instant,
    node::{Answer, Downgrade, Holder, Lock, Operation, Request, Tombstone, Unlock, WriteBack},
    values::{LeaseId, NodeReply, Refusal},
};

/// The constant parts of the requests of one attempt, such as resources and lease id.
#[derive(Debug)]
pub(super) struct AttemptRequests<'a> {
    pub(super) checked: &'a CheckedRequest,
    /// The lease id of this attempt alone.
    pub(super) owner: LeaseId,
    /// A vote larger than every counter in the answers to earlier attempts; 0 without such answers.
    pub(super) hint: u64,
    /// The write lease that a downgrade turns into a read lease.
    pub(super) writer: Option<LeaseId>,
    /// Whether the client makes no further attempt after a refusal.
    pub(super) gives_up: bool,
}

impl<'a> AttemptRequests<'a> {
    pub(super) fn new(context: &ClientContext, checked: &'a CheckedRequest) -> Self {
        Self { checked, owner: context.owners.fresh(), hint: 0, writer: None, gives_up: false }
    }

    pub(super) fn lock(&self, has_turn: bool) -> Lock {
        Lock {
            resources: self.checked.resources.clone(),
            owner: self.owner.clone(),
            ttl: self.checked.settings.attempt.ttl,
            hint: self.hint,
            has_turn,
            gives_up: self.gives_up,
        }
    }

    /// Returns the operation that locks: a downgrade, if there is a write lease.
    pub(super) fn lock_operation(&self, has_turn: bool) -> Operation {
        let lock = self.lock(has_turn);
        match self.writer.clone() {
            Some(writer) => Operation::Downgrade(Downgrade { lock, writer }),
            None => Operation::Lock(lock),
        }
    }

    pub(super) fn write_back(&self, token: u64) -> Operation {
        let (resources, owner) = (self.checked.resources.clone(), self.owner.clone());
        Operation::WriteBack(WriteBack { resources, owner, token })
    }

    /// Returns the unlock of a rollback, which wakes no waiter.
    pub(super) fn unlock(&self, tombstone: Tombstone) -> Operation {
        let (resources, owner) = (self.checked.resources.clone(), self.owner.clone());
        Operation::Unlock(Unlock { resources, owner, notify: false, tombstone, has_waiters: false })
    }

    /// Returns a request that the node may answer within a node timeout.
    pub(super) fn request(&self, operation: Operation, now: Instant) -> Request {
        Request::one(operation, now + self.checked.settings.attempt.node_timeout)
    }

    /// Returns the reply that an answer counts as. If a client that shares the resource receives a refusal that names
    /// readers, the reply is a deferral in favour of a writer, because readers do not exclude each other.
    pub(super) fn reply(&self, answer: &Answer) -> NodeReply {
        match answer {
            Answer::Held(Holder { resource, owner: Some(owner), .. })
                if owner.is_of_readers() && self.checked.resources.is_shared(*resource) =>
            {
                NodeReply::Refused(Refusal::Deferred)
            }
            answer => NodeReply::from(answer),
        }
    }
}
