//! The number of commands for each grant, for several numbers of waiting clients.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use redquorum::{Quorum, RedLock};

use super::{Effort, NODES};
use crate::{
    Problem,
    compare::{
        section::Section,
        servers::Servers,
        verdict::{Target, Verdict},
    },
};

const CLIENTS: [usize; 3] = [2, 8, 32];

/// The commands that our clients send. The list excludes the commands that scripts execute, which a server counts, too.
const COMMANDS: [&str; 3] = ["evalsha", "subscribe", "unsubscribe"];

/// The maximum ratio of the cost of a grant with 32 clients to the cost with two clients. The only additional cost is
/// the cost of a few attempts that collided.
const MAX_GROWTH: f64 = 1.5;

pub(super) async fn run(effort: Effort) -> Result<Section, Problem> {
    let lasts = effort.pick(Duration::from_millis(500), Duration::from_secs(5));
    let columns = CLIENTS.map(|clients| format!("{clients}_clients"));
    let title = "commands per grant, all nodes together, by clients that lock one resource again and again";
    let mut section = Section::new("line", title, columns);
    let mut costs = Vec::new();
    for clients in CLIENTS {
        costs.push(commands_per_grant(clients, lasts).await?);
    }
    section.add_row("ours", costs.iter().copied());
    let (few, many) = (costs[0], costs[CLIENTS.len() - 1]);
    section.add_verdict(Verdict::of("32 clients / 2", many / few, Target::AtMost(MAX_GROWTH)));
    Ok(section)
}

async fn commands_per_grant(clients: usize, lasts: Duration) -> Result<f64, Problem> {
    let servers = Servers::start(NODES).await;
    let mut quorums: Vec<Quorum> = Vec::new();
    for _ in 0..clients {
        quorums.push(servers.ours().await?);
    }
    let lock = |quorum: &Quorum| quorum.red_lock("r");
    // Each client locks once before the measurement, because a first wait begins with a subscription
    // and an inspection of every node.
    let begin = Instant::now();
    try_join_all(quorums.iter().map(|quorum| lock_until(begin, lock(quorum)))).await?;
    let before = servers.calls(&COMMANDS).await?;
    let end = Instant::now() + lasts;
    let running = quorums.iter().map(|quorum| tokio::spawn(lock_until(end, lock(quorum))));
    let mut grants = 0;
    for granted in try_join_all(running).await? {
        grants += granted?;
    }
    let sent = servers.calls(&COMMANDS).await? - before;
    Ok(sent as f64 / grants as f64)
}

/// Locks and unlocks until the end, but at least once, and returns the number of grants.
async fn lock_until(end: Instant, lock: RedLock) -> Result<u64, Problem> {
    let mut grants = 0;
    loop {
        lock.lock().await?.unlock().await?;
        grants += 1;
        if Instant::now() >= end {
            return Ok(grants);
        }
    }
}
