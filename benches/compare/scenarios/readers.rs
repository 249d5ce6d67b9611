//! Readers: the cost of a single read, the grants of concurrent readers, and the wait of a writer for
//! readers.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use redquorum::{Quorum, RwLock};
use tokio::time::sleep;

use super::{Effort, NODES};
use crate::{
    Problem,
    compare::{
        sample::{Sample, micros},
        section::Section,
        servers::Servers,
        verdict::{Target, Verdict},
    },
};

/// The commands that our clients send. The list excludes the commands that scripts execute, which a server counts, too.
const COMMANDS: [&str; 3] = ["evalsha", "subscribe", "unsubscribe"];

/// The number of clients that read, or write, at once.
const CONCURRENT_CLIENTS: usize = 8;
/// The time for which each client holds the resource.
const HOLD: Duration = Duration::from_millis(1);

/// The number of clients that read repeatedly while a writer waits.
const STEADY_READERS: u64 = 50;
/// The time for which each steady reader reads.
const READ_TIME: Duration = Duration::from_millis(10);
/// The longest rest between two reads of a client. The rests are uniformly random. At any time only
/// a few clients read, so the machine has time left.
const LONGEST_REST: Duration = Duration::from_millis(300);

/// The number of tasks of one client that read the same resource.
const TASKS: usize = 1_000;

/// The access of a client to the resource.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

pub(super) async fn run(effort: Effort) -> Result<Section, Problem> {
    let lasts = effort.pick(Duration::from_millis(700), Duration::from_secs(5));
    let mut section = Section::new("readers", "read locks, 5 nodes", ["median_us", "grants_per_s"]);
    let (read, write) = read_and_write_times(effort.pick(11, 41), effort.pick(80, 300)).await?;
    let shared = grants_per_second(lasts, Access::Read).await?;
    let exclusive = grants_per_second(lasts, Access::Write).await?;
    section.add_row("read", [read.median(), shared]);
    section.add_row("write", [write.median(), exclusive]);
    section.add_verdict(Verdict::of_ratio(
        "one task, read + unlock / lock + unlock",
        read.ratio_to(&write),
        Target::AtMost(1.25),
    ));
    section.add_verdict(Verdict::of(
        "8 clients at once, grants of readers / of writers",
        shared / exclusive,
        Target::AtLeast(6.0),
    ));
    let (waited, longest) = writer_waits(lasts * 2).await?;
    // A lock with its unlock takes two round trips.
    let due = longest + write.median();
    section.add_verdict(Verdict::of(
        "wait of a writer among 50 readers / their longest read and two round trips",
        waited.median() / due,
        Target::AtMost(1.0),
    ));
    let commands = commands_per_read(lasts).await?;
    section.add_verdict(Verdict::of(
        "1,000 tasks of a client, commands per read",
        commands,
        Target::AtMost(0.05),
    ));
    Ok(section)
}

/// Returns the microseconds of a read and of a write, each with its unlock, measured in turns: the median of each
/// round.
async fn read_and_write_times(rounds: usize, pairs: usize) -> Result<(Sample, Sample), Problem> {
    let servers = Servers::start(NODES).await;
    let quorum = servers.ours().await?;
    let lock = quorum.rw_lock("r");
    measure(&lock, Access::Read, pairs).await?;
    let (mut read, mut write) = (Sample::default(), Sample::default());
    for _ in 0..rounds {
        read.push(measure(&lock, Access::Read, pairs).await?);
        write.push(measure(&lock, Access::Write, pairs).await?);
    }
    Ok((read, write))
}

/// Returns the median microseconds of `pairs` reads or writes, each with its unlock.
async fn measure(lock: &RwLock, access: Access, pairs: usize) -> Result<f64, Problem> {
    let mut sample = Sample::default();
    for _ in 0..pairs {
        let begin = Instant::now();
        if access == Access::Read {
            lock.read().await?.unlock().await?;
        } else {
            lock.write().await?.unlock().await?;
        }
        sample.push(micros(begin.elapsed()));
    }
    Ok(sample.median())
}

/// Returns the grants per second of clients that hold one resource for `HOLD` and lock again at once.
async fn grants_per_second(lasts: Duration, access: Access) -> Result<f64, Problem> {
    let servers = Servers::start(NODES).await;
    let mut quorums: Vec<Quorum> = Vec::new();
    for _ in 0..CONCURRENT_CLIENTS {
        quorums.push(servers.ours().await?);
    }
    let end = Instant::now() + lasts;
    let running = quorums.iter().map(|quorum| tokio::spawn(count_grants(end, quorum.rw_lock("r"), access)));
    let mut grants = 0;
    for granted in try_join_all(running).await? {
        grants += granted?;
    }
    Ok(grants as f64 / lasts.as_secs_f64())
}

/// Reads or writes until the end, each time for `HOLD`, and returns the number of grants.
async fn count_grants(end: Instant, lock: RwLock, access: Access) -> Result<u64, Problem> {
    let mut grants = 0;
    while Instant::now() < end {
        if access == Access::Read {
            let _guard = lock.read().await?;
            sleep(HOLD).await;
        } else {
            let _guard = lock.write().await?;
            sleep(HOLD).await;
        }
        grants += 1;
    }
    Ok(grants)
}

/// Returns the microseconds of each wait of a writer while many clients read, and the microseconds of the longest read.
async fn writer_waits(lasts: Duration) -> Result<(Sample, f64), Problem> {
    let servers = Servers::start(NODES).await;
    let mut quorums: Vec<Quorum> = Vec::new();
    for _ in 0..STEADY_READERS {
        quorums.push(servers.ours().await?);
    }
    let end = Instant::now() + lasts;
    let reading: Vec<_> = quorums
        .iter()
        .zip(0..)
        .map(|(quorum, seed)| tokio::spawn(read_with_rests(end, quorum.rw_lock("r"), seed)))
        .collect();
    let writer = servers.ours().await?.rw_lock("r");
    let mut waited = Sample::default();
    while Instant::now() < end {
        sleep(READ_TIME * 3).await;
        let begin = Instant::now();
        let guard = writer.write().await?;
        waited.push(micros(begin.elapsed()));
        guard.unlock().await?;
    }
    let mut reads = Sample::default();
    for read in try_join_all(reading).await? {
        reads.extend(&read?);
    }
    Ok((waited, reads.max()))
}

/// Reads until the end, and returns the duration of each read in microseconds.
async fn read_with_rests(end: Instant, lock: RwLock, seed: u64) -> Result<Sample, Problem> {
    let mut reads = Sample::default();
    let mut random = StdRng::seed_from_u64(seed);
    while Instant::now() < end {
        sleep(LONGEST_REST.mul_f64(random.random())).await;
        let guard = lock.read().await?;
        let begin = Instant::now();
        sleep(READ_TIME).await;
        drop(guard);
        reads.push(micros(begin.elapsed()));
    }
    Ok(reads)
}

async fn commands_per_read(lasts: Duration) -> Result<f64, Problem> {
    let servers = Servers::start(NODES).await;
    let quorum = servers.ours().await?;
    quorum.rw_lock("r").read().await?.unlock().await?;
    let before = servers.calls(&COMMANDS).await?;
    let end = Instant::now() + lasts;
    let reading: Vec<_> =
        (0..TASKS).map(|_| tokio::spawn(count_grants(end, quorum.rw_lock("r"), Access::Read))).collect();
    let mut reads = 0;
    for granted in try_join_all(reading).await? {
        reads += granted?;
    }
    Ok((servers.calls(&COMMANDS).await? - before) as f64 / reads as f64)
}
