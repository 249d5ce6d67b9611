//! Random programs for the processes of a simulation.
//!
//! The library's own tests include this file, too.

use std::{fmt, ops::Deref, ops::RangeInclusive, pin::pin, str::FromStr, time::Duration};

use futures::future::{Either, join, select};
use proptest::prelude::*;
use redquorum::{
    Error, Lease, LockGuard, LockOptions, Owner, Quorum, ReadGuard, RestartGuard,
    error::NodeReplies,
    sim::{Process, Promises, Report, Schedule, Schedules, Simulation, Store},
};
use serde::{Deserialize, Serialize};

/// The ttl of all locks.
const TTL: Duration = Duration::from_secs(20);

/// The longest time between two attempts of a waiter: a ttl, and a fallback poll with jitter.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// The drift of the quorum.
const DRIFT: f64 = 0.01;

/// The number of programs to draw: at least the number of processes of any schedule.
const PROGRAMS: usize = 8;

/// One run: the faults, and the programs of the processes.
///
/// `Display` prints one line of JSON, and `FromStr` parses that line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Case {
    /// The faults.
    pub(crate) schedule: Schedule,
    /// The steps of each process.
    pub(crate) programs: Vec<Vec<Step>>,
    /// Whether nodes vote without a restart guard.
    #[serde(default)]
    pub(crate) is_unguarded: bool,
}

/// One critical section, and how the process enters and leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// The time before the step.
    #[serde(with = "micros")]
    pub(crate) rest: Duration,
    /// The resources to lock.
    pub(crate) targets: Targets,
    /// The resources to lock for reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reads: Option<Targets>,
    /// Whether a second task of the process takes the same step at the same time. Two readers
    /// may have one lease.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) has_company: bool,
    /// Whether a writer downgrades at the end, and reads for a quarter of `hold`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) downgrades: bool,
    /// The call that locks.
    pub(crate) call: LockCall,
    /// Whether the watchdog renews the lease.
    pub(crate) is_renewed: bool,
    /// The time under the lease.
    #[serde(with = "micros")]
    pub(crate) hold: Duration,
    /// Whether the process locks the held resource again.
    pub(crate) reenters: bool,
    /// Whether the process verifies the lease before the write.
    pub(crate) verifies: bool,
    /// The end of the lease.
    pub(crate) end: StepEnd,
}

/// Resources of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Targets {
    /// The resource that all processes contend for, which protects the store.
    One,
    /// A second resource.
    Other,
    /// Both resources, all or none.
    Both,
}

/// The call by which a step locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LockCall {
    /// Waits without a limit.
    Lock,
    /// Makes one attempt.
    TryLock,
    /// Waits for at most this time.
    TryLockFor(#[serde(with = "micros")] Duration),
    /// Waits, and drops the future after this time.
    Cancel(#[serde(with = "micros")] Duration),
}

/// The end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum StepEnd {
    /// Unlocks, and waits for the nodes.
    Unlock,
    /// Drops the guard.
    Drop,
    /// Keeps the guard until the lease is lost. A renewed lease is unlocked instead.
    Overstay,
}

impl Case {
    /// Returns random cases: any programs, under these schedules.
    pub(crate) fn strategy(
        schedules: &Schedules,
    ) -> impl Strategy<Value = Self> + Clone + Send + Sync + use<> {
        let programs = prop::collection::vec(prop::collection::vec(step(), 1..=4), PROGRAMS);
        (schedules.strategy(), programs).prop_map(|(schedule, mut programs)| {
            programs.truncate(schedule.processes);
            Self { schedule, programs, is_unguarded: false }
        })
    }

    /// Runs the case once.
    pub(crate) fn run(&self) -> Report {
        let guard = self.guard();
        Simulation::new(self.schedule.clone()).horizon(self.horizon()).run(|process| {
            let steps = self.programs.get(process.index()).cloned().unwrap_or_default();
            async move {
                // The settings do not depend on the case, so this is a mistake of this file.
                let worker = Worker::connect(process, guard).expect("the settings are valid");
                worker.run(&steps).await;
            }
        })
    }

    /// Returns the promises whose assumptions the schedule keeps.
    pub(crate) fn promises(&self) -> Promises {
        self.schedule.promises(DRIFT, self.guard())
    }

    fn guard(&self) -> RestartGuard {
        if self.is_unguarded { RestartGuard::Off } else { RestartGuard::PerConnection }
    }

