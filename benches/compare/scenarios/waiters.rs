//! What tasks send that wait for what others hold.

use std::time::{Duration, Instant};

use redquorum::LockGuard;
use tokio::task::JoinSet;

use super::{Effort, NODES};
use crate::{
    Problem,
    compare::{
        contestant::TTL,
        section::Section,
        servers::Servers,
        verdict::{Target, Verdict},
    },
};

const WAITERS: usize = 1000;
const CLIENTS: usize = 8;

/// What our clients send; a server counts what runs inside of scripts apart.
const OURS: [&str; 5] = ["evalsha", "script|load", "subscribe", "unsubscribe", "ping"];

/// What rslock's clients send.
const RIVAL: [&str; 2] = ["set", "evalsha"];

pub(super) async fn run(effort: Effort) -> Result<Section, Problem> {
    // At once and on servers of their own: what is counted are commands, not time.
    let (one, distinct) = tokio::try_join!(ours(effort, |_| 0), ours(effort, |waiter| waiter))?;
    let rival = rival(effort).await?;
    let title =
        "1,000 blocked tasks in 8 clients, 5 nodes: commands per waiter and second, all nodes together";
    let mut section = Section::new("waiters", title, ["one_resource", "own_resources"]);
    section.row("ours", [one, distinct]);
    section.row("rslock", [rival, f64::NAN]);
    section.verdict(Verdict::of("commands, one resource", one, Target::AtMost(0.5)));
    section.verdict(Verdict::of("commands, a resource for each", distinct, Target::AtMost(2.5)));
    Ok(section)
}

/// Ours, each waiter on the resource of this number.
async fn ours(effort: Effort, number: impl Fn(usize) -> usize) -> Result<f64, Problem> {
    let servers = Servers::start(NODES).await?;
    // The longest ttl and no renewal, so that the holder says nothing.
    let holder = servers.ours().await?;
    let mut held: Vec<LockGuard> = Vec::new();
    for waiter in 0..WAITERS {
        if number(waiter) == waiter {
            let lock = holder.red_lock(waiter.to_string()).ttl(2 * TTL).without_renewal();
            held.push(lock.lock().await?);
        }
    }
    let mut waiting = JoinSet::new();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(servers.ours().await?);
    }
    for waiter in 0..WAITERS {
        let lock = clients[waiter % CLIENTS].red_lock(number(waiter).to_string());
        waiting.spawn(async move { lock.lock().await.map(drop) });
    }
    // A wait begins with a subscription and polls that grow rarer: what counts is what it costs
    // from then on.
    tokio::time::sleep(effort.pick(Duration::from_millis(3500), Duration::from_secs(10))).await;
    let rate = rate(&servers, &OURS, effort.pick(4, 15)).await?;
    if waiting.try_join_next().is_some() || !held.iter().all(LockGuard::is_valid) {
        return Err("somebody got what is held".into());
    }
    Ok(rate)
}

/// rslock, with `acquire`, which tries until it succeeds; all on one resource.
async fn rival(effort: Effort) -> Result<f64, Problem> {
    let servers = Servers::start(NODES).await?;
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

/// Commands per waiter and second, during so many seconds.
async fn rate(servers: &Servers, commands: &[&str], seconds: u64) -> Result<f64, Problem> {
    let (before, begin) = (servers.calls(commands).await?, Instant::now());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let sent = servers.calls(commands).await? - before;
    Ok(sent as f64 / WAITERS as f64 / begin.elapsed().as_secs_f64())
}
