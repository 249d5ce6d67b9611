//! The messages between clients and nodes.

use std::{fmt, sync::LazyLock, time::Duration};

use crate::{
    node::{
        Downgrade, Enqueue, Lock, Operation, Renew, Resources, Tombstone, Unlock, WriteBack,
        operation::samples::{owner, resources},
    },
    values::{LeaseId, Resource},
};

/// The one resource that the clients contend for.
static RESOURCES: LazyLock<Resources> = LazyLock::new(|| resources("r"));
/// The same resource for readers.
static SHARED: LazyLock<Resources> = LazyLock::new(|| resources("r").shared());

/// The lease ids by client and attempt.
static OWNERS: LazyLock<Vec<Vec<LeaseId>>> = LazyLock::new(|| {
    let client = |client| (1..=4).map(|number| owner(&ModelAttempt { client, number }.to_string())).collect();
    (0..super::CLIENTS).map(client).collect()
});

pub(super) fn resource() -> &'static Resource {
    &RESOURCES[0]
}

pub(super) fn owner_of(ModelAttempt { client, number }: ModelAttempt) -> &'static LeaseId {
    &OWNERS[client][usize::from(number) - 1]
}

pub(super) fn attempt_of(owner: &LeaseId) -> ModelAttempt {
    let mut attempts =
        (0..super::CLIENTS).flat_map(|client| (1..=4).map(move |number| ModelAttempt { client, number }));
    attempts.find(|attempt| owner_of(*attempt) == owner).unwrap()
}

/// One attempt of one client: `a1`, `a2`, `b1`, `c1`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ModelAttempt {
    pub(super) client: usize,
    pub(super) number: u8,
}

/// The number of the attempt by which a writer becomes a reader: the last one of its client.
pub(super) const DOWNGRADE: u8 = 4;

/// A message to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ToNode {
    /// A lock. With `has_turn`, the client is a waiter whose turn it is, so queues and marks do not
    /// refuse the lock.
    Lock {
        hint: u64,
        has_turn: bool,
    },
    /// A lock of a reader that replaces the lease of this writer.
    Downgrade {
        writer: ModelAttempt,
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

/// An answer of a node. No client waits for the answer to an unlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum FromNode {
    Granted {
        vote: u64,
    },
    Refused,
    WrittenBack(bool),
    /// A successful renewal. `counts` is whether the answer counts for the quorum of the round.
    Renewed {
        round: u8,
        counts: bool,
    },
    NotRenewed {
        round: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Request {
    pub(super) of: ModelAttempt,
    pub(super) message: ToNode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Reply {
    pub(super) to: ModelAttempt,
    pub(super) message: FromNode,
}

impl Request {
    /// Returns the operation for the node. Its owner may differ from the attempt.
    pub(super) fn operation(self, owned_by: ModelAttempt, is_reader: bool, ttl: Duration) -> Operation {
        let resources = if is_reader { SHARED.clone() } else { RESOURCES.clone() };
        let owner = owner_of(owned_by).clone();
        match self.message {
            ToNode::Lock { hint, has_turn } => {
                Operation::Lock(Lock { resources, owner, ttl, hint, has_turn, gives_up: false })
            }
            ToNode::Downgrade { writer } => {
                let lock = Lock { resources, owner, ttl, hint: 0, has_turn: true, gives_up: false };
                Operation::Downgrade(Downgrade { lock, writer: owner_of(writer).clone() })
            }
            ToNode::WriteBack { token } => Operation::WriteBack(WriteBack { resources, owner, token }),
            ToNode::Renew { token, .. } => {
                let may_have_waiters = true;
                Operation::Renew(Renew { resources, owner, holds: 1, ttl, token, may_have_waiters })
            }
            ToNode::Unlock { notify, tombstone } => {
                Operation::Unlock(Unlock { resources, owner, notify, tombstone, has_waiters: false })
            }
        }
    }
}

/// Returns the operation by which a foreign client enters the queue of a node.
pub(super) fn foreign_waiter(ttl: Duration) -> Operation {
    let resources = RESOURCES.clone();
    let lock = Lock { resources, owner: owner("s1"), ttl, hint: 0, has_turn: true, gives_up: false };
    let entry_ttl = Some(Duration::from_secs(3_600));
    Operation::Enqueue(Enqueue {
        lock,
        resource: 0,
        waiter: owner("s"),
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
