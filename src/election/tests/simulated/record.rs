//! The values that candidates proclaimed and that the observer returned, in one case.

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

/// A value that a candidate proclaims. Each value of a case is unique, because the value has the candidate, the
/// number of its campaign, and the number of the value in that campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProclaimedValue {
    pub(super) candidate: usize,
    pub(super) campaign: usize,
    pub(super) number: u32,
}

/// The values that candidates proclaimed and that the observer returned, in one case.
#[derive(Debug, Default)]
pub(super) struct ElectionRecord {
    proclaimed: Mutex<BTreeSet<ProclaimedValue>>,
    /// The terms and values in the order in which the observer returned them.
    observed: Mutex<Vec<(FencingToken, ProclaimedValue)>>,
}

impl ElectionRecord {
    /// Records a value before its proclamation, and returns the text to send.
    pub(super) fn record_proclaimed(&self, value: ProclaimedValue) -> String {
        lock(&self.proclaimed).insert(value);
        value.to_string()
    }

    /// Records a leader that the observer returned. Panics if no candidate proclaimed the value, or if the leader and
    /// the value are not newer than in the last record.
    pub(super) fn record_observed(&self, leader: &Leader) {
        let value: ProclaimedValue = leader.value_str().parse().unwrap();
        assert!(lock(&self.proclaimed).contains(&value), "{value} was never proclaimed");
        let mut observed = lock(&self.observed);
        let last = observed.last().map(|(term, last)| (*term, last.number));
        let now = (leader.term(), value.number);
        assert!(last < Some(now), "the observer went back from {last:?} to {now:?}");
        observed.push((leader.term(), value));
    }

    /// Checks that the candidate of each observed value was elected in the observed term.
    pub(super) fn check(&self, report: &Report) {
        let elected: BTreeMap<FencingToken, usize> =
            report.history.entries().iter().filter_map(election).collect();
        for (term, value) in lock(&self.observed).iter() {
            assert_eq!(elected.get(term), Some(&value.candidate), "{value} was observed in term {term}");
        }
    }
}

/// Returns the term and the candidate, if the entry is an election.
fn election(entry: &history::Entry) -> Option<(FencingToken, usize)> {
    match entry.event {
        Event::Granted { token, .. } => Some((token, entry.process)),
        _ => None,
    }
}

/// Whether the event is an election: the grant of a lease.
pub(super) fn is_election(event: &Event) -> bool {
    matches!(event, Event::Granted { .. })
}

impl fmt::Display for ProclaimedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.candidate, self.campaign, self.number)
    }
}

impl FromStr for ProclaimedValue {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = text.split(' ');
        let mut word = || words.next().unwrap_or_default();
        Ok(Self { candidate: word().parse()?, campaign: word().parse()?, number: word().parse()? })
    }
}
