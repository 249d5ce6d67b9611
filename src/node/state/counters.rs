//! The fencing counters of the resources of one operation.

use crate::{
    node::{
        operation::Answer,
        parameters::QuorumParameters,
        state::{Counter, NodeState, NodeTime},
    },
    values::{NodeError, Resource},
};

/// The largest counter. Above this number, the doubles of Lua and of JSON readers skip integers.
pub(crate) const LARGEST_COUNTER: u64 = (1 << 53) - 1;

/// The number of votes for each second of the node's time.
///
/// A missing counter counts as the node's time in whole seconds, multiplied by this number. Therefore nodes whose
/// clocks agree also agree on the value of a missing counter, except around the start of a second. A lost counter
/// begins again above the earlier votes for its resource, under these conditions:
///
/// * The clock of the node has not stepped back.
/// * No hint, write-back or renewal has moved the counter ahead of the node's time.
/// * The resource was locked less than a million times a second.
const STEPS_PER_SECOND: u64 = 1_000_000;

/// The number of seconds by which the hint of a lock may move a counter ahead of the node's time. The hint is one more
/// than the largest counter that the client has seen. Without the limit, a faulty client could raise the counter of a
/// resource to the largest counter.
const HINT_AHEAD: u64 = 3600;

/// The counters of the resources of one operation, before it is executed.
pub(super) struct Counters {
    /// The counters, in the order of the resources.
    pub(super) found: Vec<Option<u64>>,
    /// The largest counter that was found; 0 if there is none.
    pub(super) largest: u64,
}

impl Counters {
    pub(super) fn is_any_missing(&self) -> bool {
        self.found.contains(&None)
    }

    /// Returns the largest counter. A missing counter counts as [`start`].
    pub(super) fn largest_or_start(&self, now: NodeTime) -> u64 {
        if self.is_any_missing() { self.largest.max(start(now)) } else { self.largest }
    }
}

/// Returns the value that a missing counter counts as.
pub(super) fn start(now: NodeTime) -> u64 {
    now.seconds().saturating_mul(STEPS_PER_SECOND)
}

/// Returns the minimum token for a node that may have forgotten votes. Every later vote of the node exceeds this
/// number. No earlier vote does, under the conditions of [`STEPS_PER_SECOND`].
pub(super) fn minimum_token_at(now: NodeTime) -> u64 {
    (now.seconds() + 1).saturating_mul(STEPS_PER_SECOND)
}

/// Returns the value to which the hint of a lock raises a counter, so that the next vote is the hint. The value is
/// limited by [`HINT_AHEAD`].
pub(super) fn hinted_counter(hint: u64, now: NodeTime) -> u64 {
    let cap = now.seconds().saturating_add(HINT_AHEAD).saturating_mul(STEPS_PER_SECOND);
    hint.saturating_sub(1).min(cap)
}

/// Returns the number, or an error if no counter can have this value.
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

    /// Stores the value of a counter. If less than the counter ttl remains of the counter's ttl, sets a new ttl, which
    /// is 1.5 times the counter ttl. Thus few uses have to set a new ttl.
    pub(super) fn store_counter(
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

    /// Returns the minimum token, which every vote exceeds; 0 without metadata.
    pub(super) fn minimum_token(&self) -> Result<u64, Answer> {
        let metadata = self.metadata();
        metadata.map_or(Ok(0), |metadata| check_counter(metadata.minimum_token))
    }
}
