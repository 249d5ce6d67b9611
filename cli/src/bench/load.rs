//! Tasks that lock and unlock.

use std::{collections::BTreeMap, time::Duration};

use redquorum::{Quorum, RedLock, error::Error};
use tokio::{sync::watch, task::JoinSet};

use super::{histogram::LatencyHistogram, residue::Residue};
use crate::{failure::Failure, stopwatch};

/// How long a task rests after a failure, so that nodes which refuse are not asked in a busy loop.
const REST: Duration = Duration::from_millis(10);

/// What tasks have seen.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) lock: LatencyHistogram,
    pub(crate) unlock: LatencyHistogram,
    /// How often what failed.
    pub(crate) failures: BTreeMap<&'static str, u64>,
    /// What their unlocks may have left.
    pub(crate) residue: Residue,
}

impl Load {
    /// Locks and unlocks in a task for each of these resources, until `is_over`, on nodes where
    /// tombstones last so long.
    ///
    /// # Errors
    ///
    /// What cannot be counted. Locks that are not had are counted.
    pub(crate) async fn run(
        quorum: &Quorum,
        resources: &[String],
        tombstones_last: Duration,
        is_over: &watch::Receiver<bool>,
    ) -> Result<Self, Failure> {
        let mut tasks = JoinSet::new();
        for resource in resources {
            let load = Self::new(tombstones_last)?;
            tasks.spawn(load.work(resource.clone(), quorum.red_lock(resource), is_over.clone()));
        }
        let mut load = Self::new(tombstones_last)?;
        while let Some(done) = tasks.join_next().await {
            load.add(done.map_err(|error| Failure::internal("a task of the benchmark", error))?)?;
        }
        Ok(load)
    }

    fn new(tombstones_last: Duration) -> Result<Self, Failure> {
        Ok(Self {
            lock: LatencyHistogram::new()?,
            unlock: LatencyHistogram::new()?,
            failures: BTreeMap::new(),
            residue: Residue::new(tombstones_last),
        })
    }

    fn add(&mut self, other: Self) -> Result<(), Failure> {
        self.lock.add(&other.lock)?;
        self.unlock.add(&other.unlock)?;
        self.residue.add(other.residue);
        for (what, count) in other.failures {
            *self.failures.entry(what).or_default() += count;
        }
        Ok(())
    }

    async fn work(mut self, resource: String, lock: RedLock, is_over: watch::Receiver<bool>) -> Self {
        while !*is_over.borrow() {
            if !self.step(&resource, &lock).await {
                stopwatch::pause(REST).await;
            }
        }
        self
    }

    fn failed(&mut self, what: &'static str) {
        *self.failures.entry(what).or_default() += 1;
    }

    /// One lock and its unlock; whether both went well.
    async fn step(&mut self, resource: &str, lock: &RedLock) -> bool {
        let start = stopwatch::now();
        let guard = match lock.try_lock().await {
            Ok(Some(guard)) => guard,
            Ok(None) => {
                self.failed("lock: held by another");
                return false;
            }
            Err(error) => {
                self.failed(why_not_locked(&error));
                return false;
            }
        };
        self.lock.note(start.elapsed());
        self.residue.note(resource, &guard);
        let start = stopwatch::now();
        match guard.unlock().await {
            Ok(replies) if replies.has_quorum() => {
                self.unlock.note(start.elapsed());
                return true;
            }
            Ok(_) => self.failed("unlock: no quorum"),
            Err(Error::LeaseLost(_)) => self.failed("unlock: the lease was lost"),
            Err(_) => self.failed("unlock: other errors"),
        }
        false
    }
}

fn why_not_locked(error: &Error) -> &'static str {
    match error {
        Error::NoQuorum(error) if error.is_quarantined() => "lock: nodes in quarantine",
        // A quorum granted, and too late to leave any validity.
        Error::NoQuorum(error) if error.node_replies().has_quorum() => "lock: votes came too late",
        Error::NoQuorum(_) => "lock: no quorum",
        _ => "lock: other errors",
    }
}
