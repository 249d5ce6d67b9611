//! The clients of a fleet, and their tasks.

use std::time::Duration;

use futures::stream::{self, StreamExt};
use redquorum::{LockGuard, Quorum};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout_at},
};

use super::servers::Servers;
use crate::{Arguments, Problem};

/// The number of clients that connect or lock at a time, before the measurement.
const AT_ONCE: usize = 64;

/// The connect timeout of clients that connect before the measurement.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// The time limit of all tasks that begin at once.
const PATIENCE: Duration = Duration::from_secs(180);

/// Connected clients.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) clients: Vec<Quorum>,
    /// The leases that the clients hold.
    leases: Vec<LockGuard>,
}

/// The results of tasks that began at once.
#[derive(Debug)]
pub(crate) struct Results<T> {
    pub(crate) results: Vec<T>,
    /// The time until the last task has ended, also if the task has failed.
    pub(crate) seconds: f64,
}

impl Fleet {
    /// Connects this number of clients, and returns when each client is connected to every node.
    ///
    /// # Errors
    ///
    /// If a client is not connected in time.
    pub(crate) async fn connect(servers: &mut Servers, clients: usize) -> Result<Self, Problem> {
        let builder = servers.builder().connect_timeout(CONNECT_TIMEOUT);
        let connects = stream::iter(0..clients).map(|_| tokio::spawn(builder.clone().connect()));
        let connects: Vec<_> = connects.buffer_unordered(AT_ONCE).collect().await;
        let mut fleet = Self { clients: Vec::new(), leases: Vec::new() };
        for connect in connects {
            fleet.clients.push(connect??);
        }
        match servers.recovery(clients, Instant::now()).await.missing {
            0 => Ok(fleet),
            missing => Err(format!("{missing} of {clients} clients cannot connect to every node").into()),
        }
    }

    /// Returns connected clients that each hold a lease.
    pub(crate) async fn with_leases(servers: &mut Servers, arguments: &Arguments) -> Result<Self, Problem> {
        let mut fleet = Self::connect(servers, arguments.clients()).await?;
        fleet.lock_own().await?;
        Ok(fleet)
    }

    /// Lets each client lock a resource of its own.
    pub(crate) async fn lock_own(&mut self) -> Result<(), Problem> {
        let locks: Vec<_> = self.clients.iter().enumerate().map(own_lock).collect();
        let locks = stream::iter(locks).map(|lock| tokio::spawn(async move { lock.lock().await }));
        let locks: Vec<_> = locks.buffer_unordered(AT_ONCE).collect().await;
        for lock in locks {
            self.leases.push(lock??);
        }
        Ok(())
    }

    /// Adds leases of these clients.
    pub(crate) fn hold(&mut self, leases: Vec<LockGuard>) {
        self.leases.extend(leases);
    }

    pub(crate) fn leases(&self) -> usize {
        self.leases.len()
    }

    /// Returns the number of lost leases.
    pub(crate) fn lost(&self) -> usize {
        self.leases.iter().filter(|lease| !lease.is_valid()).count()
    }
}

fn own_lock((number, client): (usize, &Quorum)) -> redquorum::RedLock {
    client.red_lock(format!("own:{number}"))
}

/// Runs all tasks at once. Tasks that have not ended at the time limit have no result.
pub(crate) async fn at_once<F>(tasks: impl IntoIterator<Item = F>) -> Result<Results<F::Output>, Problem>
where
    F: Future<Output: Send> + Send + 'static,
{
    let mut running = JoinSet::new();
    let begin = Instant::now();
    for task in tasks {
        running.spawn(task);
    }
    let mut results = Vec::new();
    let mut seconds = f64::NAN;
    while let Ok(Some(ended)) = timeout_at(begin + PATIENCE, running.join_next()).await {
        results.push(ended?);
        seconds = begin.elapsed().as_secs_f64();
    }
    Ok(Results { results, seconds })
}

/// Returns the resident memory of this process in bytes, or NaN if the system does not report it.
pub(crate) fn resident_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kibibytes.map_or(f64::NAN, |kibibytes| kibibytes * 1024.0)
}
