//! The load of a benchmark: tasks that lock and unlock, and their measurements.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redquorum::{LockGuard, Quorum, RedLock, error::Error};
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
    /// The last error of a call, as the reason of the failures.
    pub(crate) last_error: Option<Failure>,
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
        let (mut tasks, load) = (JoinSet::new(), SharedLoad::new(tombstone_ttl)?);
        for resource in resources {
            let lock = quorum.red_lock(resource);
            tasks.spawn(load.clone().work(resource.clone(), lock, is_over.clone()));
        }
        while let Some(done) = tasks.join_next().await {
            done.map_err(|error| Failure::internal("run a task of the benchmark", error))?;
        }
        load.into_load()
    }

    fn new(tombstone_ttl: Duration) -> Result<Self, Failure> {
        Ok(Self {
            lock: LatencyHistogram::new()?,
            unlock: LatencyHistogram::new()?,
            failures: BTreeMap::new(),
            last_error: None,
            residue: Residue::new(tombstone_ttl),
        })
    }

    fn record_lock(&mut self, took: Duration, resource: &str, guard: &LockGuard) {
        self.lock.record(took);
        self.residue.record(resource, guard);
    }
}

/// The measurements that all tasks share. Histograms of its own would take some hundred kilobytes for each task.
#[derive(Clone, Debug)]
struct SharedLoad(Arc<Mutex<Load>>);

impl SharedLoad {
    fn new(tombstone_ttl: Duration) -> Result<Self, Failure> {
        Ok(Self(Arc::new(Mutex::new(Load::new(tombstone_ttl)?))))
    }

    /// Returns the measurements after the end of all tasks.
    fn into_load(self) -> Result<Load, Failure> {
        let load = Arc::into_inner(self.0).map(Mutex::into_inner);
        let load = load.ok_or_else(|| Failure::internal("read the measurements", "a task still runs"))?;
        Ok(load.unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the measurements, for a change without an await. A task that has panicked ends the benchmark with an
    /// error, so the measurements of such a task do not matter.
    fn measurements(&self) -> MutexGuard<'_, Load> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn work(self, resource: String, lock: RedLock, is_over: watch::Receiver<bool>) {
        while !*is_over.borrow() {
            if !self.step(&resource, &lock).await {
                stopwatch::pause(FAILURE_PAUSE).await;
            }
        }
    }

    fn count_failure(&self, kind: &'static str) {
        *self.measurements().failures.entry(kind).or_default() += 1;
    }

    /// Locks and unlocks once. Returns whether both succeeded.
    async fn step(&self, resource: &str, lock: &RedLock) -> bool {
        let start = stopwatch::now();
        let guard = match lock.try_lock().await {
            Ok(Some(guard)) => guard,
            Ok(None) => {
                self.count_failure("lock: held by another client");
                return false;
            }
            Err(error) => {
                self.count_failure(kind_of_failure(&error));
                self.measurements().last_error = Some(error.into());
                return false;
            }
        };
        self.measurements().record_lock(start.elapsed(), resource, &guard);
        let start = stopwatch::now();
        match guard.unlock().await {
            Ok(replies) if replies.has_quorum() => {
                self.measurements().unlock.record(start.elapsed());
                return true;
            }
            Ok(_) => self.count_failure("unlock: no quorum"),
            Err(error) => {
                let is_loss = matches!(error, Error::LeaseLost(_));
                self.count_failure(if is_loss {
                    "unlock: the lease was lost"
                } else {
                    "unlock: other errors"
                });
                self.measurements().last_error = Some(error.into());
            }
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
