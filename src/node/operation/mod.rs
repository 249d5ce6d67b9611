//! The operations of a node: what a client can ask, one file each.
//!
//! `lock.rs` holds what a lock says, how it travels, and what its answers mean; beside it,
//! `lock.lua` executes it on a server, and `node/state/lock.rs` in the pure node. The frequent operations
//! (to lock, renew and unlock one resource, or to share it) have a short way in `lock.short.lua` and
//! its like, which leaves the unusual to `lock.lua`.

use crate::{
    clock::Instant,
    node::parameters::QuorumParameters,
    values::{LeaseId, Resource},
};

mod answer;
mod downgrade;
mod enqueue;
mod force_unlock;
mod init;
mod inspect;
mod latch;
mod list;
mod lock;
mod observe;
mod proclaim;
mod reconfigure;
mod register;
mod renew;
mod resources;
#[cfg(test)]
pub(crate) mod samples;
mod unlock;
mod vacant;
mod wire;
mod withdraw;
mod write_back;

pub(crate) use self::{
    answer::{Abstention, Answer},
    downgrade::Downgrade,
    enqueue::{Enqueue, Queued},
    force_unlock::ForceUnlock,
    init::Init,
    inspect::{HolderInfo, Inspect, InspectAnswer, READERS_SHOWN, WaitersInfo},
    latch::Latch,
    list::{List, ListPage},
    lock::{Holder, Lock},
    observe::{Observe, ObserveAnswer},
    proclaim::{LONGEST_VALUE, Proclaim, Proclamation},
    reconfigure::Reconfigure,
    register::{NewNodes, Register, Registration},
    renew::Renew,
    resources::Resources,
    unlock::{Tombstone, Unlock},
    vacant::Vacant,
    wire::{ArgumentSink, Arguments, ScriptReply, Value, fingerprint, text},
    withdraw::Withdraw,
    write_back::WriteBack,
};

/// What every operation says of itself.
pub(crate) trait Operate {
    /// The resources that it names.
    fn resources(&self) -> &[Resource];

    /// Its name in the script and its arguments. Every argument costs a server about half as much
    /// as to read a key, so there are as few as can be.
    fn encode(&self, arguments: &mut Arguments<'_>, parameters: &QuorumParameters);

    /// Returns the answer that the script's reply stands for; `None` if the reply has not its shape.
    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer>;

    /// Whether it must be delivered even if its connection breaks.
    fn must_deliver(&self) -> bool {
        false
    }

    /// Whether it is about more than what this client has, or wants, at the node.
    /// `blocks_until`: as in a [`Request`](super::Request).
    fn concerns_other_clients(&self, _blocks_until: Option<Instant>) -> bool {
        false
    }

    /// The owner whose lock it would take, keep or write back.
    fn acquiring_owner(&self) -> Option<&LeaseId> {
        None
    }

    /// The owner whose lock it ends.
    fn releasing_owner(&self) -> Option<&LeaseId> {
        None
    }

    /// Whether its answer may be as long as what a leader says of itself.
    fn has_long_answer(&self) -> bool {
        false
    }
}

/// Lists the operations by type and file: the enum of them all, and their scripts.
macro_rules! operations {
    (
        usual { $($usual:ident in $usual_file:literal,)* }
        others { $($other:ident in $other_file:literal,)* }
    ) => {
        /// One question to a node. Ttls are whole milliseconds once on the wire, rounded up.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) enum Operation {
            $($usual($usual),)*
            $($other($other),)*
        }

        impl Operation {
            /// What it says of itself.
            pub(crate) fn as_dyn(&self) -> &dyn Operate {
                match self {
                    $(Self::$usual(operation) => operation,)*
                    $(Self::$other(operation) => operation,)*
                }
            }
        }

        /// The scripts that are defined with the first operation that has no short way, or leaves it.
        pub(crate) const USUAL_SCRIPTS: &[&str] = &[$(include_str!($usual_file)),*];

        /// The scripts of the others, which a server defines only when one of them is asked for.
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
        Downgrade in "downgrade.lua",
        Enqueue in "enqueue.lua",
        Withdraw in "withdraw.lua",
        ForceUnlock in "force_unlock.lua",
        Inspect in "inspect.lua",
        Proclaim in "proclaim.lua",
        Observe in "observe.lua",
        Vacant in "vacant.lua",
        Latch in "latch.lua",
        List in "list.lua",
        Register in "register.lua",
        Init in "init.lua",
        Reconfigure in "reconfigure.lua",
    }
}

/// The short ways of frequent operations, each after the ways that contain its name.
pub(crate) const SHORT_WAYS: &[(&str, &str)] = &[
    ("$SHORT_LOCK", include_str!("lock.short.lua")),
    ("$SHORT_LEAVE", include_str!("enqueue.short.lua")),
    ("$SHORT_RENEW", include_str!("renew.short.lua")),
    ("$SHORT_UNLOCK", include_str!("unlock.short.lua")),
    ("$SHORT_SHARE", include_str!("share.short.lua")),
    ("$SHORT_UNSHARE", include_str!("unshare.short.lua")),
];

impl Operation {
    pub(crate) fn resources(&self) -> &[Resource] {
        self.as_dyn().resources()
    }

    pub(crate) fn must_deliver(&self) -> bool {
        self.as_dyn().must_deliver()
    }
}
