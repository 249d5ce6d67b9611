//! The values that candidates proclaimed and observers received in one run.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
    sync::Mutex,
};

use crate::{
    FencingToken,
    election::Leader,
    mutex::lock,
    sim::{
        Report,
        history::{self, Event},
    },
};

/// A value, which says whose it is. No other one of the run is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Said {
    pub(super) candidate: usize,
    pub(super) round: usize,
    pub(super) number: u32,
}

/// The values that candidates proclaimed and observers received in one run.
#[derive(Debug, Default)]
pub(super) struct Story {
    said: Mutex<BTreeSet<Said>>,
    /// In the order in which the observer saw it.
    seen: Mutex<Vec<(FencingToken, Said)>>,
}

impl Story {
    /// Notes a value that is about to be proclaimed, and returns it as it is sent.
    pub(super) fn say(&self, said: Said) -> String {
        lock(&self.said).insert(said);
        said.to_string()
    }

    /// The observer sees a leader.
    pub(super) fn see(&self, leader: &Leader) {
        let said: Said = leader.value_str().parse().unwrap();
        assert!(lock(&self.said).contains(&said), "{said} was never proclaimed");
        let mut seen = lock(&self.seen);
        let last = seen.last().map(|(term, last)| (*term, last.number));
        let now = (leader.term(), said.number);
        assert!(last < Some(now), "went back from {last:?} to {now:?}");
        seen.push((leader.term(), said));
    }

    /// Every leader that was seen was elected, in that term.
    pub(super) fn check(&self, report: &Report) {
        let elected: BTreeMap<FencingToken, usize> =
            report.history.entries().iter().filter_map(election).collect();
        for (term, said) in lock(&self.seen).iter() {
            assert_eq!(elected.get(term), Some(&said.candidate), "{said} was seen in term {term}");
        }
    }
}

fn election(entry: &history::Entry) -> Option<(FencingToken, usize)> {
    match entry.event {
        Event::Granted { token, .. } => Some((token, entry.process)),
        _ => None,
    }
}

pub(super) fn is_election(event: &Event) -> bool {
    matches!(event, Event::Granted { .. })
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.candidate, self.round, self.number)
    }
}

impl FromStr for Said {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = text.split(' ');
        let mut word = || words.next().unwrap_or_default();
        Ok(Self { candidate: word().parse()?, round: word().parse()?, number: word().parse()? })
    }
}
