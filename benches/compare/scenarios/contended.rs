//! Clients that compete for one resource and lock again at once.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use redquorum::RedLock;
use rslock::LockManager;

use super::{Effort, NODES};
use crate::{
    Problem,
    compare::{
        contestant::TTL,
        sample::{Sample, millis},
        section::Section,
        servers::Servers,
        verdict::{Target, Verdict},
    },
};

const CLIENTS: usize = 8;
/// The time for which a client holds the resource.
const HOLD: Duration = Duration::from_millis(1);

/// A client with separate connections.
#[derive(Clone)]
enum Competitor {
    Ours(RedLock),
    Rival(LockManager),
}

/// The results of one client in one round.
#[derive(Clone, Debug, Default)]
struct Score {
    grants: u64,
    /// The locks and unlocks that failed.
    failed: u64,
    /// The milliseconds until each grant.
    waits: Sample,
}

pub(super) async fn run(effort: Effort) -> Result<Section, Problem> {
    let servers = Servers::start(NODES).await;
    let (mut ours, mut rivals) = (Vec::new(), Vec::new());
    for _ in 0..CLIENTS {
        let quorum = servers.ours().await?;
        ours.push(Competitor::Ours(quorum.red_lock("contended")));
        rivals.push(Competitor::Rival(servers.rival()));
    }
    let lasts = effort.pick(Duration::from_millis(600), Duration::from_secs(10));
    let mut sides = [(ours, Side::default()), (rivals, Side::default())];
    for _ in 0..3 {
        for (competitors, side) in &mut sides {
            side.add(&compete(competitors, lasts).await?, lasts);
        }
    }
    let columns =
        ["grants_per_s", "failed", "wait_p50_ms", "wait_p99_ms", "wait_max_ms", "wait_mean_ms", "fairness"];
    let title = "8 clients, one resource, held for 1 ms (fairness: grants of the luckiest / unluckiest)";
    let mut section = Section::new("contended", title, columns);
    let [(_, ours), (_, rival)] = &sides;
    section.add_row("ours", ours.figures());
    section.add_row("rslock", rival.figures());
    section.add_verdict(Verdict::of("failed calls, ours", ours.failed as f64, Target::AtMost(0.0)));
    section.add_verdict(Verdict::of(
        "luckiest / unluckiest client, ours",
        ours.fairness(),
        Target::AtMost(1.1),
    ));
    let tail = ours.waits.percentile(0.99) / ours.waits.mean();
    section.add_verdict(Verdict::of("p99 wait / mean wait, ours", tail, Target::AtMost(1.5)));
    section.add_verdict(Verdict::of("longest wait, ours, ms", ours.waits.max(), Target::AtMost(30.0)));
    Ok(section)
}

/// The results of one kind of client over all rounds.
#[derive(Debug, Default)]
struct Side {
    /// The grants per second in each round.
    rates: Sample,
    waits: Sample,
    /// The grants of each client over all rounds.
    grants: Vec<u64>,
    failed: u64,
}

impl Side {
    fn add(&mut self, scores: &[Score], lasts: Duration) {
        let grants: u64 = scores.iter().map(|score| score.grants).sum();
        self.rates.push(grants as f64 / lasts.as_secs_f64());
        self.grants.resize(scores.len(), 0);
        for (sum, score) in self.grants.iter_mut().zip(scores) {
            *sum += score.grants;
            self.failed += score.failed;
            self.waits.extend(&score.waits);
        }
    }

    /// Returns the ratio of the luckiest client's grants to the unluckiest client's.
    fn fairness(&self) -> f64 {
        let grants = || self.grants.iter().map(|grants| *grants as f64);
        grants().fold(0.0, f64::max) / grants().fold(f64::INFINITY, f64::min)
    }

    fn figures(&self) -> [f64; 7] {
        let Self { rates, waits, .. } = self;
        let (median, tail) = (waits.median(), waits.percentile(0.99));
        [rates.median(), self.failed as f64, median, tail, waits.max(), waits.mean(), self.fairness()]
    }
}

async fn compete(competitors: &[Competitor], lasts: Duration) -> Result<Vec<Score>, Problem> {
    let end = Instant::now() + lasts;
    let running = competitors.iter().map(|competitor| tokio::spawn(lock_until(end, competitor.clone())));
    try_join_all(running).await?.into_iter().collect()
}

/// Locks, holds and unlocks until the end. A grant after the end does not count as a grant.
async fn lock_until(end: Instant, competitor: Competitor) -> Result<Score, Problem> {
    let mut score = Score::default();
    while Instant::now() < end {
        let begin = Instant::now();
        let has_succeeded = match &competitor {
            Competitor::Ours(lock) => match lock.lock().await {
                Ok(guard) => {
                    score.count(begin, end);
                    tokio::time::sleep(HOLD).await;
                    guard.unlock().await.is_ok()
                }
                Err(_) => false,
            },
            Competitor::Rival(manager) => match manager.lock("rslock:contended", TTL).await {
                Ok(lock) => {
                    score.count(begin, end);
                    tokio::time::sleep(HOLD).await;
                    manager.unlock(&lock).await;
                    true
                }
                Err(_) => false,
            },
        };
        score.failed += u64::from(!has_succeeded);
    }
    Ok(score)
}

impl Score {
    fn count(&mut self, begin: Instant, end: Instant) {
        let now = Instant::now();
        // If a task still waits at the end, its wait is at least the time until then.
        self.waits.push(millis(now.min(end) - begin));
        self.grants += u64::from(now < end);
    }
}
