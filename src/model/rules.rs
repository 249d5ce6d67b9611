//! The rules of a search, and the rule that is broken in it.

use crate::{
    algorithm::tally::Electorate,
    model::NODES,
    mutation::{self, Mutation, MutationGuard},
    node::RestartGuard,
};

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BrokenRule {
    /// A mutation of the crate's code.
    Mutation(Mutation),
    /// The proof of a lease by a node that still has the key.
    VerifyByKey,
    /// A token of readers that is the largest vote, without a write-back.
    ReadersWriteNothingBack,
    /// A downgrade that unlocks the write lease before the lock of the reader.
    UnlockToDowngrade,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) guard: RestartGuard,
    pub(super) broken_rule: Option<BrokenRule>,
}

impl Rules {
    pub(super) const WHOLE: Self = Self { guard: RestartGuard::Off, broken_rule: None };

    pub(super) const fn without(rule: Mutation) -> Self {
        Self::with(BrokenRule::Mutation(rule))
    }

    pub(super) const fn with(rule: BrokenRule) -> Self {
        Self { broken_rule: Some(rule), ..Self::WHOLE }
    }

    pub(super) const GUARDED: Self = Self { guard: RestartGuard::PerConnection, ..Self::WHOLE };

    pub(super) fn breaks(self, rule: BrokenRule) -> bool {
        self.broken_rule == Some(rule)
    }

    pub(super) fn is_broken(self, rule: Mutation) -> bool {
        self.breaks(BrokenRule::Mutation(rule))
    }

    /// Breaks the rule in the crate's code, on this thread, until the guard is dropped.
    pub(super) fn break_for_nodes(self) -> MutationGuard {
        mutation::break_rule(match self.broken_rule {
            Some(BrokenRule::Mutation(rule)) => Some(rule),
            _ => None,
        })
    }

    /// Returns the number of votes of a quorum.
    pub(super) fn needed(self) -> usize {
        let _broken = self.break_for_nodes();
        Electorate::majority(NODES)
    }
}
