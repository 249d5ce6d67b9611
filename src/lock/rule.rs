//! When a waiter tries again, whichever way it waits.

use crate::{
    algorithm::{
        attempt::Plan,
        queueing::{Queueing, Setback},
        retry::{Retry, Wake},
        sighting::Sighting,
    },
    clock::Instant,
    lock::{
        bell::{Bell, Heard},
        core::Core,
        locking::{Lost, Target},
    },
    node::Answer,
};

/// When to try again, and how.
#[derive(Debug)]
pub(super) enum Rule {
    Contending(Retry),
    Queueing(Queueing),
}

impl Rule {
    pub(super) fn new(core: &Core, target: &Target, now: Instant, let_go: Option<u32>) -> Self {
        let settings = &target.settings;
        let (electorate, pacing) = (core.settings.electorate, settings.pacing);
        let order = core.arbiters(&target.resource);
        if settings.is_fair() {
            Self::Queueing(Queueing::new(electorate, pacing, settings.place_life, order, now))
        } else {
            Self::Contending(Retry::new(electorate, pacing, order, now, let_go))
        }
    }

    pub(super) fn hear(&mut self, heard: Heard, now: Instant) {
        match self {
            Self::Contending(retry) => heard.news.iter().for_each(|node| retry.notice(node, now)),
            Self::Queueing(queueing) => {
                heard.interrupted.iter().for_each(|node| queueing.interrupted(node, now));
                heard.news.iter().for_each(|node| queueing.look(node, now));
                heard.calls.iter().for_each(|node| queueing.called(node, now));
            }
        }
    }

    pub(super) fn next_wake(&self) -> Wake {
        match self {
            Self::Contending(retry) => retry.next_wake(),
            Self::Queueing(queueing) => queueing.next_wake(),
        }
    }

    pub(super) fn attempt_begins(&mut self, plan: &Plan, now: Instant) {
        match self {
            Self::Contending(retry) => retry.attempt_begins(plan, now),
            Self::Queueing(queueing) => queueing.attempt_begins(now),
        }
    }

    pub(super) fn attempt_lost(&mut self, lost: &Lost, bell: &Bell, now: Instant, jitter: f64) {
        match self {
            Self::Contending(retry) => retry.attempt_lost(lost.loss, &lost.seen, lost.took, now, jitter),
            Self::Queueing(queueing) => {
                let deferral = lost.deferral.as_ref();
                let setback = Setback { loss: lost.loss, sightings: &lost.seen, deferral, took: lost.took };
                queueing.attempt_lost(&setback, now, jitter);
                // What came during the attempt may be older than its refusal: one more look, and no call.
                let heard = bell.take();
                heard.news.union(heard.calls).iter().for_each(|node| queueing.look(node, now));
                heard.interrupted.iter().for_each(|node| queueing.interrupted(node, now));
            }
        }
    }
}

/// What an inspection says of a node.
pub(super) fn sighting(answer: &Answer) -> Sighting {
    match answer {
        Answer::Inspected(inspection) => match &inspection.held {
            Some(held) => {
                Sighting::Held { owner: held.owner.clone(), remaining: held.remaining.unwrap_or_default() }
            }
            None => Sighting::Free,
        },
        _ => Sighting::Unknown,
    }
}
