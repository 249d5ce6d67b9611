//! The rules that a search goes by, and the one that is broken in it.

use crate::{
    algorithm::tally::Electorate,
    model::NODES,
    mutation::{self, Broken, Mutation},
    node::RestartGuard,
};

/// A way to do it wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BrokenRule {
    /// As the code itself can be told to do it.
    Mutation(Mutation),
    /// A node proves a lease if the key is still there.
    VerifyByKey,
    /// Readers take the largest vote for their token, although no quorum may know of it.
    ReadersWriteNothingBack,
    /// A writer unlocks the resource before it goes on as a reader.
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

    /// Breaks the rule for the crate's own code, on this thread, until what is returned is dropped.
    pub(super) fn break_for_nodes(self) -> Broken {
        mutation::break_rule(match self.broken_rule {
            Some(BrokenRule::Mutation(rule)) => Some(rule),
            _ => None,
        })
    }

    /// How many votes win.
    pub(super) fn needed(self) -> usize {
        let _broken = self.break_for_nodes();
        Electorate::majority(NODES)
    }
}
