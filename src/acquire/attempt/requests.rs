//! The requests of one attempt. The driver of the attempt sends the requests.

use crate::{
    acquire::checked_request::CheckedRequest,
    algorithm::attempt::AttemptConfig,
    client::context::ClientContext,
    clock::Instant,
    mutation::{self, Mutation},
    node::{Answer, Holder, Lock, Operation, Request, Tombstone, Transfer, Unlock, WriteBack},
    values::{FencingToken, LeaseId, NodeReply, Refusal},
};

/// The constant parts of the requests of one attempt, such as resources and lease id.
#[derive(Debug)]
pub(super) struct AttemptRequests<'a> {
    pub(super) checked: &'a CheckedRequest,
    /// The settings of the attempt, with the hedge of the lock.
    pub(super) config: AttemptConfig,
    /// The lease id of the attempt. No other attempt has this id.
    pub(super) lease_id: LeaseId,
    /// A number above every counter that earlier attempts of the call's queue have recorded; 0 without counters. A node
    /// votes above its counter and, within an hour of the node's time, not below this number.
    pub(super) hint: u64,
    /// The lease whose resources the attempt receives by transfers; `None` for any other attempt.
    pub(super) transfer: Option<TransferFrom>,
    /// Whether the attempt enters no wait queue after a refusal. If so, nodes set no marks in favour of the client.
    pub(super) will_not_wait: bool,
}

/// The lease whose resources an attempt receives.
#[derive(Clone, Debug)]
pub(super) struct TransferFrom {
    pub(super) from: LeaseId,
    /// The token of the lease, if nodes must prove that no third lease can have held the resources since.
    pub(super) proof: Option<u64>,
}

impl TransferFrom {
    /// Returns the lease of a ticket, whose token is the proof.
    pub(super) fn with_proof(ticket: LeaseId, token: FencingToken) -> Self {
        let proof = mutation::altered(Mutation::RedeemWithoutProof, Some(token.as_u64()), |_| None);
        Self { from: ticket, proof }
    }
}

impl<'a> AttemptRequests<'a> {
    pub(super) fn new(context: &ClientContext, checked: &'a CheckedRequest, config: AttemptConfig) -> Self {
        Self {
            checked,
            config,
            lease_id: context.lease_ids.fresh(),
            hint: 0,
            transfer: None,
            will_not_wait: false,
        }
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

    /// Returns the lock, or the transfer that also ends the earlier lease.
    pub(super) fn lock_operation(&self, ignores_queue: bool) -> Operation {
        let lock = self.lock(ignores_queue);
        match self.transfer.clone() {
            Some(TransferFrom { from, proof }) => Operation::Transfer(Transfer { lock, from, proof }),
            None => Operation::Lock(lock),
        }
    }

    /// Whether the answer refuses a transfer with a proof: the earlier lease does not have all keys, or a later lease
    /// may have had them.
    pub(super) fn refutes_proof(&self, answer: &Answer) -> bool {
        let has_proof = self.transfer.as_ref().is_some_and(|transfer| transfer.proof.is_some());
        has_proof && matches!(answer, Answer::NotWrittenBack { .. } | Answer::Tombstone)
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

    /// Returns a request of one operation, which is sent only if its answer may come while the attempt waits.
    pub(super) fn request(&self, operation: Operation, now: Instant) -> Request {
        Request::one(operation, now + self.config.request_timeout())
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
