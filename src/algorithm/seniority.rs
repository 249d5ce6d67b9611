//! Who of those that wait comes first after a release.

use std::time::Duration;

use crate::{
    mutation::{self, Mutation},
    owner_id::OwnerId,
};

#[cfg(test)]
mod tests;

/// The elders of whoever knows that there are some, and not how many. With fewer, those who wait for longest are soon alike, and
/// chance decides between them; with more, all defer for longer where few contend.
const UNCOUNTED: u32 = 8;

/// The longest deference, in round trips. Whoever unlocks and comes again has its question at a node three round trips after the
/// release; this, the notice and the question are less, if both are about as far from the nodes. Longer, and a waiter whose elders
/// have gone would find the lock with the same client again and again.
const LONGEST: f64 = 1.5;

/// What a waiter knows of the others that wait for the same resource.
///
/// All hear of a release at once, and chance would decide again and again: some would wait five times as long as the mean, and
/// all would ask for it. So whoever knows of *elders*, who have waited for longer, comes later: up to a round trip if one of them
/// is left, and up to one and a half if more are. When it has seen as many of them pass, it is *first*, and most others come
/// later: it need not ask one node before the rest, which saves a round trip.
#[derive(Clone, Debug)]
pub(super) struct Seniority {
    /// How many others waited already when this client came, if it knows; one more has the lock by now.
    elders: Option<u32>,
    /// Who held the resource when that was last seen.
    holder: Option<OwnerId>,
    /// How often it was seen in other hands than before.
    passed_over: u32,
    /// Whether votes were split since: somebody else comes as early.
    is_split: bool,
    /// The shortest attempt that was refused. One that a silent node made long says nothing of how soon the others come.
    round_trip: Option<Duration>,
}

impl Seniority {
    /// `let_go`: how many waited when this client unlocked the resource, and were let go first; `None` if that is unknown.
    pub(super) fn new(let_go: Option<u32>) -> Self {
        let elders = let_go.map(|others| others.saturating_sub(1));
        Self { elders, holder: None, passed_over: 0, is_split: false, round_trip: None }
    }

    /// An attempt that took so long was refused because of this holder, if that is known.
    ///
    /// Owners are fresh in every attempt, so another one is another lease. A notice alone says less: a new subscription counts
    /// as one, and what is found then is mostly the holder that was known.
    pub(super) fn refused(&mut self, holder: Option<&OwnerId>, took: Duration) {
        self.round_trip = Some(self.round_trip.map_or(took, |shortest| shortest.min(took)));
        let Some(holder) = holder else { return };
        if self.holder.replace(holder.clone()).is_some_and(|before| before != *holder) {
            self.passed_over += 1;
        }
    }

    /// The votes were split with somebody.
    pub(super) fn split(&mut self) {
        self.is_split = true;
    }

    /// Whether all elders have passed, and nobody is known to think so of itself as well.
    pub(super) fn is_first(&self) -> bool {
        let has_seen_all = self.elders.is_some_and(|elders| elders <= self.passed_over);
        has_seen_all && self.holder.is_some() && !self.is_split
    }

    /// How long after a notice to come. Whoever knows of nobody else may well be alone, and comes at once; so does whoever was
    /// never refused. Chance takes part, or two who know the same would split the votes; `jitter` is uniform in 0..1.
    ///
    /// Elders that nobody has counted may not be there: for all of them together it is a round trip at most.
    pub(super) fn deference(&self, jitter: f64) -> Duration {
        let round_trips = match self.elders {
            Some(elders) => f64::from(elders.saturating_sub(self.passed_over)).min(LONGEST),
            None if self.passed_over == 0 => 0.0,
            None => f64::from(UNCOUNTED.saturating_sub(self.passed_over)) / f64::from(UNCOUNTED),
        };
        if mutation::is_on(Mutation::DeferToNobody) {
            return Duration::ZERO;
        }
        self.round_trip.unwrap_or_default().mul_f64(jitter.midpoint(1.0) * round_trips)
    }
}
