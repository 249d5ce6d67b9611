//! What clients do while things go wrong: a program for each, drawn at random.

use std::{fmt, pin::pin, str::FromStr, time::Duration};

use futures::future::{Either, select};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{
    LockOptions, RestartGuard,
    error::{ConnectError, LockError},
    lock::{LockGuard, MultiLockGuard, Owner, Quorum, RedLock},
    sim::{Client, Failure, Promises, Report, Schedule, Schedules, Simulation, Store},
};

/// One run: what goes wrong, and what the clients do meanwhile.
///
/// It prints as one line of JSON, and [`str::parse`] reads that line back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Case {
    /// What goes wrong.
    pub schedule: Schedule,
    /// What each client does.
    pub programs: Vec<Vec<Step>>,
    /// Whether nodes are trusted to remember every vote, without a restart guard.
    #[serde(default)]
    pub is_unguarded: bool,
}

/// One critical section, and how it is entered and left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Step {
    /// How long the client does something else before.
    #[serde(with = "crate::sim::micros")]
    pub rest: Duration,
    /// What it locks.
    pub what: What,
    /// How it locks.
    pub how: How,
    /// Whether the watchdog renews the lease.
    pub is_renewed: bool,
    /// How long it holds the lease.
    #[serde(with = "crate::sim::micros")]
    pub hold: Duration,
    /// Whether it enters the lease again.
    pub reenters: bool,
    /// Whether it verifies the lease before it writes.
    pub verifies: bool,
    /// How it leaves.
    pub ending: Ending,
}

/// Which resources a step locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum What {
    /// The one that all contend for.
    One,
    /// Another.
    Other,
    /// Both, all or none.
    Both,
}

/// How a step locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum How {
    /// Waits.
    Lock,
    /// Tries once.
    TryLock,
    /// Waits for so long.
    TryLockFor(#[serde(with = "crate::sim::micros")] Duration),
    /// Waits, and gives up by dropping the future after so long.
    Cancel(#[serde(with = "crate::sim::micros")] Duration),
}

/// How a step ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Ending {
    /// Unlocks, and hears the nodes.
    Unlock,
    /// Drops the guard.
    Drop,
    /// Keeps the guard until the lease is lost: only where it is not renewed, otherwise as
    /// [`Unlock`](Self::Unlock).
    Overstay,
}

/// The ttl of the locks of a case.
const TTL: Duration = Duration::from_secs(20);

/// Longer than a waiter may sleep without cause: the longest fallback poll with its jitter, and a
/// ttl.
const TURN: Duration = Duration::from_secs(30);

const DRIFT: f64 = 0.01;

impl Case {
    /// Cases at random: any programs, under any of these schedules.
    pub fn strategy(schedules: &Schedules) -> impl Strategy<Value = Self> + Clone + Send + Sync + use<> {
        let programs = prop::collection::vec(prop::collection::vec(step(), 1..=4), 8);
        (schedules.strategy(), programs).prop_map(|(schedule, mut programs)| {
            programs.truncate(schedule.clients);
            Self { schedule, programs, is_unguarded: false }
        })
    }

    /// The same without a restart guard.
    #[must_use]
    pub fn unguarded(self) -> Self {
        Self { is_unguarded: true, ..self }
    }

    /// Runs it.
    #[must_use]
    pub fn run(&self) -> Report {
        let (programs, guard) = (self.programs.clone(), self.guard());
        Simulation::new(self.schedule.clone()).horizon(self.horizon()).run(|client| {
            let steps = programs.get(client.index()).cloned().unwrap_or_default();
            async move {
                if let Err(error) = run(&client, guard, &steps).await {
                    // Settings that cannot work are a mistake of this file.
                    unreachable!("a simulated client could not be built: {error}");
                }
            }
        })
    }

    /// Runs it, and holds it to the promises that its schedule leaves standing.
    ///
    /// # Errors
    ///
    /// A [`Failure`] that prints what was broken, and by what.
    pub fn check(&self) -> Result<Report, Box<Failure>> {
        self.check_against(&self.promises())
    }

    /// The promises that its schedule leaves standing.
    #[must_use]
    pub fn promises(&self) -> Promises {
        self.schedule.promises(DRIFT, self.guard())
    }

    /// Runs it, and holds it to these promises.
    ///
    /// # Errors
    ///
    /// A [`Failure`] that prints what was broken, and by what.
    pub fn check_against(&self, promises: &Promises) -> Result<Report, Box<Failure>> {
        let report = self.run();
        report.check(promises).map(|()| report)
    }

    fn guard(&self) -> RestartGuard {
        if self.is_unguarded { RestartGuard::Off } else { RestartGuard::PerConnection }
    }

