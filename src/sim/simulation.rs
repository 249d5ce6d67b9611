//! The simulation of one schedule: the entry point for tests.

use std::{sync::Arc, time::Duration};

use futures::future::FutureExt;

use crate::sim::{
    Process, Report, Schedule,
    world::{Limits, World},
};

/// A schedule, with the limits of its run. Each call of [`run`](Self::run) is a run of its own.
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
    /// Creates a simulation of this schedule, with a horizon of one hour and a budget of one million.
    pub fn new(schedule: Schedule) -> Self {
        Self { schedule: Arc::new(schedule), horizon: Duration::from_secs(3600), budget: 1_000_000 }
    }

    /// Sets the simulated time at which the run ends at the latest (default: one hour). If the program
    /// of a process has not ended by then, [`Promise::Liveness`](super::Promise::Liveness) is broken.
    pub fn horizon(mut self, horizon: Duration) -> Self {
        self.horizon = horizon;
        self
    }

    /// Sets the largest number of events and task polls together (default: one million). A run that
    /// exceeds the budget ends as [`End::Exhausted`](super::End::Exhausted).
    pub fn budget(mut self, budget: u64) -> Self {
        self.budget = budget;
        self
    }

    /// Runs `program` once in every process.
    ///
    /// After the end of all programs and of the last timed fault, the run continues for ten simulated
    /// seconds, in which clients delete leftover keys. The run continues for at most 190 seconds more
    /// while messages are in flight. The run ends earlier at the horizon, beyond the budget, or after
    /// a panic.
    ///
    /// A program is real code, and only its [`Process`] is simulated. A program must not wait for
    /// anything outside of the simulation, and must sleep by [`Process::sleep`]. A sleep of tokio is
    /// too short by a factor of a thousand, because one millisecond of tokio is one microsecond of
    /// simulated time.
    ///
    /// * **A task of a process panics:** the run ends, and [`Report::check`] returns an error.
    /// * **A destructor panics while its process is killed:** as for a task.
    /// * **A destructor panics after the end of the run:** the panic is ignored.
    ///
    /// # Panics
    ///
    /// If called inside of a tokio runtime, as in a `#[tokio::test]`, because the run has a runtime
    /// of its own.
    pub fn run<Program>(&self, program: impl Fn(Process) -> Program) -> Report
    where
        Program: Future<Output = ()> + Send + 'static,
    {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = match builder.enable_time().start_paused(true).build() {
            Ok(runtime) => runtime,
            // Only a runtime with i/o makes system calls that can fail.
            Err(error) => unreachable!("a runtime without i/o could not be built: {error}"),
        };
        let report = runtime.block_on(async {
            let world = World::new(Arc::clone(&self.schedule), Limits { budget: self.budget });
            for index in 0..self.schedule.processes {
                let process = Process::new(&world, index, self.schedule.nodes, self.schedule.seed);
                process.spawner().start_program(program(process.clone()).boxed());
            }
            world.pass(self.horizon).await;
            world.into_report()
        });
        #[cfg(test)]
        crate::sim::world::write_trace(&report);
        report
    }
}
