//! To unlock: delete what is still the owner's.

use crate::{
    clock::Instant,
    node::{
        operation::{Answer, Arguments, Operate, Resources, ScriptReply},
        parameters::QuorumParameters,
    },
    values::{LeaseId, Resource},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unlock {
    pub(crate) resources: Resources,
    pub(crate) owner: LeaseId,
    /// Whether the attempt had its quorum. Only then is the release told to those who listen for
    /// it, and passed on as a mark; the first in the queue is woken in any case.
    pub(crate) notify: bool,
    pub(crate) tombstone: Tombstone,
    /// Whether the queue node has said that others wait: newcomers are to let them go first.
    pub(crate) has_waiters: bool,
}

/// Whether an unlock leaves a tombstone, which refuses what lands later: the owner's requests that
/// this node has not answered.
///
/// The script knows them by their numbers; of two that are merged, the larger counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Tombstone {
    /// Nothing is unanswered.
    Never = 0,
    /// A lock is, and nothing else of the owner was ever sent there: where the unlock finds all
    /// that it is to delete, it has landed already. That is the usual case, of a short critical
    /// section at one of the slower nodes.
    IfMissing = 1,
    /// A renewal may be: what the unlock deletes may have come of an earlier request.
    Always = 2,
}

impl Operate for Unlock {
    fn resources(&self) -> &[Resource] {
        &self.resources
    }

    fn encode(&self, arguments: &mut Arguments<'_>, _: &QuorumParameters) {
        let Self { resources, owner, notify, tombstone, has_waiters } = self;
        if let Some(name) = self.shortest_name() {
            arguments.short_name(name).owner(owner);
            return;
        }
        if resources.len() == 1 && !resources.is_any_shared() {
            arguments.short_name("unlock");
        } else {
            arguments.name_for("unlock_any", resources);
        }
        let mark = if *has_waiters { "1" } else { "" };
        arguments.owner(owner).joined(format_args!("{}{}{mark}", u8::from(*notify), *tombstone as u8));
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

    fn releasing_owner(&self) -> Option<&LeaseId> {
        Some(&self.owner)
    }
}

impl Unlock {
    /// The name of the usual unlock of one resource, with other names derived from that in the
    /// simplest way.
    fn shortest_name(&self) -> Option<&'static str> {
        let Self { resources, notify, tombstone, has_waiters, .. } = self;
        let is_plain = matches!(&**resources, [resource] if !resource.as_bytes().contains(&b'{'));
        match (tombstone, resources.is_shared(0)) {
            _ if !notify || *has_waiters || !is_plain => None,
            (Tombstone::Never, false) => Some("release"),
            (Tombstone::Never, true) => Some("unshare"),
            (Tombstone::IfMissing, false) => Some("release_late"),
            (Tombstone::IfMissing, true) => Some("unshare_late"),
            (Tombstone::Always, _) => None,
        }
    }
}

/// How many of the resources were deleted.
pub(super) fn unlocked(reply: ScriptReply<'_>) -> Option<Answer> {
    let ScriptReply::Number(deleted) = reply else { return None };
    Some(Answer::Unlocked { deleted: u32::try_from(deleted).ok()? })
}
