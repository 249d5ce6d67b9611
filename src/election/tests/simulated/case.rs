//! One case of a simulated election: candidates and an observer under a schedule of faults.

use std::{fmt, pin::pin, sync::Arc, time::Duration};

use futures::future::{Either, select};
use proptest::prelude::*;

use super::record::{ElectionRecord, ProclaimedValue};
use crate::{
    Quorum, RestartGuard,
    election::{Election, Leadership},
    sim::{Failure, Fault, Memory, Process, Promises, Report, Schedule, Schedules, Simulation},
};

/// One case: the faults, and the campaigns of each candidate. The last client only observes.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) schedule: Schedule,
    pub(super) candidates: Vec<Vec<Turn>>,
    pub(super) guard: RestartGuard,
    /// Whether each leader checks that a query returns the term of the leader while its lease is valid. Set only in
    /// cases whose only faults are late requests.
    pub(super) checks_visibility: bool,
}

/// One campaign of a candidate, and the actions of the elected leader.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// The pause before the campaign.
    pub(super) rest: Duration,
    /// The time for which the candidate leads.
    pub(super) hold: Duration,
    /// The number of times that the leader changes its value.
    pub(super) changes: u32,
    /// Whether the leader resigns at the end. Otherwise, the leadership is dropped.
    pub(super) resigns: bool,
}

const TTL: Duration = Duration::from_secs(20);

const DRIFT: f64 = 0.01;

/// The longest time without a leader if the leader is killed and notices are lost: the ttl of the killed leader, and
/// the longest time between two fallback polls.
pub(super) const LONGEST_VACANCY: Duration = Duration::from_secs(20 + 8);

impl Case {
    pub(super) fn strategy(
        schedules: &Schedules,
    ) -> impl Strategy<Value = Self> + Clone + Send + Sync + use<> {
        let candidates = prop::collection::vec(prop::collection::vec(turn(), 1..=3), 8);
        (schedules.strategy(), candidates).prop_map(|(schedule, mut candidates)| {
            candidates.truncate(schedule.processes - 1);
            Self { schedule, candidates, guard: RestartGuard::PerConnection, checks_visibility: false }
        })
    }

    /// Returns the same case with leaders that lead for at most 20 ms, and then resign. Nodes keep their data in every
    /// restart, and have no quarantine.
    pub(super) fn with_short_leaderships(mut self) -> Self {
        self.guard = RestartGuard::Off;
        self.schedule.faults.retain(|timed| !matches!(timed.fault, Fault::Flush { .. }));
        for timed in &mut self.schedule.faults {
            if let Fault::Crash { memory, .. } = &mut timed.fault {
                *memory = Memory::Kept;
            }
        }
        for turn in self.candidates.iter_mut().flatten() {
            let longest = Duration::from_millis(20);
            (turn.rest, turn.hold) = (turn.rest.min(longest), turn.hold.min(longest));
            turn.resigns = true;
        }
        self
    }

    /// Runs the case, and checks the promises that hold under its schedule.
    pub(super) fn check(&self) -> Result<Report, Box<Failure>> {
        let record = Arc::new(ElectionRecord::default());
        let duration = self.schedule.faults_end() + self.longest_work() + 2 * LONGEST_VACANCY;
        let report = Simulation::new(self.schedule.clone()).horizon(2 * duration).run(|client| {
            let (record, turns) = (Arc::clone(&record), self.candidates.get(client.index()).cloned());
            let (guard, checks_visibility) = (self.guard, self.checks_visibility);
            async move {
                let quorum = Quorum::builder().ttl(TTL).max_ttl(2 * TTL).drift(DRIFT);
                let quorum = quorum.restart_guard(guard).connect_simulated(&client).unwrap();
                match turns {
                    Some(turns) => {
                        let candidate = Candidate { client, quorum, record, checks_visibility };
                        candidate.run(&turns).await;
                    }
                    None => observe(&client, &quorum, &record, duration).await,
                }
            }
        });
        report.check(&self.promises())?;
        record.check(&report);
        Ok(report)
    }

