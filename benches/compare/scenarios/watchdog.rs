//! What it costs to keep many leases.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use redquorum::{LockGuard, Quorum};
use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinSet;

use super::{Effort, NODES};
use crate::{
    Problem,
    compare::{
        sample::millis,
        section::Section,
        servers::Servers,
        verdict::{Target, Verdict},
    },
};

/// Tasks that take the leases; each waits for one grant at a time.
const TAKERS: usize = 64;

/// Calls per node and period for ten thousand leases: 157 full ones, and some that are not full.
const MOST_CALLS: f64 = 200.0 / 10_000.0;

/// Milliseconds that a server may be busy with one call, and serve nobody else.
const LONGEST_CALL: f64 = 5.0;

/// How often the leases are looked at for one whose renewal is late.
const GLANCE: Duration = Duration::from_millis(20);

pub(super) async fn run(effort: Effort) -> Result<Section, Problem> {
    let leases = effort.pick(2_000, 10_000);
    let ttl = effort.pick(Duration::from_secs(6), Duration::from_secs(30));
    let servers = Servers::start(NODES).await;
    let guards = take(&servers.builder().ttl(ttl).connect().await?, leases).await?;
    let period = ttl / 3;
    // Every lease is renewed once in each period from here on, wherever in it.
    let periods = effort.pick(1, 2);
    servers.log_long_calls().await?;
    let (calls_before, busy_before, begin) =
        (servers.calls(&["evalsha"]).await?, processor_time(), Instant::now());
    tokio::time::sleep(period * periods).await;
    let (busy, took) = (processor_time() - busy_before, begin.elapsed());
    let calls =
        (servers.calls(&["evalsha"]).await? - calls_before) as f64 / NODES as f64 / f64::from(periods);
    let longest = servers.longest_call().await?;
    // Looking costs processor time of its own, hence apart.
    let latest = latest_renewal(&guards, ttl).await;
    let lost = guards.iter().filter(|guard| !guard.is_valid()).count();

    let share = 100.0 * busy.as_secs_f64() / took.as_secs_f64();
    let title = format!("{leases} renewed leases of {} s in one client, 5 nodes", ttl.as_secs());
    let columns =
        ["calls_per_node_and_period", "percent_of_a_core", "longest_call_ms", "latest_renewal_ms", "lost"];
    let mut section = Section::new("watchdog", title, columns);
    section.row("ours", [calls, share, millis(longest), millis(latest), lost as f64]);
    let most = Target::AtMost(MOST_CALLS * leases as f64);
    section.verdict(Verdict::of("calls per node and renewal period", calls, most));
    section.verdict(Verdict::of(
        "longest call of a server, ms",
        millis(longest),
        Target::AtMost(LONGEST_CALL),
    ));
    section.verdict(Verdict::of("percent of one core", share, Target::AtMost(5.0)));
    section.verdict(Verdict::of("leases lost", lost as f64, Target::AtMost(0.0)));
    Ok(section)
}

async fn take(quorum: &Quorum, leases: usize) -> Result<Arc<[LockGuard]>, Problem> {
    let mut takers = JoinSet::new();
    for taker in 0..TAKERS {
        let quorum = quorum.clone();
        takers.spawn(async move {
            let mut guards = Vec::new();
            for number in (taker..leases).step_by(TAKERS) {
                guards.push(quorum.red_lock(number.to_string()).lock().await?);
            }
            Ok::<_, Problem>(guards)
        });
    }
    let mut guards = Vec::new();
    while let Some(taken) = takers.join_next().await {
        guards.extend(taken??);
    }
    Ok(guards.into())
}

/// How long after it was due, at a third of the ttl, any lease was renewed at the latest, in one
/// period.
async fn latest_renewal(guards: &[LockGuard], ttl: Duration) -> Duration {
    // What is left of a fresh lease: the ttl but for drift and margin.
    let fresh = ttl.mul_f64(0.99) - Duration::from_millis(2);
    let mut least = ttl;
    let begin = Instant::now();
    while begin.elapsed() < ttl / 3 {
        least = guards.iter().map(|guard| guard.remaining()).fold(least, Duration::min);
        tokio::time::sleep(GLANCE).await;
    }
    (fresh - ttl / 3).saturating_sub(least)
}

/// What this process has used, in all of its threads.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}
