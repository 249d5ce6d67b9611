//! Unlock: deletes the keys that the lease still holds, or shortens their ttls.

use std::time::Duration;

use crate::{
    clock::Instant,
    node::{
        operation::{Answer, Arguments, Operate, Resources, ScriptReply},
        parameters::QuorumParameters,
        ttl::whole_milliseconds,
    },
    values::{LeaseId, Resource},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unlock {
    pub(crate) resources: Resources,
    pub(crate) lease_id: LeaseId,
    /// Whether a quorum had granted the lease. If so, the node publishes a release notice, and sets a new yield mark in
    /// place of an old one. The node wakes the first waiter in any case.
    pub(crate) notify: bool,
    pub(crate) tombstone: Tombstone,
    /// Whether the queue node has reported waiters. If so, and with `notify`, the node sets a yield mark, by which
    /// newcomers yield.
    pub(crate) has_waiters: bool,
    /// The rest of the minimum hold of the lease; `None` if the minimum hold is over. With a rest, the node keeps the
    /// keys of the exclusive resources for at most this time, and deletes nothing.
    ///
    /// The rest only shortens the ttl of a key, so an unlock that arrives late or twice never extends the hold. Kept
    /// keys count as deleted. Since the resource is not free, the node publishes no release notice and changes no mark.
    pub(crate) rest: Option<Duration>,
}

/// The condition on which an unlock leaves a tombstone. A tombstone refuses late requests of the lease, which are
/// the requests that this node has not answered.
///
/// The script uses the same numbers. If two unlocks are merged, the larger number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Tombstone {
    /// No tombstone: no request of the lease is unanswered.
    Never = 0,
    /// A tombstone if a key is missing: only a lock is unanswered, and no other request of the lease was sent
    /// to the node. If the unlock finds all keys, the lock has arrived, and no request can be late. When a short
    /// critical section ends, the lock is often unanswered at a slower node.
    IfMissing = 1,
    /// A tombstone in any case: a renewal may be unanswered. The keys that the unlock finds may then be the
    /// keys of an earlier request, so they do not prove that the renewal has arrived.
    Always = 2,
}

impl Operate for Unlock {
    fn resources(&self) -> &[Resource] {
        &self.resources
    }

    fn encode(&self, arguments: &mut Arguments<'_>, _: &QuorumParameters) {
        let Self { resources, lease_id, notify, tombstone, has_waiters, rest } = self;
        if let Some(name) = self.shortest_name() {
            arguments.short_name(name).lease_id(lease_id);
            return;
        }
        if resources.len() == 1 && !resources.is_any_shared() {
            arguments.short_name("unlock");
        } else {
            arguments.name_for("unlock_any", resources);
        }
        let mark = if *has_waiters { "1" } else { "" };
        let (notify, tombstone) = (u8::from(*notify), *tombstone as u8);
        arguments.lease_id(lease_id);
        match rest {
            None => arguments.joined(format_args!("{notify}{tombstone}{mark}")),
            Some(rest) => {
                arguments.joined(format_args!("{notify}{tombstone}{mark}:{}", whole_milliseconds(*rest)))
            }
        };
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        unlocked(reply)
    }

    fn must_deliver(&self) -> bool {
        true
    }

    fn concerns_other_clients(&self, blocks_until: Option<Instant>) -> bool {
        blocks_until.is_none()
    }

    fn released_lease(&self) -> Option<&LeaseId> {
        Some(&self.lease_id)
    }
}

impl Unlock {
    /// Returns the short name of the most frequent unlock: of one resource whose name contains no brace, with a
    /// notice.
    fn shortest_name(&self) -> Option<&'static str> {
        let Self { resources, notify, tombstone, has_waiters, rest, .. } = self;
        let is_plain = matches!(&**resources, [resource] if !resource.as_bytes().contains(&b'{'));
        match (tombstone, resources.is_shared(0)) {
            _ if !notify || *has_waiters || !is_plain || rest.is_some() => None,
            (Tombstone::Never, false) => Some("release"),
            (Tombstone::Never, true) => Some("unshare"),
            (Tombstone::IfMissing, false) => Some("release_late"),
            (Tombstone::IfMissing, true) => Some("unshare_late"),
            (Tombstone::Always, _) => None,
        }
    }
}

/// Reads the number of deleted resources.
pub(super) fn unlocked(reply: ScriptReply<'_>) -> Option<Answer> {
    let ScriptReply::Number(deleted) = reply else { return None };
    Some(Answer::Unlocked { deleted: u32::try_from(deleted).ok()? })
}
