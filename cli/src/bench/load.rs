//! The load of a benchmark: tasks that lock and unlock, and their measurements.

use std::{collections::BTreeMap, time::Duration};

use redquorum::{Quorum, RedLock, error::Error};
use tokio::{sync::watch, task::JoinSet};

use super::{histogram::LatencyHistogram, residue::Residue};
use crate::{failure::Failure, stopwatch};

/// The pause of a task after a failure. The pause prevents a busy loop if nodes refuse at once.
const FAILURE_PAUSE: Duration = Duration::from_millis(10);

/// The measurements of the tasks.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) lock: LatencyHistogram,
    pub(crate) unlock: LatencyHistogram,
    /// The number of failures by kind.
    pub(crate) failures: BTreeMap<&'static str, u64>,
    /// The keys that the unlocks may have left.
    pub(crate) residue: Residue,
}

impl Load {
    /// Locks and unlocks each resource in its own task until `is_over`. `tombstone_ttl` is the ttl of
    /// tombstones on the nodes.
    ///
    /// # Errors
    ///
    /// A histogram or a task that fails. Failed calls of locks are counted instead.
    pub(crate) async fn run(
        quorum: &Quorum,
        resources: &[String],
        tombstone_ttl: Duration,
        is_over: &watch::Receiver<bool>,
    ) -> Result<Self, Failure> {
        let mut tasks = JoinSet::new();
        for resource in resources {
            let load = Self::new(tombstone_ttl)?;
            tasks.spawn(load.work(resource.clone(), quorum.red_lock(resource), is_over.clone()));
        }
        let mut load = Self::new(tombstone_ttl)?;
        while let Some(done) = tasks.join_next().await {
            load.add(done.map_err(|error| Failure::internal("run a task of the benchmark", error))?)?;
        }
        Ok(load)
    }

    fn new(tombstone_ttl: Duration) -> Result<Self, Failure> {
        Ok(Self {
            lock: LatencyHistogram::new()?,
            unlock: LatencyHistogram::new()?,
            failures: BTreeMap::new(),
            residue: Residue::new(tombstone_ttl),
        })
    }

    fn add(&mut self, other: Self) -> Result<(), Failure> {
        self.lock.add(&other.lock)?;
        self.unlock.add(&other.unlock)?;
        self.residue.add(other.residue);
        for (kind, count) in other.failures {
            *self.failures.entry(kind).or_default() += count;
        }
        Ok(())
    }

    async fn work(mut self, resource: String, lock: RedLock, is_over: watch::Receiver<bool>) -> Self {
        while !*is_over.borrow() {
            if !self.step(&resource, &lock).await {
                stopwatch::pause(FAILURE_PAUSE).await;
            }
        }
        self
    }

    fn count_failure(&mut self, kind: &'static str) {
        *self.failures.entry(kind).or_default() += 1;
    }

    /// Locks and unlocks once. Returns whether both succeeded.
    async fn step(&mut self, resource: &str, lock: &RedLock) -> bool {
        let start = stopwatch::now();
        let guard = match lock.try_lock().await {
            Ok(Some(guard)) => guard,
            Ok(None) => {
                self.count_failure("lock: held by another client");
                return false;
            }
            Err(error) => {
                self.count_failure(kind_of_failure(&error));
                return false;
            }
        };
        self.lock.record(start.elapsed());
        self.residue.record(resource, &guard);
        let start = stopwatch::now();
        match guard.unlock().await {
            Ok(replies) if replies.has_quorum() => {
                self.unlock.record(start.elapsed());
                return true;
            }
            Ok(_) => self.count_failure("unlock: no quorum"),
            Err(Error::LeaseLost(_)) => self.count_failure("unlock: the lease was lost"),
            Err(_) => self.count_failure("unlock: other errors"),
        }
        false
    }
}

fn kind_of_failure(error: &Error) -> &'static str {
    match error {
        Error::NoQuorum(error) if error.is_quarantined() => "lock: nodes in quarantine",
        // A quorum granted the lock, but too late to leave any validity.
        Error::NoQuorum(error) if error.node_replies().has_quorum() => "lock: votes came too late",
        Error::NoQuorum(_) => "lock: no quorum",
        _ => "lock: other errors",
    }
}
