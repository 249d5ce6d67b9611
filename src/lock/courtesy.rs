//! Letting others go first.

use std::{collections::HashMap, sync::Mutex};

use crate::{
    clock::Instant,
    mutation::{self, Mutation},
    mutex::lock,
    node::Resources,
};

/// What this client owes to others, by what it unlocked while they waited.
///
/// Whoever unlocks and comes again at once asks all nodes before the notice of the release has reached anybody else. Those
/// who wait would lose to it again and again.
#[derive(Debug, Default)]
pub(crate) struct Courtesies {
    owed: Mutex<HashMap<Resources, Courtesy>>,
}

/// For how long, and for how many, this client stands back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Courtesy {
    /// Until then nothing is asked.
    pub(crate) until: Instant,
    /// How many listened for the release.
    pub(crate) others: u32,
}

impl Courtesies {
    /// Others wait for these resources, which were just unlocked.
    pub(crate) fn owe(&self, resources: &Resources, now: Instant, courtesy: Courtesy) {
        let mut owed = lock(&self.owed);
        owed.retain(|_, courtesy| courtesy.until > now);
        owed.insert(resources.clone(), courtesy);
    }

    /// What is owed, if anything is. Asked once: whoever has let others go contends with them.
    pub(crate) fn take(&self, resources: &Resources, now: Instant) -> Option<Courtesy> {
        let courtesy = lock(&self.owed).remove(resources).filter(|courtesy| courtesy.until > now);
        courtesy.filter(|_| !mutation::is_on(Mutation::ComeAgainAtOnce))
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

    fn until(milliseconds: u64) -> Courtesy {
        Courtesy { until: at(milliseconds), others: 3 }
    }

    #[test]
    fn what_is_owed_is_given_once_and_in_time_and_only_for_its_resources() {
        let courtesies = Courtesies::default();
        courtesies.owe(&resources("a"), at(0), until(5));
        assert_eq!(courtesies.take(&resources("b"), at(1)), None);
        assert_eq!(courtesies.take(&resources("a"), at(1)), Some(until(5)));
        assert_eq!(courtesies.take(&resources("a"), at(2)), None);
        courtesies.owe(&resources("a"), at(10), until(15));
        assert_eq!(courtesies.take(&resources("a"), at(15)), None);
    }

    #[test]
    fn what_is_over_is_forgotten() {
        let courtesies = Courtesies::default();
        courtesies.owe(&resources("a"), at(0), until(5));
        courtesies.owe(&resources("b"), at(5), until(9));
        assert_eq!(lock(&courtesies.owed).len(), 1);
    }
}
