//! The cost of faults for waiting clients.
//!
//! * **A stopped server.** Eight clients compete while one server is stopped. Each server is
//!   stopped in turn, so one of them is the queue node. The figures are the longest time without a
//!   grant, and the later rate of grants.
//! * **A killed holder.** A process that holds the lock is killed. The figure is the time from the
//!   end of the lock's ttl to the next grant.
//! * **A stalling client.** One of five clients stalls for 400 of every 410 ms. The figure is the
//!   rate of grants of the four remaining clients.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use redquorum::{LockGuard, LockOptions, QuorumBuilder, RedLock};
use tokio::{
    runtime::{Builder, Runtime},
    sync::oneshot,
    task::{JoinSet, spawn_blocking},
};

use super::{Effort, NODES};
use crate::{
    Problem,
    compare::{
        sample::{Sample, millis},
        section::Section,
        servers::Servers,
        verdict::{Target, Verdict},
    },
};

const HOLD: Duration = Duration::from_millis(1);

const STALL: Duration = Duration::from_millis(400);

/// The time between two stalls.
const BETWEEN_STALLS: Duration = Duration::from_millis(10);

/// The ttl of the killed holder's lock.
const HOLDER_TTL: Duration = Duration::from_secs(1);

/// The time for which grants are counted before a server is stopped.
const BEFORE_STOP: Duration = Duration::from_millis(400);
/// The time for which grants are counted while the server is stopped.
const STOPPED: Duration = Duration::from_millis(2500);

/// The last part of `STOPPED`, in which the clients should have adapted to the stopped server.
const LATER: Duration = Duration::from_secs(1);

pub(super) async fn run(effort: Effort) -> Result<Section, Problem> {
    let (mut gaps, mut later) = (Sample::default(), Sample::default());
    for node in 0..NODES {
        let (gap, ratio) = gap_and_later_rate(node).await?;
        gaps.push(gap);
        later.push(ratio);
    }
    let mut killed = Sample::default();
    for _ in 0..effort.pick(2, 5) {
        killed.push(delay_after_killed_holder().await?);
    }
    let lasts = effort.pick(Duration::from_secs(2), Duration::from_secs(10));
    let without_stalls = grants_beside(None, lasts).await?;
    let share = grants_beside(Some(STALL), lasts).await? / without_stalls;
    let columns = ["gap_ms", "later", "killed_ms", "beside_stalls"];
    let title = "eight contenders and a stopped server, a killed holder, a stalling client";
    let mut section = Section::new("faults", title, columns);
    section.row("ours", [gaps.max(), later.min(), killed.max(), share]);
    let verdicts = [
        ("longest time without a grant, ms", gaps.max(), Target::AtMost(1000.0)),
        ("grants of the last second / before the stop", later.min(), Target::AtLeast(0.8)),
        ("after the ttl of a killed holder, ms", killed.max(), Target::AtMost(100.0)),
        ("grants beside a stalling client / without", share, Target::AtLeast(0.5)),
    ];
    for (name, value, target) in verdicts {
        section.verdict(Verdict::of(name, value, target));
    }
    Ok(section)
}

/// Returns the longest time without a grant after this server was stopped, in milliseconds, and the
/// ratio of the later rate of grants to the rate before.
async fn gap_and_later_rate(node: usize) -> Result<(f64, f64), Problem> {
    let servers = Servers::start(NODES).await;
    let server = servers.all().get(node).ok_or("there is no such server")?;
    let granted = Arc::new(Mutex::new(Vec::new()));
    let mut clients = JoinSet::new();
    for _ in 0..8 {
        let lock = servers.ours().await?.red_lock("contended");
        clients.spawn(lock_repeatedly(lock, Arc::clone(&granted)));
    }
    // The first grants are not counted, because the clients have just connected.
    tokio::time::sleep(BEFORE_STOP / 2).await;
    let begin = Instant::now();
    tokio::time::sleep(BEFORE_STOP).await;
    let stop = Instant::now();
    server.freeze().await;
    tokio::time::sleep(STOPPED).await;
    let end = Instant::now();
    server.thaw().await;
    clients.abort_all();
    let granted = granted.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let before = granted.iter().filter(|at| (begin..stop).contains(*at)).count();
    let after = granted.iter().copied().filter(|at| (stop..end).contains(at));
    let times: Vec<Instant> = [stop].into_iter().chain(after).chain([end]).collect();
    let gap = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default();
    let later = times.iter().filter(|at| (end - LATER..end).contains(*at)).count();
    let rate = |grants: usize, lasts: Duration| grants as f64 / lasts.as_secs_f64();
    Ok((millis(gap), rate(later, LATER) / rate(before, stop - begin)))
}

