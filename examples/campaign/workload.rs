//! Random programs for the processes of a simulation, and the case that joins them with a schedule of faults.
//!
//! ```text
//! Case ── schedule ──► Simulation ──► Report, checked for `Case::promises`
//!   └─── programs ──► one Worker per process: rest, lock, use the store, unlock, for each Step
//! ```
//!
//! `tests/simulation.rs` includes this file, too.

use std::{
    collections::BTreeMap,
    fmt,
    ops::{Deref, RangeInclusive},
    pin::pin,
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::{Either, join, select};
use proptest::prelude::*;
use redquorum::{
    Error, Lease, LockGuard, LockOptions, Owner, Quorum, ReadGuard, RestartGuard, Ticket,
    error::NodeReplies,
    sim::{Process, Promises, Report, Schedule, Schedules, Simulation, Store},
};
use serde::{Deserialize, Serialize};

/// The ttl of all locks.
const TTL: Duration = Duration::from_secs(20);

/// The shortest ttl of a ticket: long enough for the next steps of some processes.
const SHORTEST_TICKET: Duration = Duration::from_secs(10);

/// The longest ttl of a lease or ticket.
const MAX_TTL: Duration = Duration::from_secs(40);

/// The longest time between two attempts of a waiter: more than a ttl and a fallback poll with jitter.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// The drift of the quorum.
const DRIFT: f64 = 0.01;

/// The number of programs to draw: at least the number of processes of any schedule.
const PROGRAMS: usize = 8;

/// The input of one simulated run: the faults, and the program of each process.
///
/// `Display` prints a case as one line of JSON, and `FromStr` parses that line. The names of the fields and
/// variants are part of that format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Case {
    /// The nodes, the network, the clocks and the faults.
    pub(crate) schedule: Schedule,
    /// The program of each process: its steps, in order.
    pub(crate) programs: Vec<Vec<Step>>,
    /// Whether the quorum has no restart guard.
    #[serde(default)]
    pub(crate) is_unguarded: bool,
}

/// One lock call with its critical section. All durations are simulated time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// The pause before the step.
    #[serde(with = "micros")]
    pub(crate) rest: Duration,
    /// The resources to lock.
    pub(crate) targets: Targets,
    /// The resources of `targets` that the step locks for reading. The step locks all other resources exclusively.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reads: Option<Targets>,
    /// Whether a second task of the process makes the same lock call at the same time. Two readers of one
    /// process may share a lease.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) has_company: bool,
    /// Whether a writer downgrades its lease before the end, and then reads for a quarter of `hold`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) downgrades: bool,
    /// Whether a writer turns its lease into a ticket at the end. The ttl of the ticket is `hold` more than
    /// [`SHORTEST_TICKET`], and at most [`MAX_TTL`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) issues_ticket: bool,
    /// Whether the step redeems the last ticket that a process has issued for these targets, in place of its lock call.
    /// Without such a ticket, the step makes the lock call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) redeems: bool,
    /// The lock call.
    pub(crate) call: LockCall,
    /// Whether the watchdog renews the lease.
    pub(crate) is_renewed: bool,
    /// The time for which the process works under the lease.
    #[serde(with = "micros")]
    pub(crate) hold: Duration,
    /// Whether the process locks the held resource a second time, for a quarter of `hold`.
    pub(crate) reenters: bool,
    /// Whether the process calls `verify` before it writes.
    pub(crate) verifies: bool,
    /// How the lease ends.
    pub(crate) end: StepEnd,
}

/// The resources of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Targets {
    /// The resource `r`, for which all processes contend. Its lock protects the store.
    One,
    /// The resource `s`, which protects nothing.
    Other,
    /// Both resources, as a group.
    Both,
}

/// The lock call of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LockCall {
    /// `lock`: waits without a limit.
    Lock,
    /// `try_lock`: makes one attempt.
    TryLock,
    /// `try_lock_for`: waits for at most this time.
    TryLockFor(#[serde(with = "micros")] Duration),
    /// `lock`, whose future is dropped after this time.
    Cancel(#[serde(with = "micros")] Duration),
}

/// The end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum StepEnd {
    /// Calls `unlock`, and waits for its result.
    Unlock,
    /// Drops the guard.
    Drop,
    /// Keeps the guard until the lease has ended. A renewed lease is unlocked instead, because it would not end.
    Overstay,
}

impl Case {
    /// Returns a strategy of cases with any programs and with these schedules.
    pub(crate) fn strategy(
        schedules: &Schedules,
    ) -> impl Strategy<Value = Self> + Clone + Send + Sync + use<> {
        let programs = prop::collection::vec(prop::collection::vec(step(), 1..=4), PROGRAMS);
        (schedules.strategy(), programs).prop_map(|(schedule, mut programs)| {
            programs.truncate(schedule.processes);
            Self { schedule, programs, is_unguarded: false }
        })
    }

