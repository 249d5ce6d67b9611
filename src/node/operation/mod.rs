//! The operations of a node, one file each.
//!
//! ```text
//! lock.rs                 the operation, its arguments on the wire, its answers
//! lock.lua                its execution on a server: the general path
//! lock.fast.lua           the fast path of a frequent operation, which leaves rare cases to the general path
//! node/state/lock.rs      its execution in the pure node
//! ```
//!
//! The frequent operations lock, share, renew or unlock one resource, or lock one resource for its first waiter.
//!
//! | operations | requested by |
//! |---|---|
//! | lock, write-back, unlock | attempts, and leases that end |
//! | enqueue, withdraw | waiters, at the queue node |
//! | renew | the watchdog |
//! | transfer | writers that become readers, leases that become tickets, clients that redeem tickets |
//! | vacant | calls for any slot of a semaphore, or any of several resources |
//! | proclaim, observe | elections |
//! | latch | latches |
//! | count-permits | semaphores |
//! | inspect | inspections, holder checks, health checks, new clients and administration |
//! | list, force-unlock, init, reconfigure, record-replacements, read-clock | administration |
//! | register | each new connection |

use crate::{
    clock::Instant,
    node::parameters::QuorumParameters,
    values::{LeaseId, Resource},
};

mod answer;
mod answer_size;
mod count_permits;
mod enqueue;
mod force_unlock;
mod init;
mod inspect;
mod latch;
mod list;
mod lock;
mod observe;
mod proclaim;
mod read_clock;
mod reconfigure;
mod record_replacements;
mod register;
mod renew;
mod resources;
#[cfg(test)]
pub(crate) mod samples;
mod transfer;
mod unlock;
mod vacant;
mod wire;
mod withdraw;
mod write_back;

pub(crate) use self::{
    answer::{Abstention, Answer},
    answer_size::{AnswerSize, ORDINARY_VALUES},
    count_permits::CountPermits,
    enqueue::{Enqueue, Queued},
    force_unlock::ForceUnlock,
    init::Init,
    inspect::{DETAILS_SHOWN, HolderInfo, Inspect, InspectAnswer, InspectDetails, LatchInfo, READERS_SHOWN},
    latch::Latch,
    list::{List, ListPage},
    lock::{Holder, Lock},
    observe::{Observe, ObserveAnswer},
    proclaim::{MAX_VALUE_BYTES, Proclaim, Proclamation},
    read_clock::ReadClock,
    reconfigure::{CLOCK_MARGIN, Reconfigure, RecordStep},
    record_replacements::RecordReplacements,
    register::{NewNodes, Register, Registration},
    renew::Renew,
    resources::Resources,
    transfer::Transfer,
    unlock::{Tombstone, Unlock},
    vacant::Vacant,
    wire::{ArgumentSink, Arguments, ScriptReply, Value, fingerprint, text},
    withdraw::Withdraw,
    write_back::WriteBack,
};

/// The interface of all operations.
pub(crate) trait Operate {
    /// Returns the resources of the operation.
    fn resources(&self) -> &[Resource];

    /// Writes the name of the operation in the script, and its arguments.
    ///
    /// An argument costs a server about half as much as reading a key, so each operation has as few arguments as
    /// possible.
    fn encode(&self, arguments: &mut Arguments<'_>, parameters: &QuorumParameters);

    /// Returns the answer that the script's reply encodes; `None` if the reply has another shape.
    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer>;

    /// Whether the operation must be delivered even if its connection breaks.
    fn must_deliver(&self) -> bool {
        false
    }

    /// Whether the request waits in the send queue while the node is unresponsive.
    fn waits_while_unresponsive(&self) -> bool {
        self.must_deliver()
    }

    /// Whether the operation concerns other clients, and not only the leases and attempts of this client at the
    /// node. `blocks_until` is the field of the [`Request`](super::Request).
    fn concerns_other_clients(&self, _blocks_until: Option<Instant>) -> bool {
        false
    }

    /// Returns the id of the lease that the operation acquires, renews or writes back.
    fn acquired_lease(&self) -> Option<&LeaseId> {
        None
    }

    /// Returns the id of the lease that the operation ends.
    fn released_lease(&self) -> Option<&LeaseId> {
        None
    }

    /// Returns the largest size of the answer, beyond that of an ordinary answer.
    fn longest_answer(&self) -> AnswerSize {
        AnswerSize::default()
    }
}

/// Defines the enum of all operations, and the lists of their scripts, from one table.
macro_rules! operations {
    (
        usual { $($usual:ident in $usual_file:literal,)* }
        others { $($other:ident in $other_file:literal,)* }
    ) => {
        /// One command to a node. Ttls are whole milliseconds on the wire, rounded up.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) enum Operation {
            $($usual($usual),)*
            $($other($other),)*
        }

        impl Operation {
            /// Returns the interface of the operation.
            pub(crate) fn as_dyn(&self) -> &dyn Operate {
                match self {
                    $(Self::$usual(operation) => operation,)*
                    $(Self::$other(operation) => operation,)*
                }
            }
        }

        /// The scripts that a server defines with the first operation that takes the general path.
        pub(crate) const USUAL_SCRIPTS: &[&str] = &[$(include_str!($usual_file)),*];

        /// The scripts that a server defines with the first rare operation.
        pub(crate) const OTHER_SCRIPTS: &[&str] = &[$(include_str!($other_file)),*];
    };
}

operations! {
    usual {
        Lock in "lock.lua",
        WriteBack in "write_back.lua",
        Renew in "renew.lua",
        Unlock in "unlock.lua",
    }
    others {
        Transfer in "transfer.lua",
        Enqueue in "enqueue.lua",
        Withdraw in "withdraw.lua",
        ForceUnlock in "force_unlock.lua",
        Inspect in "inspect.lua",
        Proclaim in "proclaim.lua",
        Observe in "observe.lua",
        Vacant in "vacant.lua",
        Latch in "latch.lua",
        CountPermits in "count_permits.lua",
        List in "list.lua",
        Register in "register.lua",
        Init in "init.lua",
        Reconfigure in "reconfigure.lua",
        RecordReplacements in "record_replacements.lua",
        ReadClock in "read_clock.lua",
    }
}

/// The fast paths of frequent operations, in the order of their substitution into the script. `$FAST_LOCK` is before
/// `$FAST_LEAVE`, because the text of `$FAST_LOCK` contains `$FAST_LEAVE`.
pub(crate) const FAST_PATHS: &[(&str, &str)] = &[
    ("$FAST_LOCK", include_str!("lock.fast.lua")),
    ("$FAST_LEAVE", include_str!("enqueue.fast.lua")),
    ("$FAST_RENEW", include_str!("renew.fast.lua")),
    ("$FAST_UNLOCK", include_str!("unlock.fast.lua")),
    ("$FAST_SHARE", include_str!("share.fast.lua")),
    ("$FAST_UNSHARE", include_str!("unshare.fast.lua")),
];

impl Operation {
    pub(crate) fn resources(&self) -> &[Resource] {
        self.as_dyn().resources()
    }

    pub(crate) fn must_deliver(&self) -> bool {
        self.as_dyn().must_deliver()
    }

    /// Returns the largest size of the answers to these operations, beyond that of ordinary answers.
    pub(crate) fn longest_answers(operations: &[Self]) -> AnswerSize {
        operations.iter().map(|operation| operation.as_dyn().longest_answer()).sum()
    }
}
