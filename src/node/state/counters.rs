//! The fencing counters of some resources, taken together.

use crate::{
    node::{
        operation::Answer,
        parameters::QuorumParameters,
        state::{Counter, NodeState, NodeTime},
    },
    values::{NodeError, Resource},
};

/// The largest counter: above it, the doubles of Lua and of JSON readers no longer tell neighbours
/// apart.
pub(crate) const LARGEST_COUNTER: u64 = (1 << 53) - 1;

/// A counter that is missing counts as the node's time in whole seconds, times this: so nodes agree
/// on it but for a second's edge, and a counter that was lost comes back above all that it ever
/// gave, unless locks are granted a million times a second.
const STEPS_PER_SECOND: u64 = 1_000_000;

/// How far ahead of the node's time a hint may move a counter, in seconds: one bad client must not
/// spoil a resource.
const HINT_AHEAD: u64 = 3600;

/// The counters of the resources of one operation, before it is executed.
pub(super) struct Counters {
    /// In the order of the resources.
    pub(super) found: Vec<Option<u64>>,
    /// Of those found; 0 if there are none.
    pub(super) largest: u64,
}

impl Counters {
    pub(super) fn is_any_missing(&self) -> bool {
        self.found.contains(&None)
    }

    /// The largest one, where a missing one counts as the start.
    pub(super) fn largest_or_start(&self, now: NodeTime) -> u64 {
        if self.is_any_missing() { self.largest.max(start(now)) } else { self.largest }
    }
}

/// What a missing counter counts as.
pub(super) fn start(now: NodeTime) -> u64 {
    now.seconds().saturating_mul(STEPS_PER_SECOND)
}

/// Above every vote that was given until now, by any client: for a node that may have forgotten
/// them.
pub(super) fn minimum_token_at(now: NodeTime) -> u64 {
    (now.seconds() + 1).saturating_mul(STEPS_PER_SECOND)
}

/// How far a hint moves a counter, if it is below.
pub(super) fn hinted_counter(hint: u64, now: NodeTime) -> u64 {
    let cap = now.seconds().saturating_add(HINT_AHEAD).saturating_mul(STEPS_PER_SECOND);
    hint.saturating_sub(1).min(cap)
}

/// The number itself if it may stand in a counter.
pub(super) fn check_counter(number: u64) -> Result<u64, Answer> {
    if number > LARGEST_COUNTER { Err(invalid_counter(number)) } else { Ok(number) }
}

pub(super) fn invalid_counter(number: u64) -> Answer {
    Answer::Error(NodeError::InvalidCounter(number.to_string().into()))
}

impl NodeState {
    pub(super) fn counters(&self, resources: &[Resource], now: NodeTime) -> Result<Counters, Answer> {
        let found = resources
            .iter()
            .map(|resource| {
                self.counter(resource, now).map(|counter| check_counter(counter.value)).transpose()
            })
            .collect::<Result<Vec<_>, _>>()?;
        let largest = found.iter().copied().flatten().max().unwrap_or(0);
        Ok(Counters { found, largest })
    }

    /// Moves a counter; each use sees to it that it is remembered for the counter's ttl. It lives
    /// for half as long again, so that few uses have to prolong it.
    pub(super) fn count(
        &mut self,
        parameters: &QuorumParameters,
        resource: &Resource,
        value: u64,
        now: NodeTime,
    ) {
        let ttl = parameters.counter_ttl;
        let stored = self.counter(resource, now).map(|counter| counter.expires_at);
        let expires_at = stored.filter(|stored| stored.remaining(now) >= ttl).unwrap_or(now + ttl + ttl / 2);
        self.set_counter(resource, Some(Counter { value, expires_at }));
    }

    /// Votes are above it.
    pub(super) fn minimum_token(&self) -> Result<u64, Answer> {
        let metadata = self.metadata();
        metadata.map_or(Ok(0), |metadata| check_counter(metadata.minimum_token))
    }
}
