//! What an attempt makes of the nodes' answers.

use super::{Asked, Run};
use crate::{
    algorithm::{
        attempt::Ballot,
        queueing::Deferral,
        sighting::{Sighting, holder},
    },
    lock::keeper::Keeper,
    node::{Answer, Holder, Queued},
    vote::Vote,
};

impl Run<'_> {
    pub(super) fn hear(&mut self, node: usize, asked: Asked, answer: Answer) {
        tracing::trace!(resource = %self.target.resource, owner = %self.owner, node, ?asked, ?answer, "vote");
        self.core.observer.answered(node, asked.question(), &answer);
        let (answer, is_awaited) = match answer {
            // Whoever is not in line is told how many are.
            Answer::Queued(Queued { ticket: 0, rank, .. }) => (answer, Some(rank > 0)),
            answer => answer.into_parts(),
        };
        // Whoever takes does not look at the line.
        if let (Asked::Lock | Asked::LineUp, Some(is_awaited)) = (asked, is_awaited) {
            self.keeper.hear(self.core, &self.target.resources, node, is_awaited);
        }
        match asked {
            Asked::Lock | Asked::Take => self.hear_lock(node, &answer, false),
            Asked::LineUp => {
                self.hear_line(node, &answer);
                self.hear_lock(node, &answer, true);
            }
            Asked::Raise => self.attempt.on_raise(node, answer == Answer::Raised),
        }
    }

    fn hear_line(&mut self, node: usize, answer: &Answer) {
        let Some(line) = &mut self.line else { return };
        match answer {
            Answer::Granted { .. } => line.granted(node),
            Answer::Queued(queued) => {
                let is_in_line = line.put_off(queued);
                let holder = queued.holder.as_ref().map(|holder| (holder.owner.clone(), holder.remaining));
                let Queued { rank, patience, .. } = *queued;
                self.deferral = Some(Deferral { node, is_in_line, rank, patience, holder });
                self.blocked = Some(queued.resource);
            }
            _ => {}
        }
    }

    fn hear_lock(&mut self, node: usize, answer: &Answer, asks_turn: bool) {
        let (ballot, sighting) = match answer {
            Answer::Granted { vote } => {
                self.largest_counter = self.largest_counter.max(*vote);
                (Ballot::Granted(*vote), Sighting::Free)
            }
            Answer::Held(holder) => (Ballot::Refused, self.hear_holder(holder)),
            Answer::Queued(queued) => {
                let seen =
                    queued.holder.as_ref().map_or(Sighting::Unknown, |holder| self.hear_holder(holder));
                let ballot = if asks_turn { Ballot::Refused } else { self.hear_put_off(node, queued) };
                (ballot, seen)
            }
            Answer::Fault(fault) if fault.is_unsent() => (Ballot::Unsent, Sighting::Unknown),
            Answer::Fault(fault) if fault.may_land_yet() => (Ballot::Silent, Sighting::Unknown),
            _ => (Ballot::Failed, Sighting::Unknown),
        };
        self.attempt.on_lock(node, ballot);
        self.note(node, Vote::of(answer), sighting);
        self.attempt.held(holder(&self.seen, self.core.settings.electorate).is_some());
    }

    fn hear_holder(&mut self, holder: &Holder) -> Sighting {
        let Holder { resource, owner, remaining, counter } = holder;
        self.largest_counter = self.largest_counter.max(*counter);
        if self.deferral.is_none() {
            self.blocked = Some(*resource);
        }
        if *resource != self.keeper.index() {
            self.attempt.refused_elsewhere();
        }
        Sighting::Held { owner: owner.clone(), remaining: *remaining }
    }

    /// A node has refused a lock because others are to go first. That of the node that keeps their
    /// line counts for all.
    fn hear_put_off(&mut self, node: usize, queued: &Queued) -> Ballot {
        self.blocked = Some(queued.resource);
        if queued.resource != self.keeper.index() {
            self.attempt.refused_elsewhere();
        }
        if Keeper::of(self.core, self.target, queued.resource).node == Some(node) {
            if queued.rank == 0 { self.attempt.line_is_empty(node) } else { self.attempt.line_stands() }
        } else if queued.rank > 0 {
            self.attempt.line_stands_elsewhere();
        }
        Ballot::PutOff
    }

    /// Where whoever was refused as a first contact goes: to the line of what it was refused for,
    /// whose node may not have answered.
    pub(super) fn to_the_line(&self) -> Option<Deferral> {
        let index = self.blocked.unwrap_or_default();
        let node = Keeper::of(self.core, self.target, index).node?;
        let patience = self.core.settings.terms.hand_over;
        // It may be one of the first, until it knows better.
        Some(Deferral { node, is_in_line: false, rank: 0, patience, holder: None })
    }
}
