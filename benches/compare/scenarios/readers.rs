//! Readers: what a read costs alone, how many read at once, and how long a writer waits for them.

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

/// What our clients send; a server counts what runs inside of scripts apart.
const COMMANDS: [&str; 3] = ["evalsha", "subscribe", "unsubscribe"];

/// Clients that read, or lock, at once.
const TOGETHER: usize = 8;
/// For how long they do.
const HOLD: Duration = Duration::from_millis(1);

/// Clients that read again and again, each for so long, while another wants to write. Each rests as
/// often for a short time as for a long one, so that some read at any time, and the machine has
/// time left.
const STEADY: u64 = 50;
const LONGEST_READ: Duration = Duration::from_millis(10);
const LONGEST_REST: Duration = Duration::from_millis(300);

/// Tasks of one client that read the same.
const TASKS: usize = 1_000;

pub(super) async fn run(effort: Effort) -> Result<Section, Problem> {
    let lasts = effort.pick(Duration::from_millis(700), Duration::from_secs(5));
    let mut section = Section::new("readers", "read locks, 5 nodes", ["median_us", "grants_per_s"]);
    let (read, write) = alone(effort.pick(11, 41), effort.pick(80, 300)).await?;
    let shared = together(lasts, true).await?;
    let exclusive = together(lasts, false).await?;
    section.row("read", [read.median(), shared]);
    section.row("write", [write.median(), exclusive]);
    section.verdict(Verdict::of_ratio(
        "one task, read + unlock / lock + unlock",
        read.ratio_to(&write),
        Target::AtMost(1.25),
    ));
    section.verdict(Verdict::of(
        "8 clients at once, grants of readers / of writers",
        shared / exclusive,
        Target::AtLeast(6.0),
    ));
    let (waited, longest) = beside_steady_readers(lasts * 2).await?;
    // A round trip is half of a lock with its unlock.
    let due = longest + write.median();
    section.verdict(Verdict::of(
        "wait of a writer among 50 readers / their longest read and two round trips",
        waited.median() / due,
        Target::AtMost(1.0),
    ));
    let commands = commands_per_read(lasts).await?;
    section.verdict(Verdict::of(
        "1,000 tasks of a client, commands per read",
        commands,
        Target::AtMost(0.05),
    ));
    Ok(section)
}

/// Microseconds of a read, and of a write, with its unlock: by turns, the median of each round.
async fn alone(rounds: usize, pairs: usize) -> Result<(Sample, Sample), Problem> {
    let servers = Servers::start(NODES).await;
    let quorum = servers.ours().await?;
    let lock = quorum.rw_lock("r");
    measure(&lock, true, pairs).await?;
    let (mut read, mut write) = (Sample::default(), Sample::default());
    for _ in 0..rounds {
        read.push(measure(&lock, true, pairs).await?);
        write.push(measure(&lock, false, pairs).await?);
    }
    Ok((read, write))
}

async fn measure(lock: &RwLock, reads: bool, pairs: usize) -> Result<f64, Problem> {
    let mut sample = Sample::default();
    for _ in 0..pairs {
        let begin = Instant::now();
        if reads {
            lock.read().await?.unlock().await?;
        } else {
            lock.write().await?.unlock().await?;
        }
        sample.push(micros(begin.elapsed()));
    }
    Ok(sample.median())
}

/// Grants per second, of clients that hold one resource for as long and come again at once.
async fn together(lasts: Duration, read: bool) -> Result<f64, Problem> {
    let servers = Servers::start(NODES).await;
    let mut quorums: Vec<Quorum> = Vec::new();
    for _ in 0..TOGETHER {
        quorums.push(servers.ours().await?);
    }
    let end = Instant::now() + lasts;
    let running = quorums.iter().map(|quorum| tokio::spawn(hold_until(end, quorum.rw_lock("r"), read, HOLD)));
    let mut grants = 0;
    for granted in try_join_all(running).await? {
        grants += granted?;
    }
    Ok(grants as f64 / lasts.as_secs_f64())
}

/// How often it was held.
async fn hold_until(end: Instant, lock: RwLock, reads: bool, hold: Duration) -> Result<u64, Problem> {
    let mut grants = 0;
    while Instant::now() < end {
        if reads {
            let _guard = lock.read().await?;
            sleep(hold).await;
        } else {
            let _guard = lock.write().await?;
            sleep(hold).await;
        }
        grants += 1;
    }
    Ok(grants)
}

/// Microseconds that a writer waits for readers who come and go all the time, and of the longest
/// read.
async fn beside_steady_readers(lasts: Duration) -> Result<(Sample, f64), Problem> {
    let servers = Servers::start(NODES).await;
    let mut quorums: Vec<Quorum> = Vec::new();
    for _ in 0..STEADY {
        quorums.push(servers.ours().await?);
    }
    let end = Instant::now() + lasts;
    let reading: Vec<_> = quorums
        .iter()
        .zip(0..)
        .map(|(quorum, seed)| tokio::spawn(read_now_and_then(end, quorum.rw_lock("r"), seed)))
        .collect();
    let writer = servers.ours().await?.rw_lock("r");
    let mut waited = Sample::default();
    while Instant::now() < end {
        sleep(LONGEST_READ * 3).await;
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

/// How long each read lasted, in microseconds.
async fn read_now_and_then(end: Instant, lock: RwLock, seed: u64) -> Result<Sample, Problem> {
    let mut reads = Sample::default();
    let mut random = StdRng::seed_from_u64(seed);
    while Instant::now() < end {
        sleep(LONGEST_REST.mul_f64(random.random())).await;
        let guard = lock.read().await?;
        let begin = Instant::now();
        sleep(LONGEST_READ).await;
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
        (0..TASKS).map(|_| tokio::spawn(hold_until(end, quorum.rw_lock("r"), true, HOLD))).collect();
    let mut reads = 0;
    for granted in try_join_all(reading).await? {
        reads += granted?;
    }
    Ok((servers.calls(&COMMANDS).await? - before) as f64 / reads as f64)
}
