//! Permits: the cost of a permit compared with a lock, the share of permits in use under contention,
//! and the cost of a newcomer at a full semaphore.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use futures::future::try_join_all;
use rand::RngExt;
use redquorum::{LockOptions, Quorum, Semaphore};
use tokio::time::sleep;

use super::{Effort, NODES};
use crate::{
    Problem,
    compare::{
        distance::Distance,
        sample::{Sample, micros},
        section::Section,
        servers::Servers,
        verdict::{Target, Verdict},
    },
};

/// The delay to every node, one way. The delay is long enough that many clients do not exhaust the machine, and that
/// the resolution of timers suffices.
const DELAY: Duration = Duration::from_millis(10);

/// The number of round trips for which a permit is held.
const HOLD_ROUND_TRIPS: u32 = 10;

/// A fault of the first node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    Frozen,
    /// A round trip to the first node that takes ten milliseconds longer.
    Far,
}

pub(super) async fn run(effort: Effort) -> Result<Section, Problem> {
    let columns = ["in_use", "rounds", "commands"];
    let mut section =
        Section::new("semaphore", "permits of 5 nodes, 20 ms away: in use, waited for", columns);
    let (permit, lock) = permits_and_locks(effort).await?;
    let ratio = permit.ratio_to(&lock);
    section.verdict(Verdict::of_ratio("try_acquire + release / lock + unlock", ratio, Target::AtMost(1.3)));
    // A client rests ten times as long as an acquisition takes, so 57 % of the permits are held.
    let some_free = usage(10, 12, HOLD_ROUND_TRIPS, Fault::None, effort).await?;
    section.row("10 of 12, some free", some_free);
    section.verdict(Verdict::of("some free, median rounds per grant", some_free[1], Target::AtMost(1.5)));
    for permits in [4, 10] {
        for clients in [permits * 3 / 2, permits * 10] {
            for fault in [Fault::None, Fault::Frozen, Fault::Far] {
                let figures = usage(permits, clients as usize, 0, fault, effort).await?;
                let what = format!("{permits} of {clients}, {fault:?}").to_lowercase();
                section.row(&*what, figures);
                section.verdict(Verdict::of(format!("{what}, in use"), figures[0], Target::AtLeast(0.8)));
            }
        }
    }
    let [newcomer, release_watcher, waiting] = newcomer_costs().await?;
    let newcomer =
        Verdict::of("1,024 full, us of the busiest node, newcomer", newcomer, Target::AtMost(1000.0));
    section.verdict(newcomer);
    section.verdict(Verdict::of("to be release watcher, once", release_watcher, None));
    section.verdict(Verdict::of("and us of a node per waiting second", waiting, None));
    Ok(section)
}

/// Returns the microseconds of a permit and of a lock, each with its release, measured in turns.
async fn permits_and_locks(effort: Effort) -> Result<(Sample, Sample), Problem> {
    let servers = Servers::start(NODES).await;
    let quorum = servers.ours().await?;
    let (semaphore, lock) = (quorum.semaphore("s", 10), quorum.red_lock("r"));
    let (mut permits, mut locks) = <(Sample, Sample)>::default();
    for _ in 0..effort.pick(21, 61) {
        let mut each = <(Sample, Sample)>::default();
        for _ in 0..effort.pick(80, 300) {
            let begin = Instant::now();
            let permit = semaphore.try_acquire().await?.ok_or("a permit is free")?;
            permit.release().await?;
            each.0.push(micros(begin.elapsed()));
            let begin = Instant::now();
            lock.lock().await?.unlock().await?;
            each.1.push(micros(begin.elapsed()));
        }
        permits.push(each.0.median());
        locks.push(each.1.median());
    }
    Ok((permits, locks))
}

/// Returns the share of the permits in use, the round trips per grant, and the commands per grant.
/// Clients rest for `rest` round trips on average.
async fn usage(
    permits: u32,
    clients: usize,
    rest: u32,
    fault: Fault,
    effort: Effort,
) -> Result<[f64; 3], Problem> {
    let servers = Servers::start(NODES).await;
    let mut delays = [DELAY; NODES];
    delays[0] += if fault == Fault::Far { Duration::from_millis(5) } else { Duration::ZERO };
    let distance = Distance::of(&servers.urls(), &delays).await?;
    let connect = || Quorum::builder().nodes(distance.urls.clone()).admit_new_nodes().connect();
    let quorums: Vec<Quorum> = try_join_all((0..clients).map(|_| connect())).await?;
    let lock = quorums[0].red_lock("r");
    let mut trips = Sample::default();
    for _ in 0..20 {
        let begin = Instant::now();
        let guard = lock.lock().await?;
        trips.push(begin.elapsed().as_secs_f64());
        guard.unlock().await?;
    }
    let trip = Duration::from_secs_f64(trips.median());
    if fault == Fault::Frozen {
        servers.all().first().ok_or("there is a server")?.freeze().await;
    }
    let lasts = effort.pick(Duration::from_secs(3), Duration::from_secs(12));
    // The clients detect a silent node before the measured time begins.
    let from = Instant::now() + Duration::from_secs(1);
    let (held, plan) = (AtomicU64::new(0), Plan { from, until: from + lasts, trip, rest });
    let before = if fault == Fault::Frozen { 0 } else { servers.calls(&["evalsha"]).await? };
    let work = quorums.iter().map(|quorum| acquire_repeatedly(quorum.semaphore("s", permits), plan, &held));
    let waited: Vec<Sample> = try_join_all(work).await?;
    let sent =
        if fault == Fault::Frozen { f64::NAN } else { (servers.calls(&["evalsha"]).await? - before) as f64 };
    servers.all().first().ok_or("there is a server")?.thaw().await;
    let mut rounds = Sample::default();
    waited.iter().for_each(|waited| rounds.extend(waited));
    let in_use = held.into_inner() as f64 / 1e6 / (f64::from(permits) * lasts.as_secs_f64());
    let share = lasts.as_secs_f64() / (lasts.as_secs_f64() + 1.0);
    let grants = in_use * f64::from(permits) * lasts.as_secs_f64()
        / (f64::from(HOLD_ROUND_TRIPS) * trip.as_secs_f64());
    Ok([in_use, rounds.median(), sent * share / grants])
}

