//! The hand-off: from one client's unlock to the lock of a waiter in a second client.

use std::time::{Duration, Instant};

use super::{Effort, NODES};
use crate::{
    Problem,
    compare::{
        contestant::TTL,
        floor::Floor,
        sample::{Sample, millis},
        section::Section,
        servers::Servers,
        verdict::{Target, Verdict},
    },
};

/// The shortest time for which a holder keeps the resource: long enough for our waiter to subscribe.
const MIN_HOLD: Duration = Duration::from_millis(30);
/// The range of the random time that is added to `MIN_HOLD`. Without a random part, the unlocks would be
/// in step with rslock's retries, which are up to 200 ms apart.
const HOLD_RANGE: Duration = Duration::from_millis(60);

/// Two clients of one kind that hand a resource back and forth.
trait Pair: Send + Sync + 'static {
    type Guard: Send + 'static;

    /// Locks by the client of this number, without a time limit.
    fn lock(&self, client: usize) -> impl Future<Output = Result<Self::Guard, Problem>> + Send;

    fn unlock(&self, guard: Self::Guard) -> impl Future<Output = Result<(), Problem>> + Send;
}

struct Ours([redquorum::RedLock; 2]);

struct Rival([rslock::LockManager; 2]);

pub(super) async fn run(effort: Effort) -> Result<Section, Problem> {
    let servers = Servers::start(NODES).await;
    let ours = Ours([servers.ours().await?, servers.ours().await?].map(|quorum| quorum.red_lock("handed")));
    let (ours, rival) = (std::sync::Arc::new(ours), Rival([servers.rival(), servers.rival()]));
    let rival = std::sync::Arc::new(rival);
    let floor = Floor::of_our_scripts(&servers).await?;
    let (mut our_medians, mut rival_medians, mut floor_medians) = <(Sample, Sample, Sample)>::default();
    let (mut our_times, mut rival_times) = <(Sample, Sample)>::default();
    let mut floor_times = Sample::default();
    for _ in 0..effort.pick(3, 12) {
        let one_round = floor_locks(&floor, effort.pick(8, 25)).await?;
        floor_medians.push(one_round.median());
        floor_times.extend(&one_round);
        let times = hand_off_repeatedly(&ours, effort.pick(8, 25)).await?;
        our_medians.push(times.median());
        our_times.extend(&times);
        let times = hand_off_repeatedly(&rival, effort.pick(12, 15)).await?;
        rival_medians.push(times.median());
        rival_times.extend(&times);
    }
    let mut section =
        Section::new("handoff", "start of unlock to the other client's lock", ["median_ms", "p99_ms"]);
    section.row("ours", [our_medians.median(), our_times.percentile(0.99)]);
    section.row("rslock", [rival_medians.median(), rival_times.percentile(0.99)]);
    section.row("floor", [floor_medians.median(), floor_times.percentile(0.99)]);
    let to_floor = our_medians.ratio_to(&floor_medians);
    section.verdict(Verdict::of_ratio(
        "median, ours / one round of the floor",
        to_floor,
        Target::AtMost(1.75),
    ));
    let to_rival = rival_medians.ratio_to(&our_medians);
    section.verdict(Verdict::of_ratio("median, rslock / ours", to_rival, Target::AtLeast(50.0)));
    Ok(section)
}

/// Returns the milliseconds of each lock without its unlock: one round trip to all nodes.
///
/// The pause before each lock is as long as the pause before a hand-off, so that idle processors and cold caches slow
/// down both in the same way.
async fn floor_locks(floor: &Floor, rounds: usize) -> Result<Sample, Problem> {
    let mut task = floor.task("floor:handed");
    let mut sample = Sample::default();
    for _ in 0..rounds {
        pause().await;
        let begin = Instant::now();
        let lock = task.lock().await?;
        sample.push(millis(begin.elapsed()));
        task.unlock(lock).await?;
    }
    Ok(sample)
}

/// Returns the milliseconds from the start of each unlock to the lock of the second client.
async fn hand_off_repeatedly<P: Pair>(pair: &std::sync::Arc<P>, times: usize) -> Result<Sample, Problem> {
    let mut sample = Sample::default();
    let mut guard = pair.lock(0).await?;
    for time in 1..=times {
        let waiter = std::sync::Arc::clone(pair);
        let waiting = tokio::spawn(async move {
            let guard = waiter.lock(time % 2).await;
            (guard, Instant::now())
        });
        pause().await;
        let begin = Instant::now();
        let (unlocked, locked) = tokio::join!(pair.unlock(guard), waiting);
        unlocked?;
        let (next, at) = locked?;
        guard = next?;
        sample.push(millis(at - begin));
    }
    pair.unlock(guard).await?;
    Ok(sample)
}

async fn pause() {
    tokio::time::sleep(MIN_HOLD + HOLD_RANGE.mul_f64(rand::random())).await;
}

impl Pair for Ours {
    type Guard = redquorum::LockGuard;

    async fn lock(&self, client: usize) -> Result<Self::Guard, Problem> {
        Ok(self.0[client].lock().await?)
    }

    async fn unlock(&self, guard: Self::Guard) -> Result<(), Problem> {
        guard.unlock().await?;
        Ok(())
    }
}

impl Pair for Rival {
    type Guard = rslock::LockGuard;

    /// Locks by `acquire` of rslock, which retries until success, because its `lock` fails after three tries.
    async fn lock(&self, client: usize) -> Result<Self::Guard, Problem> {
        Ok(self.0[client].acquire("rslock:handed", TTL).await?)
    }

    async fn unlock(&self, guard: Self::Guard) -> Result<(), Problem> {
        guard.release().await;
        Ok(())
    }
}