    /// Returns the time by which all programs are done, if no waiter starves.
    fn horizon(&self) -> Duration {
        let times = self.programs.iter().flatten().flat_map(|step| {
            let waits = LONGEST_SLEEP * (1 + u32::from(step.has_company));
            [step.rest, step.hold, step.hold / 4, waits]
        });
        let work = times.fold(self.schedule.faults_end(), Duration::saturating_add);
        work.saturating_add(4 * LONGEST_SLEEP)
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

/// A process that runs a program.
struct Worker {
    process: Process,
    quorum: Quorum,
    /// The store that [`Targets::One`] protects.
    store: Store,
}

impl Worker {
    fn connect(process: Process, guard: RestartGuard) -> Result<Self, Error> {
        let builder = Quorum::builder().ttl(TTL).max_ttl(2 * TTL).drift(DRIFT);
        let quorum = builder.restart_guard(guard).connect_simulated(&process)?;
        let store = process.store("r");
        Ok(Self { process, quorum, store })
    }

    async fn run(&self, steps: &[Step]) {
        for step in steps {
            self.process.sleep(step.rest).await;
            join(self.take(step), self.keep_company(step)).await;
        }
    }

    async fn take(&self, step: &Step) {
        let owner = Owner::new();
        if let Ok(Some(guard)) = self.enter(step, step.call, &owner).await {
            self.work(step, &owner, guard).await;
        }
    }

    /// Holds the same for a quarter of the time, in a second task.
    async fn keep_company(&self, step: &Step) {
        if step.has_company
            && let Ok(Some(guard)) = self.enter(step, step.call, &Owner::new()).await
        {
            self.process.sleep(step.hold / 4).await;
            let _is_valid = self.process.check_valid(&guard);
        }
    }

    async fn enter(&self, step: &Step, call: LockCall, owner: &Owner) -> Result<Option<Guard>, Error> {
        match step.targets {
            Targets::Both => {
                let lock = self.quorum.multi_lock(step.names(false)).and_read(step.names(true));
                let lock = lock.options(step.options());
                let locked = self.call(call, lock.lock(), lock.try_lock(), |wait| lock.try_lock_for(wait));
                Ok(locked.await?.map(Guard::Exclusive))
            }
            target if step.reads(target) => {
                let lock = self.quorum.rw_lock(target.name()).options(step.options());
                let lock = if step.reenters { lock.owned_by(owner) } else { lock };
                let locked = self.call(call, lock.read(), lock.try_read(), |wait| lock.try_read_for(wait));
                Ok(locked.await?.map(Guard::Shared))
            }
            target => {
                let lock = self.quorum.red_lock(target.name()).options(step.options());
                let lock = if step.reenters { lock.owned_by(owner) } else { lock };
                let locked = self.call(call, lock.lock(), lock.try_lock(), |wait| lock.try_lock_for(wait));
                Ok(locked.await?.map(Guard::Exclusive))
            }
        }
    }

    /// Makes one of three calls to a lock, which are futures that do nothing until polled.
    async fn call<G, TryFor: Future<Output = Result<Option<G>, Error>>>(
        &self,
        call: LockCall,
        lock: impl Future<Output = Result<G, Error>>,
        try_lock: impl Future<Output = Result<Option<G>, Error>>,
        try_lock_for: impl FnOnce(Duration) -> TryFor,
    ) -> Result<Option<G>, Error> {
        match call {
            LockCall::Lock => lock.await.map(Some),
            LockCall::TryLock => try_lock.await,
            LockCall::TryLockFor(wait) => try_lock_for(wait).await,
            LockCall::Cancel(after) => match select(pin!(lock), pin!(self.process.sleep(after))).await {
                Either::Left((locked, _)) => locked.map(Some),
                Either::Right(_) => Ok(None),
            },
        }
    }

    async fn work(&self, step: &Step, owner: &Owner, guard: Guard) {
        let token = guard.fencing_token();
        let uses_store = step.targets != Targets::Other;
        let only_reads = step.reads(Targets::One);
        let value = match (uses_store, only_reads) {
            (false, _) => None,
            (true, false) => self.store.read(token).await.ok(),
            (true, true) => self.store.read_shared(token).await.ok(),
        };
        if step.reenters
            && step.targets != Targets::Both
            && let Ok(Some(inner)) = self.enter(step, LockCall::TryLock, owner).await
        {
            self.process.reentered(&guard, &inner);
            self.process.sleep(step.hold / 4).await;
            drop(inner);
        }
        let held = pin!(self.process.sleep(step.hold));
        if let Either::Right(_) = select(held, pin!(self.process.lost(&guard))).await {
            assert!(!self.process.check_valid(&guard), "a lost lease looks valid");
        }
        let is_valid = self.process.check_valid(&guard);
        if step.verifies {
            // The process notes the outcome, which the report is checked for.
            self.process.verify(&guard).await.ok();
        }
        if uses_store && only_reads {
            self.store.read_shared(token).await.ok();
        } else if let Some(value) = value {
            // The lease may have ended. To refuse a late write is the store's part.
            self.store.write(token, value + 1).await.ok();
        }
        match guard {
            Guard::Exclusive(guard) if step.downgrades => self.downgrade(step, guard, uses_store).await,
            guard => self.leave(step, guard, is_valid).await,
        }
    }

    async fn downgrade(&self, step: &Step, guard: LockGuard, uses_store: bool) {
        // Fails if the lease has ended, or if no quorum answers in time.
        let Ok(guard) = self.process.downgrade(guard).await else { return };
        if uses_store {
            self.store.read_shared(guard.fencing_token()).await.ok();
        }
        self.process.sleep(step.hold / 4).await;
        let is_valid = self.process.check_valid(&guard);
        self.leave(step, Guard::Shared(guard), is_valid).await;
    }

    async fn leave(&self, step: &Step, guard: Guard, is_valid: bool) {
        match step.end {
            StepEnd::Overstay if !step.is_renewed => {
                self.process.lost(&guard).await;
                assert!(!self.process.check_valid(&guard), "a lost lease looks valid");
            }
            StepEnd::Drop => drop(guard),
            StepEnd::Unlock | StepEnd::Overstay => {
                let unlocked = guard.unlock().await;
                assert!(is_valid || unlocked.is_err(), "the unlock of a lost lease returned `Ok`");
            }
        }
    }
}

impl Step {
    /// Whether the step locks this resource for reading.
    fn reads(&self, target: Targets) -> bool {
        self.reads.is_some_and(|reads| reads == Targets::Both || reads == target)
    }

    /// Returns the resources of a group that are only read, or the other resources.
    fn names(&self, are_read: bool) -> impl Iterator<Item = &'static str> {
        let both = [Targets::One, Targets::Other].into_iter();
        both.filter(move |target| self.reads(*target) == are_read).map(Targets::name)
    }

    fn options(&self) -> LockOptions {
        let options = LockOptions::new();
        if self.is_renewed { options } else { options.without_renewal() }
    }
}

impl Targets {
    fn name(self) -> &'static str {
        if self == Self::Other { "s" } else { "r" }
    }
}