/// The schedule of each client.
#[derive(Clone, Copy, Debug)]
struct Plan {
    from: Instant,
    until: Instant,
    trip: Duration,
    rest: u32,
}

/// Returns the wait for each permit in round trips. The microseconds for which permits are held within
/// the measured time are added to `held`.
async fn acquire_repeatedly(semaphore: Semaphore, plan: Plan, held: &AtomicU64) -> Result<Sample, Problem> {
    let Plan { from, until, trip, rest } = plan;
    let mut rounds = Sample::default();
    while Instant::now() < until {
        if rest > 0 {
            let drawn: f64 = rand::rng().random();
            sleep(trip.mul_f64(-(1.0 - drawn).ln() * f64::from(rest))).await;
        }
        let begin = Instant::now();
        let permit = semaphore.acquire().await?;
        let granted = Instant::now();
        rounds.push(granted.duration_since(begin).as_secs_f64() / trip.as_secs_f64());
        sleep(trip * HOLD_ROUND_TRIPS).await;
        let end = Instant::now().min(until);
        let within = end.saturating_duration_since(granted.max(from));
        held.fetch_add(u64::try_from(within.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        permit.release().await?;
    }
    Ok(rounds)
}

/// Returns the costs of a newcomer at a full semaphore of 1,024 permits, in microseconds.
///
/// The first figure is the time that the busiest node spends until the newcomer has joined its wait queues. The second
/// figure is the time that the busiest node spends from then on until the newcomer is the release watcher. The third
/// figure is the time that an average node spends for each later second of the wait.
async fn newcomer_costs() -> Result<[f64; 3], Problem> {
    const NEWCOMERS: u32 = 15;
    /// The time until the newcomer has joined its wait queues, and from then on until the newcomer is
    /// the release watcher.
    const STEPS: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];
    /// The measured part of the wait, which is several times as long as the longest poll interval.
    const WAIT: Duration = Duration::from_secs(20);
    let servers = Servers::start(NODES).await;
    // No lease is renewed during the measurement.
    let lasts = Duration::from_secs(600);
    let client = || servers.builder().max_ttl(lasts).connect();
    let (holder, newcomer_client) = (client().await?, client().await?);
    let semaphore = holder.semaphore("s", 1024).options(LockOptions::new().ttl(lasts));
    let _permits = try_join_all((0..1024).map(|_| semaphore.acquire())).await?;
    let full_semaphore = newcomer_client.semaphore("s", 1024);
    let mut steps = <[Sample; 2]>::default();
    let most = |spent: Vec<u64>| spent.into_iter().max().unwrap_or_default() as f64;
    for _ in 0..NEWCOMERS {
        // The end of the wait, when the newcomer leaves the queues, is not measured.
        let mut waiting = Box::pin(full_semaphore.acquire());
        for (lasts, sample) in STEPS.into_iter().zip(&mut steps) {
            let before = servers.microseconds_spent().await?;
            drop(tokio::time::timeout(lasts, &mut waiting).await);
            let after = servers.microseconds_spent().await?;
            sample.push(most(after.iter().zip(before).map(|(after, before)| after - before).collect()));
        }
        drop(waiting);
        sleep(Duration::from_millis(20)).await;
    }
    let mut waiting = Box::pin(full_semaphore.acquire());
    drop(tokio::time::timeout(STEPS.into_iter().sum(), &mut waiting).await);
    let before: u64 = servers.microseconds_spent().await?.iter().sum();
    drop(tokio::time::timeout(WAIT, &mut waiting).await);
    let spent = servers.microseconds_spent().await?.iter().sum::<u64>() - before;
    let [newcomer, release_watcher] = steps.map(|sample| sample.median());
    Ok([newcomer, release_watcher, spent as f64 / (WAIT.as_secs_f64() * NODES as f64)])
}
