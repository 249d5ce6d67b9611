//! Letting others go first.

use std::{collections::HashMap, sync::Mutex};

use crate::{
    clock::Instant,
    mutation::{self, Mutation},
    mutex::lock,
    node::Resources,
};

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
        let until = lock(&self.until).remove(resources).filter(|until| *until > now);
        until.filter(|_| !mutation::is_on(Mutation::ComeAgainAtOnce))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::node::entries::resources;

    fn at(milliseconds: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(milliseconds))
    }

    #[test]
    fn what_is_owed_is_given_once_and_in_time_and_only_for_its_resources() {
        let courtesies = Courtesies::default();
        courtesies.owe(&resources("a"), at(0), at(5));
        assert_eq!(courtesies.take(&resources("b"), at(1)), None);
        assert_eq!(courtesies.take(&resources("a"), at(1)), Some(at(5)));
        assert_eq!(courtesies.take(&resources("a"), at(2)), None);
        courtesies.owe(&resources("a"), at(10), at(15));
        assert_eq!(courtesies.take(&resources("a"), at(15)), None);
    }

    #[test]
    fn what_is_over_is_forgotten() {
        let courtesies = Courtesies::default();
        courtesies.owe(&resources("a"), at(0), at(5));
        courtesies.owe(&resources("b"), at(5), at(9));
        assert_eq!(lock(&courtesies.until).len(), 1);
    }
}