/// The guard of a step.
enum Guard {
    Exclusive(LockGuard),
    Shared(ReadGuard),
}

impl Guard {
    async fn unlock(self) -> Result<NodeReplies, Error> {
        match self {
            Self::Exclusive(guard) => guard.unlock().await,
            Self::Shared(guard) => guard.unlock().await,
        }
    }
}

impl Deref for Guard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        match self {
            Self::Exclusive(guard) => guard,
            Self::Shared(guard) => guard,
        }
    }
}

fn step() -> impl Strategy<Value = Step> + Clone {
    let targets = prop_oneof![4 => Just(Targets::One), 1 => Just(Targets::Other), 2 => Just(Targets::Both)];
    let reads = prop_oneof![
        4 => Just(None),
        3 => Just(Some(Targets::Both)),
        1 => Just(Some(Targets::One)),
        1 => Just(Some(Targets::Other)),
    ];
    let call = prop_oneof![
        6 => Just(LockCall::Lock),
        2 => Just(LockCall::TryLock),
        2 => millis(1..=30_000).prop_map(LockCall::TryLockFor),
        2 => millis(0..=50).prop_map(LockCall::Cancel),
    ];
    // Some steps outlast the ttl.
    let hold = prop_oneof![3 => millis(0..=20), 2 => millis(20..=5_000), 1 => millis(5_000..=45_000)];
    let rest = prop_oneof![3 => millis(0..=10), 1 => millis(10..=10_000)];
    let end = prop_oneof![3 => Just(StepEnd::Unlock), 2 => Just(StepEnd::Drop), 2 => Just(StepEnd::Overstay)];
    let is_renewed = prop::bool::weighted(0.7);
    let habits = [0.2, 0.2, 0.2, 0.3].map(prop::bool::weighted);
    (rest, (targets, reads), call, hold, is_renewed, habits, end).prop_map(
        |(rest, (targets, reads), call, hold, is_renewed, habits, end)| {
            let [has_company, downgrades, reenters, verifies] = habits;
            Step {
                rest,
                targets,
                reads,
                // A second writer would be like a further process.
                has_company: has_company && reads.is_some(),
                downgrades: downgrades && targets != Targets::Both,
                call,
                is_renewed,
                hold,
                reenters,
                verifies,
                end,
            }
        },
    )
}

fn millis(range: RangeInclusive<u64>) -> impl Strategy<Value = Duration> + Clone {
    range.prop_map(Duration::from_millis)
}

/// Durations as whole microseconds, the unit of simulated time. The largest number is
/// [`Duration::MAX`].
mod micros {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let micros = u64::deserialize(deserializer)?;
        Ok(if micros == u64::MAX { Duration::MAX } else { Duration::from_micros(micros) })
    }
}
