//! The commands of tasks that wait for held resources.

use std::time::{Duration, Instant};

use redquorum::{LockGuard, LockOptions};
use tokio::task::JoinSet;

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

const WAITERS: usize = 2000;
const CLIENTS: usize = 50;

/// The number of consecutive hand-offs that are measured.
const HAND_OFFS: usize = 500;

/// The commands that our clients send. The list excludes the commands that scripts execute, which a server counts, too.
const OURS: [&str; 5] = ["evalsha", "script|load", "subscribe", "unsubscribe", "ping"];

/// The commands of rslock's clients.
const RIVAL: [&str; 2] = ["set", "evalsha"];

pub(super) async fn run(effort: Effort) -> Result<Section, Problem> {
    let (distinct, _) = ours(effort, |waiter| waiter).await?;
    let (one, hand_offs) = ours(effort, |_| 0).await?;
    let rival = rival(effort).await?;
    let title =
        "2,000 blocked tasks in 50 clients, 5 nodes: commands per waiter and second, all nodes together";
    let columns = ["one_resource", "own_resources", "hand_off_p50_ms", "hand_off_p99_ms"];
    let mut section = Section::new("waiters", title, columns);
    let tail = hand_offs.percentile(0.99);
    section.add_row("ours", [one, distinct, hand_offs.median(), tail]);
    section.add_row("rslock", [rival, f64::NAN, f64::NAN, f64::NAN]);
    section.add_verdict(Verdict::of("p99 of a hand-off, one resource, ms", tail, Target::AtMost(30.0)));
    section.add_verdict(Verdict::of("commands, one resource", one, Target::AtMost(0.5)));
    section.add_verdict(Verdict::of("commands, a resource for each", distinct, Target::AtMost(2.5)));
    Ok(section)
}

/// Returns the rate of our clients' commands, and the milliseconds of each hand-off after the unlock of the first
/// resource. The hand-offs are meaningful only if all waiters wait for one resource. Each waiter waits for the resource
/// with the number `resource_of(waiter)`.
async fn ours(effort: Effort, resource_of: impl Fn(usize) -> usize) -> Result<(f64, Sample), Problem> {
    let servers = Servers::start(NODES).await;
    // The leases have the longest ttl and no renewal, so that the holder sends nothing.
    let holder = servers.ours().await?;
    let mut held: Vec<LockGuard> = Vec::new();
    for waiter in 0..WAITERS {
        if resource_of(waiter) == waiter {
            let longest = LockOptions::new().ttl(2 * TTL).without_renewal();
            held.push(holder.red_lock(waiter.to_string()).options(longest).lock().await?);
        }
    }
    let mut waiting = JoinSet::new();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(servers.ours().await?);
    }
    for waiter in 0..WAITERS {
        let lock = clients[waiter % CLIENTS].red_lock(resource_of(waiter).to_string());
        waiting.spawn(async move {
            let guard = lock.lock().await?;
            let granted = Instant::now();
            guard.unlock().await?;
            Ok::<Instant, Problem>(granted)
        });
    }
    // A wait begins with a subscription and with polls at growing intervals. Only the cost after this beginning is
    // measured.
    tokio::time::sleep(effort.pick(Duration::from_millis(3500), Duration::from_secs(10))).await;
    let rate = rate(&servers, &OURS, effort.pick(4, 15)).await?;
    if waiting.try_join_next().is_some() || !held.iter().all(|guard| guard.is_valid()) {
        return Err("a waiter got a held resource".into());
    }
    held.into_iter().next().ok_or("nothing is held")?.unlock().await?;
    let mut last: Option<Instant> = None;
    let mut hand_offs = Sample::default();
    // Each waiter unlocks as soon as the lock is granted, so a hand-off lasts from one grant to the
    // next.
    let is_shared = resource_of(1) == 0;
    for _ in 0..if is_shared { HAND_OFFS } else { 0 } {
        let granted = waiting.join_next().await.ok_or("nobody waits")???;
        if let Some(last) = last.replace(granted) {
            hand_offs.push(millis(granted.saturating_duration_since(last)));
        }
    }
    Ok((rate, hand_offs))
}

/// Returns the rate of the commands of rslock's clients, with all waiters on one resource. `acquire`
/// retries until success.
async fn rival(effort: Effort) -> Result<f64, Problem> {
    let servers = Servers::start(NODES).await;
    let held = servers.rival().lock("held", TTL).await?;
    let mut waiting = JoinSet::new();
    let clients: Vec<_> = (0..CLIENTS).map(|_| servers.rival()).collect();
    for waiter in 0..WAITERS {
        let manager = clients[waiter % CLIENTS].clone();
        waiting.spawn(async move { manager.acquire("held", TTL).await.map(drop) });
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let rate = rate(&servers, &RIVAL, effort.pick(1, 5)).await?;
    drop((waiting, held));
    Ok(rate)
}

/// Returns the commands per waiter and second, measured for `seconds`.
async fn rate(servers: &Servers, commands: &[&str], seconds: u64) -> Result<f64, Problem> {
    let (before, begin) = (servers.calls(commands).await?, Instant::now());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let sent = servers.calls(commands).await? - before;
    Ok(sent as f64 / WAITERS as f64 / begin.elapsed().as_secs_f64())
}
