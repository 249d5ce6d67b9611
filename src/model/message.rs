//! The messages between clients and nodes.

use std::{fmt, sync::LazyLock, time::Duration};

use crate::{
    node::{
        Enqueue, Lock, Operation, Renew, Resources, Tombstone, Transfer, Unlock, WriteBack,
        operation::samples::{lease_id, resources},
    },
    values::{LeaseId, Resource},
};

/// The one resource that the clients contend for.
static RESOURCES: LazyLock<Resources> = LazyLock::new(|| resources("r"));
/// The same resource for readers.
static SHARED: LazyLock<Resources> = LazyLock::new(|| resources("r").shared());

/// The lease ids by client and attempt.
static LEASE_IDS: LazyLock<Vec<Vec<LeaseId>>> = LazyLock::new(|| {
    let client = |client| {
        (1..=DOWNGRADE).map(|number| lease_id(&ModelAttempt { client, number }.to_string())).collect()
    };
    (0..super::CLIENTS).map(client).collect()
});

pub(super) fn resource() -> &'static Resource {
    &RESOURCES[0]
}

pub(super) fn lease_id_of(ModelAttempt { client, number }: ModelAttempt) -> &'static LeaseId {
    &LEASE_IDS[client][usize::from(number) - 1]
}

pub(super) fn attempt_of(lease_id: &LeaseId) -> ModelAttempt {
    let mut attempts = (0..super::CLIENTS)
        .flat_map(|client| (1..=DOWNGRADE).map(move |number| ModelAttempt { client, number }));
    attempts.find(|attempt| lease_id_of(*attempt) == lease_id).unwrap()
}

/// One attempt of one client: `a1`, `a2`, `b1`, `c1`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ModelAttempt {
    pub(super) client: usize,
    pub(super) number: u8,
}

/// The number of the attempt by which a writer becomes a reader. No other attempt of the client has
/// a larger number, so the client begins no further attempt.
pub(super) const DOWNGRADE: u8 = 4;

/// The number of the attempt by which the first client turns its lease into a ticket. The client begins no further
/// attempt.
pub(super) const TICKET_NUMBER: u8 = 3;

/// The ticket. Only the first client issues a ticket.
pub(super) const TICKET: ModelAttempt = ModelAttempt { client: 0, number: TICKET_NUMBER };

/// The content of a message to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ToNode {
    /// A lock. With `ignores_queue`, wait queues and marks do not refuse the lock.
    Lock {
        hint: u64,
        ignores_queue: bool,
    },
    /// A lock of a reader that replaces the lease of this writer.
    Downgrade {
        writer: ModelAttempt,
    },
    /// A transfer of the locks of this lease to the ticket.
    IssueTicket {
        from: ModelAttempt,
        hint: u64,
    },
    /// A transfer of the locks of the ticket to the attempt.
    Redeem {
        proof: Option<u64>,
        hint: u64,
    },
    WriteBack {
        token: u64,
    },
    Renew {
        round: u8,
        token: u64,
    },
    Unlock {
        notify: bool,
        tombstone: Tombstone,
    },
}

/// The content of an answer of a node. An unlock has no answer here, because no client waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum FromNode {
    Granted {
        vote: u64,
    },
    Refused,
    WrittenBack(bool),
    /// A successful renewal. `counts` is true if the answer counts for the quorum of the round.
    Renewed {
        round: u8,
        counts: bool,
    },
    NotRenewed {
        round: u8,
    },
}

/// A message of an attempt to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Request {
    pub(super) of: ModelAttempt,
    pub(super) message: ToNode,
}

/// An answer of a node to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Reply {
    pub(super) to: ModelAttempt,
    pub(super) message: FromNode,
}

impl Request {
    /// Returns the operation for the node, under the lease id of the attempt `owned_by`. This attempt is the sender,
    /// unless a mutation reuses lease ids.
    pub(super) fn operation(self, owned_by: ModelAttempt, is_reader: bool, ttl: Duration) -> Operation {
        let resources = if is_reader { SHARED.clone() } else { RESOURCES.clone() };
        let lease_id = lease_id_of(owned_by).clone();
        match self.message {
            ToNode::Lock { hint, ignores_queue } => {
                Operation::Lock(Lock { resources, lease_id, ttl, hint, ignores_queue, will_not_wait: false })
            }
            ToNode::Downgrade { writer } => {
                let lock =
                    Lock { resources, lease_id, ttl, hint: 0, ignores_queue: true, will_not_wait: false };
                Operation::Transfer(Transfer { lock, from: lease_id_of(writer).clone(), proof: None })
            }
            ToNode::IssueTicket { from, hint } => {
                let lock = Lock { resources, lease_id, ttl, hint, ignores_queue: true, will_not_wait: false };
                Operation::Transfer(Transfer { lock, from: lease_id_of(from).clone(), proof: None })
            }
            ToNode::Redeem { proof, hint } => {
                let lock = Lock { resources, lease_id, ttl, hint, ignores_queue: true, will_not_wait: true };
                Operation::Transfer(Transfer { lock, from: lease_id_of(TICKET).clone(), proof })
            }
            ToNode::WriteBack { token } => Operation::WriteBack(WriteBack { resources, lease_id, token }),
            ToNode::Renew { token, .. } => {
                let (extends, may_have_waiters) = (true, true);
                Operation::Renew(Renew {
                    resources,
                    lease_id,
                    holds: 1,
                    ttl,
                    extends,
                    token,
                    may_have_waiters,
                })
            }
            ToNode::Unlock { notify, tombstone } => Operation::Unlock(Unlock {
                resources,
                lease_id,
                notify,
                tombstone,
                has_waiters: false,
                rest: None,
            }),
        }
    }
}

/// Returns the operation by which a client outside of the model enters the queue of a node.
pub(super) fn foreign_waiter(ttl: Duration) -> Operation {
    let resources = RESOURCES.clone();
    let lock =
        Lock { resources, lease_id: lease_id("s1"), ttl, hint: 0, ignores_queue: true, will_not_wait: false };
    let entry_ttl = Some(Duration::from_secs(3_600));
    Operation::Enqueue(Enqueue {
        lock,
        resource: 0,
        waiter: lease_id("s"),
        arrival: 0,
        entry_ttl,
        enqueue_only: true,
    })
}

impl fmt::Display for ModelAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let client = ["a", "b", "c"][self.client];
        write!(f, "{client}{}", self.number)
    }
}

impl fmt::Debug for ModelAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