async fn lock_repeatedly(lock: RedLock, granted: Arc<Mutex<Vec<Instant>>>) {
    while let Ok(guard) = lock.lock().await {
        granted.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
        tokio::time::sleep(HOLD).await;
        drop(guard.unlock().await);
    }
}

/// Returns the milliseconds from the end of the ttl of a killed holder's lock to the next grant.
async fn delay_after_killed_holder() -> Result<f64, Problem> {
    let servers = Servers::start(NODES).await;
    let builder = servers.builder();
    let (locked, is_locked) = oneshot::channel();
    let (end, signal) = oneshot::channel();
    let holder = spawn_blocking(move || lock_until_signal(builder, locked, signal));
    let from = is_locked.await?;
    let mut waiting = JoinSet::new();
    for _ in 0..4 {
        let lock = servers.ours().await?.red_lock("r");
        waiting.spawn(async move {
            let guard = lock.lock().await;
            (Instant::now(), guard)
        });
    }
    tokio::time::sleep(HOLDER_TTL / 4).await;
    drop(end);
    holder.await??;
    let (at, guard) = waiting.join_next().await.ok_or("nobody waits")??;
    guard?.unlock().await?;
    Ok(millis(at.saturating_duration_since(from + HOLDER_TTL)))
}

/// Locks in a separate runtime. At the signal, the runtime and all its tasks end.
fn lock_until_signal(
    builder: QuorumBuilder,
    locked: oneshot::Sender<Instant>,
    signal: oneshot::Receiver<()>,
) -> Result<(), Problem> {
    let runtime = runtime()?;
    runtime.block_on(async {
        let fixed = LockOptions::new().ttl(HOLDER_TTL).without_renewal();
        let lock = builder.connect().await?.red_lock("r").options(fixed);
        // The lock of a killed process is not unlocked.
        std::mem::forget::<LockGuard>(lock.lock().await?);
        locked.send(Instant::now()).ok();
        drop(signal.await);
        Ok::<(), Problem>(())
    })?;
    runtime.shutdown_background();
    Ok(())
}

/// Returns the grants per second of four clients, each a thread, beside a fifth client that stalls
/// for `stall` repeatedly.
async fn grants_beside(stall: Option<Duration>, lasts: Duration) -> Result<f64, Problem> {
    let servers = Servers::start(NODES).await;
    let end = Instant::now() + lasts;
    let stalling = stall.map(|stall| {
        let builder = servers.builder();
        spawn_blocking(move || compete(builder, end, Some(stall)))
    });
    let mut competitors = JoinSet::new();
    for _ in 0..4 {
        let builder = servers.builder();
        competitors.spawn_blocking(move || compete(builder, end, None));
    }
    let mut grants = 0;
    while let Some(competitor) = competitors.join_next().await {
        grants += competitor??;
    }
    if let Some(stalling) = stalling {
        stalling.await??;
    }
    Ok(f64::from(grants) / lasts.as_secs_f64())
}

/// Locks, holds and unlocks until the end, and returns the number of grants.
fn compete(builder: QuorumBuilder, end: Instant, stall: Option<Duration>) -> Result<u32, Problem> {
    let runtime = runtime()?;
    let grants = runtime.block_on(async {
        let lock = builder.connect().await?.red_lock("contended");
        if let Some(stall) = stall {
            tokio::spawn(async move {
                while Instant::now() < end {
                    // This blocks the whole runtime, because the runtime has one thread.
                    std::thread::sleep(stall);
                    tokio::time::sleep(BETWEEN_STALLS).await;
                }
            });
        }
        let mut grants = 0;
        while let Ok(guard) = tokio::time::timeout_at(end.into(), lock.lock()).await {
            let guard = guard?;
            grants += 1;
            tokio::time::sleep(HOLD).await;
            guard.unlock().await?;
        }
        Ok::<u32, Problem>(grants)
    })?;
    runtime.shutdown_background();
    Ok(grants)
}

fn runtime() -> Result<Runtime, Problem> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}
