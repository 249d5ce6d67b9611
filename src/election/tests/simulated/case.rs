//! Candidates and an observer, and what they do while things go wrong.

use std::{fmt, pin::pin, sync::Arc, time::Duration};

use futures::future::{Either, select};
use proptest::prelude::*;

use super::story::{Said, Story};
use crate::{
    Quorum, RestartGuard,
    election::{Election, Leadership},
    sim::{Failure, Fault, Memory, Process, Promises, Report, Schedule, Schedules, Simulation},
};

/// One run: what goes wrong, and what the candidates do. The last client only observes.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) schedule: Schedule,
    pub(super) candidates: Vec<Vec<Turn>>,
    pub(super) guard: RestartGuard,
    /// Whether a leader that nothing goes wrong with has to be shown as such.
    pub(super) is_shown: bool,
}

/// One campaign, and what the leader does.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// How long the candidate does something else before.
    pub(super) rest: Duration,
    /// How long it leads.
    pub(super) hold: Duration,
    /// How often it changes its value meanwhile.
    pub(super) changes: u32,
    pub(super) resigns: bool,
}

const TTL: Duration = Duration::from_secs(20);

const DRIFT: f64 = 0.01;

/// As long as there may be no leader when notices are lost: the ttl of one that was killed, and the
/// longest fallback poll with its jitter.
pub(super) const LONGEST_VACANCY: Duration = Duration::from_secs(20 + 8);

impl Case {
    pub(super) fn strategy(
        schedules: &Schedules,
    ) -> impl Strategy<Value = Self> + Clone + Send + Sync + use<> {
        let candidates = prop::collection::vec(prop::collection::vec(turn(), 1..=3), 8);
        (schedules.strategy(), candidates).prop_map(|(schedule, mut candidates)| {
            candidates.truncate(schedule.processes - 1);
            Self { schedule, candidates, guard: RestartGuard::PerConnection, is_shown: false }
        })
    }

    /// The same with leaders that lead for a moment, and then resign. Nodes remember every vote,
    /// and stay out of none.
    pub(super) fn hurried(mut self) -> Self {
        self.guard = RestartGuard::Off;
        self.schedule.faults.retain(|timed| !matches!(timed.fault, Fault::Flush { .. }));
        for timed in &mut self.schedule.faults {
            if let Fault::Crash { memory, .. } = &mut timed.fault {
                *memory = Memory::Kept;
            }
        }
        for turn in self.candidates.iter_mut().flatten() {
            let moment = Duration::from_millis(20);
            (turn.rest, turn.hold) = (turn.rest.min(moment), turn.hold.min(moment));
            turn.resigns = true;
        }
        self
    }

    /// Runs it, and holds it to the promises that its schedule leaves standing.
    pub(super) fn check(&self) -> Result<Report, Box<Failure>> {
        let story = Arc::new(Story::default());
        let lasts = self.schedule.faults_end() + self.work() + 2 * LONGEST_VACANCY;
        let report = Simulation::new(self.schedule.clone()).horizon(2 * lasts).run(|client| {
            let (story, turns) = (Arc::clone(&story), self.candidates.get(client.index()).cloned());
            let (guard, is_shown) = (self.guard, self.is_shown);
            async move {
                let quorum = Quorum::builder().ttl(TTL).max_ttl(2 * TTL).drift(DRIFT);
                let quorum = quorum.restart_guard(guard).connect_simulated(&client).unwrap();
                match turns {
                    Some(turns) => {
                        let candidate = Candidate { client, quorum, story, is_shown };
                        candidate.run(&turns).await;
                    }
                    None => observe(&client, &quorum, &story, lasts).await,
                }
            }
        });
        report.check(&self.promises())?;
        story.check(&report);
        Ok(report)
    }

    fn promises(&self) -> Promises {
        self.schedule.promises(DRIFT, self.guard)
    }

    fn work(&self) -> Duration {
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

/// One who wants to lead.
struct Candidate {
    client: Process,
    quorum: Quorum,
    story: Arc<Story>,
    is_shown: bool,
}

impl Candidate {
    async fn run(&self, turns: &[Turn]) {
        for (round, turn) in (0..).zip(turns) {
            self.client.sleep(turn.rest).await;
            let mut said = Said { candidate: self.client.index(), round, number: 1 };
            let election = self.quorum.election("e");
            let Ok(leadership) = election.campaign(self.story.say(said)).await else { continue };
            let lease = leadership.lease();
            {
                let lead = async {
                    for _ in 0..turn.changes {
                        self.rest(&election, &leadership, turn.hold / (turn.changes + 1)).await;
                        said.number += 1;
                        let _is_kept = leadership.proclaim(self.story.say(said)).await;
                    }
                    self.rest(&election, &leadership, turn.hold / (turn.changes + 1)).await;
                };
                let lost = pin!(self.client.lost(&lease));
                if let Either::Right(_) = select(pin!(lead), lost).await {
                    assert!(!self.client.check_valid(&lease), "a leader that is told of its loss leads");
                }
            }
            let is_leader = self.client.check_valid(&lease);
            if turn.resigns {
                let resigned = leadership.resign().await;
                assert!(is_leader || resigned.is_err(), "one that did not lead has resigned");
            } else {
                drop(leadership);
            }
        }
    }

    /// Does nothing for a while but to look, where that is asked for, whether it is shown as the
    /// leader that it is.
    async fn rest(&self, election: &Election, leadership: &Leadership, duration: Duration) {
        if !self.is_shown {
            return self.client.sleep(duration).await;
        }
        for _ in 0..10 {
            self.client.sleep(duration / 10).await;
            let shown = election.leader().await;
            if leadership.is_valid()
                && let Ok(leader) = shown
            {
                let term = leader.map(|leader| leader.term());
                assert_eq!(term, Some(leadership.term()), "a leader is not shown");
            }
        }
    }
}

/// Observes for so long.
async fn observe(client: &Process, quorum: &Quorum, story: &Story, lasts: Duration) {
    let mut leaders = quorum.election("e").observe().unwrap();
    let mut end = pin!(client.sleep(lasts));
    loop {
        let leader = match select(pin!(leaders.next()), end.as_mut()).await {
            Either::Left((leader, _)) => leader.unwrap(),
            Either::Right(_) => return,
        };
        story.see(&leader);
    }
}