    /// By then, everybody must have had a turn.
    fn horizon(&self) -> Duration {
        let steps = self.programs.iter().flatten();
        let work = steps.flat_map(|step| [step.rest, step.hold, TURN]);
        work.fold(self.schedule.calm_from(), Duration::saturating_add).saturating_add(4 * TURN)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for Case {
    type Err = serde_json::Error;

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        serde_json::from_str(line)
    }
}

fn step() -> impl Strategy<Value = Step> + Clone {
    let what = prop_oneof![4 => Just(What::One), 1 => Just(What::Other), 2 => Just(What::Both)];
    let how = prop_oneof![
        6 => Just(How::Lock),
        2 => Just(How::TryLock),
        2 => millis(1..=30_000).prop_map(How::TryLockFor),
        2 => millis(0..=50).prop_map(How::Cancel),
    ];
    let hold = prop_oneof![3 => millis(0..=20), 2 => millis(20..=5_000), 1 => millis(5_000..=45_000)];
    let rest = prop_oneof![3 => millis(0..=10), 1 => millis(10..=10_000)];
    let ending = prop_oneof![3 => Just(Ending::Unlock), 2 => Just(Ending::Drop), 2 => Just(Ending::Overstay)];
    let habits = (prop::bool::weighted(0.7), prop::bool::weighted(0.2), prop::bool::weighted(0.3));
    (rest, what, how, hold, habits, ending).prop_map(
        |(rest, what, how, hold, (is_renewed, reenters, verifies), ending)| Step {
            rest,
            what,
            how,
            is_renewed,
            hold,
            reenters,
            verifies,
            ending,
        },
    )
}

fn millis(range: std::ops::RangeInclusive<u64>) -> impl Strategy<Value = Duration> + Clone {
    range.prop_map(Duration::from_millis)
}

/// The program of one client.
async fn run(client: &Client, guard: RestartGuard, steps: &[Step]) -> Result<(), ConnectError> {
    let builder = Quorum::builder().ttl(TTL).max_ttl(2 * TTL).drift(DRIFT);
    let quorum = builder.restart_guard(guard).simulated(client)?;
    let store = client.store("r").map_err(ConnectError::Config)?;
    for step in steps {
        client.sleep(step.rest).await;
        let owner = Owner::new();
        if let Ok(Some(guard)) = step.enter(client, &quorum, &owner).await {
            step.work(client, &quorum, &owner, &store, guard).await;
        }
    }
    Ok(())
}

impl Step {
    async fn enter(
        &self,
        client: &Client,
        quorum: &Quorum,
        owner: &Owner,
    ) -> Result<Option<LockGuard>, LockError> {
        match self.what {
            What::Both => {
                let lock = quorum.multi_lock(["r", "s"]).options(self.options());
                let locked = match self.how {
                    How::Lock => lock.lock().await.map(Some),
                    How::TryLock => lock.try_lock().await,
                    How::TryLockFor(wait) => lock.try_lock_for(wait).await.map(Some),
                    How::Cancel(after) => or_cancel(client, lock.lock(), after).await,
                };
                locked.map(|guard| guard.and_then(MultiLockGuard::into_only))
            }
            What::One | What::Other => {
                let lock = self.lock(quorum, owner);
                match self.how {
                    How::Lock => lock.lock().await.map(Some),
                    How::TryLock => lock.try_lock().await,
                    How::TryLockFor(wait) => lock.try_lock_for(wait).await.map(Some),
                    How::Cancel(after) => or_cancel(client, lock.lock(), after).await,
                }
            }
        }
    }

    fn lock(&self, quorum: &Quorum, owner: &Owner) -> RedLock {
        let name = if self.what == What::Other { "s" } else { "r" };
        let lock = quorum.red_lock(name).options(self.options());
        if self.reenters { lock.owned_by(owner) } else { lock }
    }

    fn options(&self) -> LockOptions {
        let options = LockOptions::new();
        if self.is_renewed { options } else { options.without_renewal() }
    }

    async fn work(&self, client: &Client, quorum: &Quorum, owner: &Owner, store: &Store, guard: LockGuard) {
        let token = guard.fencing_token();
        let is_about_store = self.what != What::Other;
        let value = if is_about_store { store.read(token).await } else { None };
        if self.reenters
            && self.what != What::Both
            && let Ok(Some(inner)) = self.lock(quorum, owner).try_lock().await
        {
            client.reentered(&guard, &inner);
            client.sleep(self.hold / 4).await;
            drop(inner);
        }
        let held = pin!(client.sleep(self.hold));
        if let Either::Right(_) = select(held, pin!(client.lost(&guard))).await {
            assert!(!client.look(&guard), "a lease that is announced as lost looks valid");
        }
        let is_valid = client.look(&guard);
        if self.verifies {
            drop(client.verify(&guard).await);
        }
        if let Some(value) = value {
            // Valid or not: refusing what comes too late is the store's business.
            let _is_accepted = store.write(token, value + 1).await;
        }
        match self.ending {
            Ending::Overstay if !self.is_renewed => {
                client.lost(&guard).await;
                assert!(!client.look(&guard), "a lease that is announced as lost looks valid");
            }
            Ending::Drop => drop(guard),
            Ending::Unlock | Ending::Overstay => {
                let unlocked = guard.unlock().await;
                assert!(is_valid || unlocked.is_err(), "a lease that was over was unlocked");
            }
        }
    }
}

/// Waits so long for the lock, and then drops the future.
async fn or_cancel<T>(
    client: &Client,
    lock: impl Future<Output = Result<T, LockError>>,
    after: Duration,
) -> Result<Option<T>, LockError> {
    match select(pin!(lock), pin!(client.sleep(after))).await {
        Either::Left((locked, _)) => locked.map(Some),
        Either::Right(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_rests_without_end_has_a_horizon_all_the_same() {
        let step = Step {
            rest: Duration::MAX,
            what: What::One,
            how: How::Lock,
            is_renewed: true,
            hold: Duration::MAX,
            reenters: false,
            verifies: false,
            ending: Ending::Drop,
        };
        let schedule = Schedule::calm(1, 3, 1);
        let case = Case { schedule, programs: vec![vec![step.clone(), step]], is_unguarded: false };
        assert_eq!(case.horizon(), Duration::MAX);
    }
}