    /// Simulates the case once. The same case always gives the same report.
    pub(crate) fn run(&self) -> Report {
        let guard = self.guard();
        let tickets = Tickets::default();
        Simulation::new(self.schedule.clone()).horizon(self.horizon()).run(|process| {
            let steps = self.programs.get(process.index()).cloned().unwrap_or_default();
            let tickets = Arc::clone(&tickets);
            async move {
                // The settings are constants of this file, so a wrong setting would fail in each case.
                let worker = Worker::connect(process, guard, tickets).expect("the settings are valid");
                worker.run(&steps).await;
            }
        })
    }

    /// Returns the promises that have to hold, because the schedule keeps their assumptions.
    pub(crate) fn promises(&self) -> Promises {
        self.schedule.promises(DRIFT, self.guard())
    }

    fn guard(&self) -> RestartGuard {
        if self.is_unguarded { RestartGuard::Off } else { RestartGuard::PerConnection }
    }

    /// Returns the end of the simulation. If no call waits too long, all programs end earlier.
    fn horizon(&self) -> Duration {
        let times = self.programs.iter().flatten().flat_map(|step| {
            let waits = LONGEST_SLEEP * (1 + u32::from(step.has_company));
            let ticket = if step.issues_ticket { step.ticket_ttl() } else { Duration::ZERO };
            [step.rest, step.hold, step.hold / 4, waits, ticket]
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

/// The last ticket for each target. Processes receive tickets by this channel, which is faster than any message and never
/// fails. A ticket stays here after a redemption, so that further redemptions have to fail.
type Tickets = Arc<Mutex<BTreeMap<Targets, Ticket>>>;

/// One process, which runs a program.
struct Worker {
    process: Process,
    quorum: Quorum,
    tickets: Tickets,
    /// The store that the lock of [`Targets::One`] protects.
    store: Store,
}

impl Worker {
    fn connect(process: Process, guard: RestartGuard, tickets: Tickets) -> Result<Self, Error> {
        let builder = Quorum::builder().ttl(TTL).max_ttl(MAX_TTL).drift(DRIFT);
        let quorum = builder.restart_guard(guard).connect_simulated(&process)?;
        let store = process.store("r");
        Ok(Self { process, quorum, tickets, store })
    }

    async fn run(&self, steps: &[Step]) {
        for step in steps {
            self.process.sleep(step.rest).await;
            join(self.run_step(step), self.run_companion(step)).await;
        }
    }

    /// Makes the lock call of a step, and does its work if the call returns a guard.
    async fn run_step(&self, step: &Step) {
        let owner = Owner::new();
        let ticket = if step.redeems { self.ticket(step) } else { None };
        let locked = match ticket {
            Some(ticket) => self.redeem(step, &ticket).await,
            None => self.lock(step, step.call, &owner).await,
        };
        if let Ok(Some(guard)) = locked {
            self.work(step, &owner, guard).await;
        }
    }

    /// Runs the second task of [`Step::has_company`], which makes the same lock call, and holds for a quarter of the
    /// time.
    async fn run_companion(&self, step: &Step) {
        if step.has_company
            && let Ok(Some(guard)) = self.lock(step, step.call, &Owner::new()).await
        {
            self.process.sleep(step.hold / 4).await;
            let _is_valid = self.process.check_valid(&guard);
        }
    }

    /// Returns the last ticket for the targets of a step.
    fn ticket(&self, step: &Step) -> Option<Ticket> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner).get(&step.targets).cloned()
    }

    /// Redeems a ticket. The simulator checks that no other lease was granted since the lease that became the ticket.
    async fn redeem(&self, step: &Step, ticket: &Ticket) -> Result<Option<Guard>, Error> {
        let redeemed = self.process.redeem(&self.quorum, ticket, step.options()).await?;
        Ok(redeemed.map(Guard::Exclusive))
    }

    /// Locks the resources of a step by `call`. If the step re-enters, `owner` owns the lock.
    async fn lock(&self, step: &Step, call: LockCall, owner: &Owner) -> Result<Option<Guard>, Error> {
        match step.targets {
            Targets::Both => {
                let lock = self.quorum.multi_lock(step.names_to_write()).and_read(step.names_to_read());
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

    /// Makes the lock call of a step. The other futures are dropped without a poll, and do nothing.
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

    /// Uses the store under the lease according to the step, and ends the lease.
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
            && let Ok(Some(inner)) = self.lock(step, LockCall::TryLock, owner).await
        {
            self.process.reentered(&guard, &inner);
            self.process.sleep(step.hold / 4).await;
            drop(inner);
        }
        let held = pin!(self.process.sleep(step.hold));
        if let Either::Right(_) = select(held, pin!(self.process.lost(&guard))).await {
            assert!(!self.process.check_valid(&guard), "a lost lease is still valid");
        }
        let is_valid = self.process.check_valid(&guard);
        if step.verifies {
            // The simulator records the result for its check.
            self.process.verify(&guard).await.ok();
        }
        if uses_store && only_reads {
            self.store.read_shared(token).await.ok();
        } else if let Some(value) = value {
            // The lease may have ended before the write. The store then has to refuse the token.
            self.store.write(token, value + 1).await.ok();
        }
        match guard {
            Guard::Exclusive(guard) if step.downgrades => self.downgrade(step, guard, uses_store).await,
            Guard::Exclusive(guard) if step.issues_ticket => self.issue_ticket(step, guard).await,
            guard => self.end(step, guard, is_valid).await,
        }
    }

    /// Downgrades a writer's lease, reads, and ends the lease.
    async fn downgrade(&self, step: &Step, guard: LockGuard, uses_store: bool) {
        // Fails if the lease has ended, or if no quorum answers in time.
        let Ok(guard) = self.process.downgrade(guard).await else { return };
        if uses_store {
            self.store.read_shared(guard.fencing_token()).await.ok();
        }
        self.process.sleep(step.hold / 4).await;
        let is_valid = self.process.check_valid(&guard);
        self.end(step, Guard::Shared(guard), is_valid).await;
    }

    /// Turns a writer's lease into a ticket for the next step that redeems.
    async fn issue_ticket(&self, step: &Step, guard: LockGuard) {
        let token = guard.fencing_token();
        // Fails if the lease has ended, or if no quorum answers in time.
        let Ok(ticket) = self.process.into_ticket(guard, step.ticket_ttl()).await else { return };
        assert!(
            ticket.fencing_token() > token,
            "the token of the ticket is not above the token of its lease"
        );
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner).insert(step.targets, ticket);
    }

    /// Ends the lease according to the step, and checks the result of the unlock.
    async fn end(&self, step: &Step, guard: Guard, is_valid: bool) {
        match step.end {
            StepEnd::Overstay if !step.is_renewed => {
                self.process.lost(&guard).await;
                assert!(!self.process.check_valid(&guard), "a lost lease is still valid");
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

    /// For a step with both resources: returns the names of the resources that the step reads.
    fn names_to_read(&self) -> impl Iterator<Item = &'static str> {
        let both = [Targets::One, Targets::Other].into_iter();
        both.filter(move |target| self.reads(*target)).map(Targets::name)
    }

    /// For a step with both resources: returns the names of the resources that the step locks exclusively.
    fn names_to_write(&self) -> impl Iterator<Item = &'static str> {
        let both = [Targets::One, Targets::Other].into_iter();
        both.filter(move |target| !self.reads(*target)).map(Targets::name)
    }

    fn ticket_ttl(&self) -> Duration {
        (SHORTEST_TICKET + self.hold).min(MAX_TTL)
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

/// The guard of a step: of a writer or a group, or of a reader.
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

/// Returns a strategy of random steps.
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
    // Some holds outlast the ttl.
    let hold = prop_oneof![3 => millis(0..=20), 2 => millis(20..=5_000), 1 => millis(5_000..=45_000)];
    let rest = prop_oneof![3 => millis(0..=10), 1 => millis(10..=10_000)];
    let end = prop_oneof![3 => Just(StepEnd::Unlock), 2 => Just(StepEnd::Drop), 2 => Just(StepEnd::Overstay)];
    let is_renewed = prop::bool::weighted(0.7);
    let habits = [0.2, 0.2, 0.2, 0.2, 0.3, 0.3].map(prop::bool::weighted);
    (rest, (targets, reads), call, hold, is_renewed, habits, end).prop_map(
        |(rest, (targets, reads), call, hold, is_renewed, habits, end)| {
            let [has_company, downgrades, issues_ticket, reenters, verifies, redeems] = habits;
            Step {
                rest,
                targets,
                reads,
                // Only readers can share a lease. A second writer would behave like a further process.
                has_company: has_company && reads.is_some(),
                downgrades: downgrades && targets != Targets::Both,
                // A lease that shares a resource becomes no ticket.
                issues_ticket: issues_ticket && reads.is_none(),
                redeems: redeems && reads.is_none(),
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

/// Durations in JSON: whole microseconds, the unit of simulated time. The largest number stands for
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
