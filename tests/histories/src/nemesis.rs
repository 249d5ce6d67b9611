//! The nemesis: a seeded sequence of faults of workers and servers.
//!
//! The seed decides the faults and their pauses, but not how the faults meet the steps of the processes. So the same seed
//! gives similar runs, and not equal runs.

use std::{
    collections::BTreeMap,
    fmt,
    ops::RangeInclusive,
    time::{Duration, Instant},
};

use anyhow::Context;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use redquorum_tests::Cluster;

use crate::workers::{WORKERS, Workers};

/// The pause between two faults.
const PAUSE: RangeInclusive<u64> = 50..=250;

/// The time for which a worker is stopped: longer than the ttl.
const WORKER_STOPPED: RangeInclusive<u64> = 800..=1500;

/// The time for which a server is stopped.
const SERVER_STOPPED: RangeInclusive<u64> = 200..=1500;

/// The time for which a killed server is down.
const SERVER_DOWN: RangeInclusive<u64> = 100..=800;

/// The time for which a killed majority is down.
const MAJORITY_DOWN: RangeInclusive<u64> = 10..=100;

/// The most workers that are stopped at a time, so that other workers go on.
const MOST_WORKERS_STOPPED: usize = 2;

/// The most servers that are stopped or down at a time, except after the kill of a majority. So most of the time a quorum
/// answers.
const MOST_SERVERS_ABSENT: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    StopWorker,
    KillWorker,
    StopServer,
    KillServer,
    /// Kills three servers of five at once. Servers keep nothing on disk, so most votes are forgotten.
    KillMajority,
}

/// Faults with their frequencies in percent.
pub(crate) type Faults = [(Fault, u32); 5];

/// The faults that locks tolerate.
pub(crate) const TOLERATED: Faults = [
    (Fault::StopWorker, 60),
    (Fault::KillWorker, 5),
    (Fault::StopServer, 17),
    (Fault::KillServer, 14),
    (Fault::KillMajority, 4),
];

/// Faults that often make a majority forget the lease of a stopped worker. Without the restart guard, a second
/// worker gets the resource meanwhile.
pub(crate) const FORGETTING: Faults = [
    (Fault::StopWorker, 65),
    (Fault::KillWorker, 3),
    (Fault::StopServer, 1),
    (Fault::KillServer, 1),
    (Fault::KillMajority, 30),
];

#[derive(Clone, Copy, Debug)]
enum ServerState {
    Up,
    Stopped { until: Instant },
    Down { until: Instant },
}

pub(crate) struct Nemesis<'c> {
    servers: &'c Cluster,
    faults: Faults,
    states: Vec<ServerState>,
    /// The end of the stop of each stopped worker.
    stopped: BTreeMap<usize, Instant>,
    random: StdRng,
    counts: BTreeMap<Fault, u32>,
}

impl<'c> Nemesis<'c> {
    pub(crate) fn new(servers: &'c Cluster, faults: Faults, seed: u64) -> Self {
        let states = vec![ServerState::Up; servers.servers().len()];
        let (stopped, counts) = (BTreeMap::new(), BTreeMap::new());
        Self { servers, faults, states, stopped, random: StdRng::seed_from_u64(seed), counts }
    }

    /// Returns the time until the next fault.
    pub(crate) fn pause(&mut self) -> Duration {
        self.milliseconds(PAUSE)
    }

    /// Ends the faults that have lasted long enough, and begins a new fault.
    pub(crate) async fn act(&mut self, workers: &mut Workers) -> anyhow::Result<()> {
        self.recover(workers, Instant::now()).await?;
        let fault = self.choose();
        let has_acted = match fault {
            Fault::StopWorker => self.stop_worker(workers)?,
            Fault::KillWorker => self.kill_worker(workers).await?,
            Fault::StopServer => self.stop_server().await,
            Fault::KillServer => {
                let chosen = self.choose_server();
                self.kill_servers(chosen.as_slice(), SERVER_DOWN).await
            }
            Fault::KillMajority => {
                let chosen = self.choose_majority();
                self.kill_servers(&chosen, MAJORITY_DOWN).await
            }
        };
        if has_acted {
            *self.counts.entry(fault).or_default() += 1;
        }
        Ok(())
    }

    /// Ends all faults.
    pub(crate) async fn end(&mut self, workers: &Workers) -> anyhow::Result<()> {
        // Every fault ends before this instant.
        self.recover(workers, Instant::now() + Duration::from_secs(60)).await
    }

