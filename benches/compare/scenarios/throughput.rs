//! Many tasks of one client, each with a separate resource.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::{Effort, NODES};
use crate::{
    Problem,
    compare::{
        contestant::{Contender, Contestant},
        sample::Sample,
        section::Section,
        servers::Servers,
        verdict::{Target, Verdict},
    },
};

/// The number of tasks, the milliseconds of a quick round, and the minimum ratio of our pairs per
/// second to the pairs per second of rslock. With more tasks, rounds are longer, because each pair
/// takes longer, and pairs that are unfinished at the end of a round do not count.
const LEVELS: [(usize, u64, Option<f64>); 3] =
    [(64, 100, None), (256, 200, Some(1.5)), (1024, 350, Some(2.0))];

pub(super) async fn run(effort: Effort) -> Result<Section, Problem> {
    let servers = Servers::start(NODES).await;
    let contestants = Contestant::three(&servers).await?;
    let rounds = effort.pick(5, 9);
    let columns = LEVELS.map(|(tasks, ..)| format!("{tasks}_tasks_per_s"));
    let mut section =
        Section::new("throughput", "lock + unlock per second, a resource for each task, 5 nodes", columns);
    let mut medians = vec![Vec::new(); contestants.len()];
    let mut failed = vec![0; contestants.len()];
    let mut verdicts = Vec::new();
    for (tasks, quick, target) in LEVELS {
        let lasts = effort.pick(Duration::from_millis(quick), Duration::from_secs(1));
        let mut rates = vec![Sample::default(); contestants.len()];
        for round in 0..rounds {
            for turn in 0..contestants.len() {
                let at = (round + turn) % contestants.len();
                let outcome = measure(&contestants[at], tasks, lasts).await?;
                rates[at].push(outcome.pairs as f64 / lasts.as_secs_f64());
                failed[at] += outcome.failed;
            }
        }
        for (median, rate) in medians.iter_mut().zip(&rates) {
            median.push(rate.median());
        }
        if let [ours, rival, floor] = &*rates {
            let (to_rival, to_floor) = (ours.ratio_to(rival), ours.ratio_to(floor));
            let target = target.map(Target::AtLeast);
            verdicts.push(Verdict::of_ratio(format!("{tasks} tasks, ours / rslock"), to_rival, target));
            verdicts.push(Verdict::of_ratio(format!("{tasks} tasks, ours / floor"), to_floor, None));
        }
    }
    for (contestant, medians) in contestants.iter().zip(medians) {
        section.row(contestant.to_string(), medians);
    }
    section.verdicts = verdicts;
    for (contestant, failed) in contestants.iter().zip(failed) {
        if let Contestant::Ours(_) = contestant {
            section.verdict(Verdict::of("failed calls, ours", failed as f64, Target::AtMost(0.0)));
        } else if failed > 0 {
            section.verdict(Verdict::of(format!("failed calls, {contestant}"), failed as f64, None));
        }
    }
    Ok(section)
}

#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    pairs: u64,
    failed: u64,
}

async fn measure(contestant: &Contestant, tasks: usize, lasts: Duration) -> Result<Outcome, Problem> {
    let mut running = JoinSet::new();
    let end = Instant::now() + lasts;
    for task in 0..tasks {
        running.spawn(lock_until(end, contestant.contender(&task.to_string())));
    }
    let mut sum = Outcome::default();
    while let Some(outcome) = running.join_next().await {
        let outcome = outcome?;
        sum.pairs += outcome.pairs;
        sum.failed += outcome.failed;
    }
    Ok(sum)
}

/// Locks and unlocks until the end. A pair that is finished later does not count.
async fn lock_until(end: Instant, mut contender: Contender) -> Outcome {
    let mut outcome = Outcome::default();
    while Instant::now() < end {
        match contender.lock_and_unlock().await {
            Ok(()) if Instant::now() < end => outcome.pairs += 1,
            Ok(()) => {}
            Err(_) => outcome.failed += 1,
        }
    }
    outcome
}
