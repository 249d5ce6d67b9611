//! What waiting costs when something fails.
//!
//! * One server is stopped while eight clients compete, each server in turn, so the one that keeps
//!   the queue too: the longest time without a grant, and how often somebody has the lock later.
//! * A process that holds the lock ends at once: how long after its ttl the next one has it.
//! * One of five clients stands still for 400 of every 410 ms: what the others still get.

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

/// Between two stalls.
const BREATH: Duration = Duration::from_millis(10);

/// The ttl of a holder that is gone.
const SHORT_TTL: Duration = Duration::from_secs(1);

/// How long grants are counted before a server is stopped, and then until it is thawed.
const BEFORE: Duration = Duration::from_millis(400);
const STOPPED: Duration = Duration::from_millis(2500);

/// The last part of that time, in which clients should be used to it.
const LATER: Duration = Duration::from_secs(1);

pub(super) async fn run(effort: Effort) -> Result<Section, Problem> {
    let (mut gaps, mut later) = (Sample::default(), Sample::default());
    for node in 0..NODES {
        let (gap, ratio) = stopped(node).await?;
        gaps.push(gap);
        later.push(ratio);
    }
    let mut killed = Sample::default();
    for _ in 0..effort.pick(2, 5) {
        killed.push(after_a_holder_that_is_gone().await?);
    }
    let lasts = effort.pick(Duration::from_secs(2), Duration::from_secs(10));
    let alone = beside(None, lasts).await?;
    let shares = beside(Some(STALL), lasts).await? / alone;
    let columns = ["gap_ms", "later", "killed_ms", "beside_stalls"];
    let title = "eight contenders and a stopped server, a holder that is gone, a client that stalls";
    let mut section = Section::new("faults", title, columns);
    section.row("ours", [gaps.max(), later.min(), killed.max(), shares]);
    let verdicts = [
        ("longest time without a grant, ms", gaps.max(), Target::AtMost(1000.0)),
        ("grants of the last second / before it was stopped", later.min(), Target::AtLeast(0.8)),
        ("after the ttl of a holder that is gone, ms", killed.max(), Target::AtMost(100.0)),
        ("grants beside one that stalls / without it", shares, Target::AtLeast(0.5)),
    ];
    for (name, value, target) in verdicts {
        section.verdict(Verdict::of(name, value, target));
    }
    Ok(section)
}

/// Milliseconds of the longest time without a grant after this server was stopped, and the later
/// rate of grants against the one before.
async fn stopped(node: usize) -> Result<(f64, f64), Problem> {
    let servers = Servers::start(NODES).await;
    let server = servers.all().get(node).ok_or("there is no such server")?;
    let granted = Arc::new(Mutex::new(Vec::new()));
    let mut clients = JoinSet::new();
    for _ in 0..8 {
        let lock = servers.ours().await?.red_lock("contended");
        clients.spawn(take_turns(lock, Arc::clone(&granted)));
    }
    // The first turns are those of clients that have just connected.
    tokio::time::sleep(BEFORE / 2).await;
    let begin = Instant::now();
    tokio::time::sleep(BEFORE).await;
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

async fn take_turns(lock: RedLock, granted: Arc<Mutex<Vec<Instant>>>) {
    while let Ok(guard) = lock.lock().await {
        granted.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
        tokio::time::sleep(HOLD).await;
        drop(guard.unlock().await);
    }
}

/// Milliseconds from the end of the ttl of a lock whose process is gone to the next grant.
async fn after_a_holder_that_is_gone() -> Result<f64, Problem> {
    let servers = Servers::start(NODES).await;
    let builder = servers.builder();
    let (locked, is_locked) = oneshot::channel();
    let (end, is_over) = oneshot::channel();
    let holder = spawn_blocking(move || hold(builder, locked, is_over));
    let from = is_locked.await?;
    let mut waiting = JoinSet::new();
    for _ in 0..4 {
        let lock = servers.ours().await?.red_lock("r");
        waiting.spawn(async move {
            let guard = lock.lock().await;
            (Instant::now(), guard)
        });
    }
    tokio::time::sleep(SHORT_TTL / 4).await;
    drop(end);
    holder.await??;
    let (at, guard) = waiting.join_next().await.ok_or("nobody waits")??;
    guard?.unlock().await?;
    Ok(millis(at.saturating_duration_since(from + SHORT_TTL)))
}

/// Takes the lock in a runtime of its own, which ends with everything in it when it is told to.
fn hold(
    builder: QuorumBuilder,
    locked: oneshot::Sender<Instant>,
    is_over: oneshot::Receiver<()>,
) -> Result<(), Problem> {
    let runtime = runtime()?;
    runtime.block_on(async {
        let fixed = LockOptions::new().ttl(SHORT_TTL).without_renewal();
        let lock = builder.connect().await?.red_lock("r").options(fixed);
        // Nobody unlocks for a process that is gone.
        std::mem::forget::<LockGuard>(lock.lock().await?);
        locked.send(Instant::now()).ok();
        drop(is_over.await);
        Ok::<(), Problem>(())
    })?;
    runtime.shutdown_background();
    Ok(())
}

/// Grants per second of four clients, each a thread, beside a fifth that stalls for so long again
/// and again.
async fn beside(stall: Option<Duration>, lasts: Duration) -> Result<f64, Problem> {
    let servers = Servers::start(NODES).await;
    let end = Instant::now() + lasts;
    let stalling = stall.map(|stall| {
        let builder = servers.builder();
        spawn_blocking(move || compete(builder, end, Some(stall)))
    });
    let mut others = JoinSet::new();
    for _ in 0..4 {
        let builder = servers.builder();
        others.spawn_blocking(move || compete(builder, end, None));
    }
    let mut grants = 0;
    while let Some(other) = others.join_next().await {
        grants += other??;
    }
    if let Some(stalling) = stalling {
        stalling.await??;
    }
    Ok(f64::from(grants) / lasts.as_secs_f64())
}

/// Locks, holds and unlocks until the end; how often.
fn compete(builder: QuorumBuilder, end: Instant, stall: Option<Duration>) -> Result<u32, Problem> {
    let runtime = runtime()?;
    let grants = runtime.block_on(async {
        let lock = builder.connect().await?.red_lock("contended");
        if let Some(stall) = stall {
            tokio::spawn(async move {
                while Instant::now() < end {
                    // Of the whole runtime, which has one thread.
                    std::thread::sleep(stall);
                    tokio::time::sleep(BREATH).await;
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
