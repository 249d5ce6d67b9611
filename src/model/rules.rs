//! The rules that hold in a search: the restart guard of the nodes, and at most one broken rule.

use crate::{
    algorithm::tally::Electorate,
    model::NODES,
    mutation::{self, Mutation, MutationGuard},
    node::RestartGuard,
};

/// The behaviour of nodes or clients in place of the rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BrokenRule {
    /// A mutation. The nodes run the crate's code with the mutation, and the clients of the model
    /// imitate the mutation where it concerns clients.
    Mutation(Mutation),
    /// A node that has the key of a lease proves the lease, whatever the node's counter is.
    VerifyByKey,
    /// Readers take the largest vote as their token, and write nothing back.
    ReadersWriteNothingBack,
    /// A downgrade unlocks the write lease before the lock of the reader.
    UnlockToDowngrade,
}

/// The restart guard of the nodes, and the broken rule, if any.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) guard: RestartGuard,
    pub(super) broken_rule: Option<BrokenRule>,
}

impl Rules {
    /// No broken rule, and no restart guard.
    pub(super) const WHOLE: Self = Self { guard: RestartGuard::Off, broken_rule: None };

    /// Returns the rules of which this mutation breaks one, without a restart guard.
    pub(super) const fn broken_by(mutation: Mutation) -> Self {
        Self::breaking(BrokenRule::Mutation(mutation))
    }

    /// Returns the rules of which this rule is broken, without a restart guard.
    pub(super) const fn breaking(rule: BrokenRule) -> Self {
        Self { broken_rule: Some(rule), ..Self::WHOLE }
    }

    /// No broken rule, and a restart guard.
    pub(super) const GUARDED: Self = Self { guard: RestartGuard::PerConnection, ..Self::WHOLE };

    pub(super) fn breaks(self, rule: BrokenRule) -> bool {
        self.broken_rule == Some(rule)
    }

    pub(super) fn are_broken_by(self, mutation: Mutation) -> bool {
        self.breaks(BrokenRule::Mutation(mutation))
    }

    /// Applies the mutation, if any, to the crate's code on this thread, until the returned guard is
    /// dropped. A rule that only the model breaks is ignored here.
    pub(super) fn break_in_crate(self) -> MutationGuard {
        mutation::break_rule(match self.broken_rule {
            Some(BrokenRule::Mutation(rule)) => Some(rule),
            _ => None,
        })
    }

    /// Returns the number of votes of a quorum.
    pub(super) fn needed(self) -> usize {
        let _broken = self.break_in_crate();
        Electorate::majority(NODES)
    }
}