    fn promises(&self) -> Promises {
        self.schedule.promises(DRIFT, self.guard)
    }

    /// Returns the longest time that all campaigns of the case can take, one after the other.
    fn longest_work(&self) -> Duration {
        let turns = self.candidates.iter().flatten();
        turns.map(|turn| turn.rest + turn.hold + LONGEST_VACANCY).sum()
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {:?}", self.schedule, self.candidates)
    }
}

fn turn() -> impl Strategy<Value = Turn> + Clone {
    let millis = |range: std::ops::RangeInclusive<u64>| range.prop_map(Duration::from_millis);
    let rest = prop_oneof![3 => millis(0..=10), 1 => millis(10..=10_000)];
    let hold = prop_oneof![2 => millis(0..=20), 3 => millis(20..=5_000), 2 => millis(5_000..=45_000)];
    (rest, hold, 0..3_u32, any::<bool>()).prop_map(|(rest, hold, changes, resigns)| Turn {
        rest,
        hold,
        changes,
        resigns,
    })
}

/// A client that campaigns, and the record of its proclamations.
struct Candidate {
    client: Process,
    quorum: Quorum,
    record: Arc<ElectionRecord>,
    checks_visibility: bool,
}

impl Candidate {
    /// Campaigns and leads, turn by turn.
    async fn run(&self, turns: &[Turn]) {
        for (campaign, turn) in (0..).zip(turns) {
            self.client.sleep(turn.rest).await;
            let mut value = ProclaimedValue { candidate: self.client.index(), campaign, number: 1 };
            let election = self.quorum.election("e");
            let Ok(leadership) = election.campaign(self.record.record_proclaimed(value)).await else {
                continue;
            };
            let lease = leadership.lease();
            {
                let lead = async {
                    for _ in 0..turn.changes {
                        self.lead_for(&election, &leadership, turn.hold / (turn.changes + 1)).await;
                        value.number += 1;
                        let _is_recorded = leadership.proclaim(self.record.record_proclaimed(value)).await;
                    }
                    self.lead_for(&election, &leadership, turn.hold / (turn.changes + 1)).await;
                };
                let lost = pin!(self.client.lost(&lease));
                if let Either::Right(_) = select(pin!(lead), lost).await {
                    assert!(
                        !self.client.check_valid(&lease),
                        "the lease of a leader is valid after the report of its loss"
                    );
                }
            }
            let is_valid = self.client.check_valid(&lease);
            if turn.resigns {
                let resigned = leadership.resign().await;
                assert!(is_valid || resigned.is_err(), "a candidate without a valid lease has resigned");
            } else {
                drop(leadership);
            }
        }
    }

    /// Lets time pass. If `checks_visibility` is set, also checks ten times that a query returns this
    /// candidate as the leader.
    async fn lead_for(&self, election: &Election, leadership: &Leadership, duration: Duration) {
        if !self.checks_visibility {
            return self.client.sleep(duration).await;
        }
        for _ in 0..10 {
            self.client.sleep(duration / 10).await;
            let answer = election.leader().await;
            if leadership.is_valid()
                && let Ok(leader) = answer
            {
                let term = leader.map(|leader| leader.term());
                assert_eq!(term, Some(leadership.term()), "a query does not return the leader");
            }
        }
    }
}

/// Observes the election for a time, and records the leaders that the stream returns.
async fn observe(client: &Process, quorum: &Quorum, record: &ElectionRecord, duration: Duration) {
    let mut leaders = quorum.election("e").observe().unwrap();
    let mut end = pin!(client.sleep(duration));
    loop {
        let leader = match select(pin!(leaders.next()), end.as_mut()).await {
            Either::Left((leader, _)) => leader.unwrap(),
            Either::Right(_) => return,
        };
        record.record_observed(&leader);
    }
}
