//! The requests of one attempt. The driver of the attempt sends the requests.

use crate::{
    acquire::checked_request::CheckedRequest,
    client::context::ClientContext,
    clock::Instant,
    node::{Answer, Holder, Lock, Operation, Request, Tombstone, Transfer, Unlock, WriteBack},
    values::{LeaseId, NodeReply, Refusal},
};

/// The constant parts of the requests of one attempt, such as resources and lease id.
#[derive(Debug)]
pub(super) struct AttemptRequests<'a> {
    pub(super) checked: &'a CheckedRequest,
    /// The lease id of the attempt. No other attempt has this id.
    pub(super) lease_id: LeaseId,
    /// A number above every counter that earlier attempts of the call's queue have recorded; 0 without counters. A node
    /// votes above its counter and, within an hour of the node's time, not below this number.
    pub(super) hint: u64,
    /// The write lease that a downgrade turns into a read lease; `None` for any other attempt.
    pub(super) writer: Option<LeaseId>,
    /// Whether the attempt enters no wait queue after a refusal. If so, nodes set no marks in favour of the client.
    pub(super) will_not_wait: bool,
}

impl<'a> AttemptRequests<'a> {
    pub(super) fn new(context: &ClientContext, checked: &'a CheckedRequest) -> Self {
        Self { checked, lease_id: context.lease_ids.fresh(), hint: 0, writer: None, will_not_wait: false }
    }

    pub(super) fn lock(&self, ignores_queue: bool) -> Lock {
        Lock {
            resources: self.checked.resources.clone(),
            lease_id: self.lease_id.clone(),
            ttl: self.checked.settings.attempt.ttl,
            hint: self.hint,
            ignores_queue,
            will_not_wait: self.will_not_wait,
        }
    }

    /// Returns the lock; for a downgrade, the operation that also ends the write lease.
    pub(super) fn lock_operation(&self, ignores_queue: bool) -> Operation {
        let lock = self.lock(ignores_queue);
        match self.writer.clone() {
            Some(writer) => Operation::Transfer(Transfer { lock, from: writer, proof: None }),
            None => Operation::Lock(lock),
        }
    }

    pub(super) fn write_back(&self, token: u64) -> Operation {
        let (resources, lease_id) = (self.checked.resources.clone(), self.lease_id.clone());
        Operation::WriteBack(WriteBack { resources, lease_id, token })
    }

    /// Returns the unlock of a rollback, for which the node publishes no release notice.
    pub(super) fn unlock(&self, tombstone: Tombstone) -> Operation {
        let (resources, lease_id) = (self.checked.resources.clone(), self.lease_id.clone());
        Operation::Unlock(Unlock {
            resources,
            lease_id,
            notify: false,
            tombstone,
            has_waiters: false,
            rest: None,
        })
    }

    /// Returns a request of one operation. The deadline of the request is a node timeout after `now`.
    pub(super) fn request(&self, operation: Operation, now: Instant) -> Request {
        Request::one(operation, now + self.checked.settings.attempt.node_timeout)
    }

    /// Returns the reply that an answer counts as. A refusal of a reader that names readers counts as a deferral.
    /// Readers do not exclude each other, so the node has refused in favour of a writer.
    pub(super) fn reply(&self, answer: &Answer) -> NodeReply {
        match answer {
            Answer::Held(Holder { resource, lease_id: Some(lease_id), .. })
                if lease_id.is_of_readers() && self.checked.resources.is_shared(*resource) =>
            {
                NodeReply::Refused(Refusal::Deferred)
            }
            answer => NodeReply::from(answer),
        }
    }
}
