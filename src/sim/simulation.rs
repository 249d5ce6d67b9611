//! One run.

use std::{sync::Arc, time::Duration};

use futures::future::FutureExt;

use crate::sim::{
    Process, Report, Schedule,
    world::{Limits, World},
};

/// One run of one schedule.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use redquorum::sim::{Fault, Memory, Promises, Schedule, Simulation};
///
/// let second = Duration::from_secs(1);
/// let crash = Fault::Crash { node: 2, lasts: second, memory: Memory::Kept };
/// let schedule = Schedule::without_faults(7, 3, 2).with(second / 100, crash);
/// let report = Simulation::new(schedule).run(|process| async move {
///     let quorum = process.quorum().unwrap();
///     let guard = quorum.red_lock("invoice:42").lock().await.unwrap();
///     process.sleep(Duration::from_millis(100)).await;
///     assert!(process.check_valid(&guard));
/// });
/// report.check(&Promises::ALL).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a simulation does nothing until it is run"]
pub struct Simulation {
    schedule: Arc<Schedule>,
    horizon: Duration,
    budget: u64,
}

impl Simulation {
    /// A run of this schedule, of at most an hour and a million events.
    pub fn new(schedule: Schedule) -> Self {
        Self { schedule: Arc::new(schedule), horizon: Duration::from_secs(3600), budget: 1_000_000 }
    }

    /// When the run ends, in simulated time: a process that waits then has waited too long (default:
    /// one hour).
    pub fn horizon(mut self, horizon: Duration) -> Self {
        self.horizon = horizon;
        self
    }

    /// How many events and polls of tasks there may be: more is taken for a busy loop (default: a
    /// million).
    pub fn budget(mut self, budget: u64) -> Self {
        self.budget = budget;
        self
    }

    /// Runs `program` once in every process. The run is over when all of them are done and nothing
    /// is under way any more.
    ///
    /// A program is real code; only [`Process`] is not. It must not wait for anything outside of the
    /// simulation, and its time passes by [`Process::sleep`]: one millisecond of tokio's is one
    /// microsecond here. A panic in any task of a process ends the run, and [`Report::check`] says
    /// so; one in a destructor, when its process is killed or the run is over, does not.
    ///
    /// # Panics
    ///
    /// Inside of a tokio runtime, as in a `#[tokio::test]`: the run has one of its own.
    pub fn run<Program>(&self, program: impl Fn(Process) -> Program) -> Report
    where
        Program: Future<Output = ()> + Send + 'static,
    {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = match builder.enable_time().start_paused(true).build() {
            Ok(runtime) => runtime,
            // Only a runtime with i/o asks the system for anything.
            Err(error) => unreachable!("a runtime without i/o could not be built: {error}"),
        };
        runtime.block_on(async {
            let world = World::new(Arc::clone(&self.schedule), Limits { budget: self.budget });
            for index in 0..self.schedule.processes {
                let process = Process::new(&world, index, self.schedule.nodes, self.schedule.seed);
                process.spawner().start_program(program(process.clone()).boxed());
            }
            world.pass(self.horizon).await;
            world.into_report()
        })
    }
}
