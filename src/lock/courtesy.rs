//! Letting others go first.

use std::{collections::HashMap, sync::Mutex};

use crate::{clock::Instant, mutex::lock, node::Resources};

/// Until when this client lets others go first, by what it unlocked while they waited.
///
/// Whoever unlocks and comes again at once asks all nodes before the notice of the release has reached anybody else. Those
/// who wait would lose to it again and again.
#[derive(Debug, Default)]
pub(crate) struct Courtesies {
    until: Mutex<HashMap<Resources, Instant>>,
}

impl Courtesies {
    /// Others wait for these resources, which were just unlocked.
    pub(crate) fn owe(&self, resources: &Resources, now: Instant, until: Instant) {
        let mut owed = lock(&self.until);
        owed.retain(|_, until| *until > now);
        owed.insert(resources.clone(), until);
    }

    /// Until when others go first, if they do. Asked once: whoever has let them go is a contender like any other.
    pub(crate) fn take(&self, resources: &Resources, now: Instant) -> Option<Instant> {
        lock(&self.until).remove(resources).filter(|until| *until > now)
    }
}