    async fn recover(&mut self, workers: &Workers, now: Instant) -> anyhow::Result<()> {
        let is_over = |(worker, until): (&usize, &Instant)| (*until <= now).then_some(*worker);
        let over: Vec<usize> = self.stopped.iter().filter_map(is_over).collect();
        for worker in over {
            self.stopped.remove(&worker);
            workers.resume(worker)?;
        }
        for (server, state) in self.servers.servers().iter().zip(&mut self.states) {
            match *state {
                ServerState::Stopped { until } if until <= now => server.thaw().await,
                ServerState::Down { until } if until <= now => server.restart_empty().await,
                _ => continue,
            }
            *state = ServerState::Up;
        }
        Ok(())
    }

    /// Stops any worker, or, every second time, a worker between the read and the write of a transaction.
    fn stop_worker(&mut self, workers: &Workers) -> anyhow::Result<bool> {
        let in_transactions = workers.in_transactions();
        let worker = if in_transactions.is_empty() || self.random.random_bool(0.5) {
            self.random.random_range(0..WORKERS)
        } else {
            in_transactions[self.random.random_range(0..in_transactions.len())]
        };
        if self.stopped.len() == MOST_WORKERS_STOPPED || self.stopped.contains_key(&worker) {
            return Ok(false);
        }
        workers.stop(worker)?;
        let until = Instant::now() + self.milliseconds(WORKER_STOPPED);
        self.stopped.insert(worker, until);
        Ok(true)
    }

    async fn kill_worker(&mut self, workers: &mut Workers) -> anyhow::Result<bool> {
        let worker = self.random.random_range(0..WORKERS);
        workers.replace(worker).await.context("cannot replace a worker")?;
        self.stopped.remove(&worker);
        Ok(true)
    }

    async fn stop_server(&mut self) -> bool {
        let Some(server) = self.choose_server() else { return false };
        self.servers.server(server).freeze().await;
        let until = Instant::now() + self.milliseconds(SERVER_STOPPED);
        self.states[server] = ServerState::Stopped { until };
        true
    }

    async fn kill_servers(&mut self, chosen: &[usize], down: RangeInclusive<u64>) -> bool {
        for server in chosen {
            self.servers.server(*server).kill().await;
            let until = Instant::now() + self.milliseconds(down.clone());
            self.states[*server] = ServerState::Down { until };
        }
        !chosen.is_empty()
    }

    /// Chooses a server that is up, unless too many servers are absent.
    fn choose_server(&mut self) -> Option<usize> {
        let mut up = self.servers_up();
        let absent = self.states.len() - up.len();
        (absent < MOST_SERVERS_ABSENT).then(|| up.swap_remove(self.random.random_range(0..up.len())))
    }

    /// Chooses a majority of all servers among the servers that are up. Returns none if too few are up.
    fn choose_majority(&mut self) -> Vec<usize> {
        let (mut up, majority) = (self.servers_up(), self.states.len() / 2 + 1);
        if up.len() < majority {
            return Vec::new();
        }
        (0..majority).map(|_| up.swap_remove(self.random.random_range(0..up.len()))).collect()
    }

    fn servers_up(&self) -> Vec<usize> {
        let is_up = |server: &usize| matches!(self.states[*server], ServerState::Up);
        (0..self.states.len()).filter(is_up).collect()
    }

    fn choose(&mut self) -> Fault {
        let mut rest = self.random.random_range(0..self.faults.iter().map(|(_, percent)| percent).sum());
        for (fault, percent) in self.faults {
            if rest < percent {
                return fault;
            }
            rest -= percent;
        }
        Fault::StopWorker
    }

    fn milliseconds(&mut self, range: RangeInclusive<u64>) -> Duration {
        Duration::from_millis(self.random.random_range(range))
    }
}

/// The number of faults of each kind.
impl fmt::Display for Nemesis<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Fault::StopWorker, "workers stopped"),
            (Fault::KillWorker, "workers killed"),
            (Fault::StopServer, "servers stopped"),
            (Fault::KillServer, "servers killed"),
            (Fault::KillMajority, "majorities killed"),
        ];
        for (index, (fault, name)) in names.into_iter().enumerate() {
            let gap = if index == 0 { "" } else { ", " };
            write!(f, "{gap}{} {name}", self.counts.get(&fault).copied().unwrap_or(0))?;
        }
        Ok(())
    }
}
