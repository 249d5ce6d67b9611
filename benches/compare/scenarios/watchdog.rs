//! The cost of the renewal of many leases.

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

/// The number of tasks that acquire the leases; each task waits for one grant at a time.
const ACQUIRING_TASKS: usize = 64;

/// The maximum number of calls per node, period and lease. Ten thousand leases need 157 full calls, and some calls that
/// are not full.
const MAX_CALLS_PER_LEASE: f64 = 200.0 / 10_000.0;

/// The longest time in milliseconds for which one call may keep a server from its next call.
const MAX_CALL_MS: f64 = 5.0;

/// The interval between two inspections of the leases for late renewals.
const INSPECTION_INTERVAL: Duration = Duration::from_millis(20);

pub(super) async fn run(effort: Effort) -> Result<Section, Problem> {
    let leases = effort.pick(2_000, 10_000);
    let ttl = effort.pick(Duration::from_secs(6), Duration::from_secs(30));
    let servers = Servers::start(NODES).await;
    let guards = acquire(&servers.builder().ttl(ttl).connect().await?, leases).await?;
    let period = ttl / 3;
    // From here on, each lease is renewed once in each period, at any time within the period.
    let periods = effort.pick(1, 2);
    servers.log_long_calls().await?;
    let (calls_before, busy_before, begin) =
        (servers.calls(&["evalsha"]).await?, processor_time(), Instant::now());
    tokio::time::sleep(period * periods).await;
    let (busy, took) = (processor_time() - busy_before, begin.elapsed());
    let calls =
        (servers.calls(&["evalsha"]).await? - calls_before) as f64 / NODES as f64 / f64::from(periods);
    let longest = servers.longest_call().await?;
    // The inspection is after the measured periods, because the inspection itself uses processor time.
    let delay = longest_renewal_delay(&guards, ttl).await;
    let lost = guards.iter().filter(|guard| !guard.is_valid()).count();

    let share = 100.0 * busy.as_secs_f64() / took.as_secs_f64();
    let title = format!("{leases} renewed leases of {} s in one client, 5 nodes", ttl.as_secs());
    let columns =
        ["calls_per_node_and_period", "percent_of_a_core", "longest_call_ms", "latest_renewal_ms", "lost"];
    let mut section = Section::new("watchdog", title, columns);
    section.row("ours", [calls, share, millis(longest), millis(delay), lost as f64]);
    let most = Target::AtMost(MAX_CALLS_PER_LEASE * leases as f64);
    section.verdict(Verdict::of("calls per node and renewal period", calls, most));
    section.verdict(Verdict::of(
        "longest call of a server, ms",
        millis(longest),
        Target::AtMost(MAX_CALL_MS),
    ));
    section.verdict(Verdict::of("percent of one core", share, Target::AtMost(5.0)));
    section.verdict(Verdict::of("leases lost", lost as f64, Target::AtMost(0.0)));
    Ok(section)
}

async fn acquire(quorum: &Quorum, leases: usize) -> Result<Arc<[LockGuard]>, Problem> {
    let mut tasks = JoinSet::new();
    for task in 0..ACQUIRING_TASKS {
        let quorum = quorum.clone();
        tasks.spawn(async move {
            let mut guards = Vec::new();
            for number in (task..leases).step_by(ACQUIRING_TASKS) {
                guards.push(quorum.red_lock(number.to_string()).lock().await?);
            }
            Ok::<_, Problem>(guards)
        });
    }
    let mut guards = Vec::new();
    while let Some(acquired) = tasks.join_next().await {
        guards.extend(acquired??);
    }
    Ok(guards.into())
}

/// Returns the longest delay of a renewal within one period. A renewal is due at a third of the ttl.
async fn longest_renewal_delay(guards: &[LockGuard], ttl: Duration) -> Duration {
    // The validity of a fresh lease is the ttl minus drift and margin.
    let fresh = ttl.mul_f64(0.99) - Duration::from_millis(2);
    let mut least = ttl;
    let begin = Instant::now();
    while begin.elapsed() < ttl / 3 {
        least = guards.iter().map(|guard| guard.remaining()).fold(least, Duration::min);
        tokio::time::sleep(INSPECTION_INTERVAL).await;
    }
    (fresh - ttl / 3).saturating_sub(least)
}

/// Returns the processor time of all threads of this process.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}
