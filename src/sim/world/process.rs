//! A simulated process: its clock, its tasks, and the faults that stop them.
//!
//! ```text
//!  event                process                         decision
//!  ─────                ───────                         ────────
//!  poll of a task ────> killed, or the run has ended ─> pending for ever
//!                       paused ───────────────────────> park the waker
//!                       running ──────────────────────> poll the task
//!  a pause ends ──────> last of overlapping pauses ───> wake the parked tasks
//!  a freeze ends ─────> last of overlapping freezes ──> wake the sleeps, check the leases
//!  kill ──────────────> abort the tasks, close the connections, end the leases
//!  program ends ──────> last program of the run ──────> wind down
//! ```

use std::{
    any::Any,
    panic::AssertUnwindSafe,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures::future::BoxFuture;
use tokio::{runtime::Handle, task::AbortHandle};

use super::{World, WorldState, teardown::Teardown};
use crate::{
    sim::{
        Schedule,
        clock::SkewedClock,
        report::End,
        rng::{RandomStream, hash_of, part},
    },
    spawner::Spawner,
};

/// The state of one process.
#[derive(Debug)]
pub(crate) struct ProcessState {
    pub(super) clock: SkewedClock,
    /// The number of present faults that pause the process. Faults may overlap.
    paused: u32,
    /// The number of present faults that freeze the clock of the process.
    frozen: u32,
    is_killed: bool,
    /// The beginnings and ends of past pauses.
    pauses: Vec<(u64, u64)>,
    /// The beginning of the present or last pause.
    paused_at: u64,
    /// The wakers of the tasks that were polled during the present pause.
    parked: Vec<Waker>,
    /// The wakers of the sleeps whose end is unknown, because the clock is frozen.
    pub(super) frozen_sleeps: Vec<Waker>,
    /// The tasks that may not have finished.
    tasks: Vec<AbortHandle>,
    /// Whether the program of the process is still running.
    pub(super) is_running: bool,
}

impl ProcessState {
    pub(super) fn new(schedule: &Schedule, process: usize) -> Self {
        // Clocks of different processes are unrelated.
        let since_boot = hash_of(schedule.seed, RandomStream::Boot, [part(process)]) % 1_000_000_000;
        let rate = schedule.process_rates.get(process).copied().unwrap_or(0);
        Self {
            clock: SkewedClock::new(Duration::from_micros(since_boot), rate),
            paused: 0,
            frozen: 0,
            pauses: Vec::new(),
            paused_at: 0,
            is_killed: false,
            parked: Vec::new(),
            frozen_sleeps: Vec::new(),
            tasks: Vec::new(),
            is_running: true,
        }
    }
}

impl WorldState {
    pub(crate) fn is_killed(&self, index: usize) -> bool {
        self.processes.get(index).is_none_or(|process| process.is_killed)
    }

    /// Returns the time of a process's clock, in microseconds.
    pub(crate) fn local(&self, index: usize) -> u64 {
        self.processes.get(index).map_or(0, |process| process.clock.local(self.now()))
    }

    /// Returns the end of the pause that includes this time; `None` if the process was not paused
    /// then.
    pub(super) fn resumed_after(&self, index: usize, at: u64) -> Option<u64> {
        let pauses = &self.processes.get(index)?.pauses;
        pauses.iter().find(|(from, until)| (*from..=*until).contains(&at)).map(|(_, until)| *until)
    }

    pub(super) fn pause(&mut self, index: usize, now: u64) {
        if let Some(process) = self.processes.get_mut(index) {
            if process.paused == 0 {
                process.paused_at = now;
            }
            process.paused += 1;
        }
    }

    pub(super) fn freeze(&mut self, index: usize, now: u64) {
        if let Some(process) = self.processes.get_mut(index) {
            process.frozen += 1;
            process.clock.set_frozen(true, now);
        }
    }

    pub(super) fn unfreeze(&mut self, index: usize, now: u64, after: &mut Teardown) {
        let Some(process) = self.processes.get_mut(index) else { return };
        process.frozen = process.frozen.saturating_sub(1);
        if process.frozen == 0 {
            process.clock.set_frozen(false, now);
            after.woken.append(&mut process.frozen_sleeps);
            self.check_leases_of(index);
        }
    }

    pub(super) fn resume(&mut self, index: usize, now: u64, after: &mut Teardown) {
        let Some(process) = self.processes.get_mut(index) else { return };
        process.paused = process.paused.saturating_sub(1);
        if process.paused == 0 {
            process.pauses.push((process.paused_at, now));
            after.woken.append(&mut process.parked);
        }
    }

    /// Ends a process as `SIGKILL` does: no task of the process runs again, and unsent messages are
    /// not sent.
    pub(super) fn kill(&mut self, index: usize, after: &mut Teardown) {
        let Some(process) = self.processes.get_mut(index) else { return };
        process.is_killed = true;
        process.is_running = false;
        after.woken.append(&mut process.parked);
        after.aborted.append(&mut process.tasks);
        for connection in 0..self.connections.len() {
            if self.connections.get(connection).is_some_and(|connection| connection.process == index) {
                after.forgotten.extend(self.close(connection));
            }
        }
        self.end_leases_of(index);
        self.program_ended(index);
    }

    /// Records the end of a process's program. The end of the last program begins the end of the
    /// run.
    pub(super) fn program_ended(&mut self, index: usize) {
        if let Some(process) = self.processes.get_mut(index) {
            process.is_running = false;
        }
        if self.processes.iter().all(|process| !process.is_running) {
            self.wind_down();
        }
    }
}

/// Starts tasks in a simulated process.
#[derive(Debug)]
pub(crate) struct ProcessSpawner {
    pub(crate) world: World,
    pub(crate) process: usize,
}

impl ProcessSpawner {
    /// Starts the program of the process as a task, and records the end of the program.
    pub(crate) fn start_program(&self, program: BoxFuture<'static, ()>) {
        let (world, process) = (self.world.clone(), self.process);
        let task = async move {
            program.await;
            world.lock().program_ended(process);
        };
        drop(self.spawn(Box::pin(task)));
    }
}

impl Spawner for ProcessSpawner {
    fn spawn(&self, task: BoxFuture<'static, ()>) -> AbortHandle {
        let (world, process) = (self.world.clone(), self.process);
        let task = ProcessTask { world, process, task: Some(task) };
        let handle = Handle::current().spawn(task).abort_handle();
        if let Some(process) = self.world.lock().processes.get_mut(process) {
            process.tasks.retain(|task| !task.is_finished());
            process.tasks.push(handle.clone());
        }
        handle
    }

    /// The runtime of a simulation outlives all simulated processes.
    fn has_ended(&self) -> bool {
        false
    }
}

/// A task that is polled only while its process is neither paused nor killed. A panic of the task
/// ends the run.
struct ProcessTask {
    world: World,
    process: usize,
    task: Option<BoxFuture<'static, ()>>,
}

impl ProcessTask {
    /// Whether the task may run now. If the process is paused, the waker is kept for the end of the
    /// pause.
    fn may_run(&self, context: &Context<'_>) -> bool {
        let mut state = self.world.lock();
        state.spend();
        let has_ended = state.end.is_some();
        let Some(process) = state.processes.get_mut(self.process) else { return false };
        if process.paused > 0 {
            process.parked.push(context.waker().clone());
        }
        !has_ended && !process.is_killed && process.paused == 0
    }

    /// Drops the future of the task, unless it was dropped before. A panic in a destructor ends the run.
    fn discard(&mut self) {
        let Some(task) = self.task.take() else { return };
        if let Err(panic) = std::panic::catch_unwind(AssertUnwindSafe(|| drop(task))) {
            self.world.lock().finish(End::Panicked(message(&*panic)));
        }
    }
}

impl Future for ProcessTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if !self.may_run(context) {
            return Poll::Pending;
        }
        let Some(task) = &mut self.task else { return Poll::Ready(()) };
        match std::panic::catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(context))) {
            Ok(poll) => poll,
            Err(panic) => {
                self.world.lock().finish(End::Panicked(message(&*panic)));
                self.discard();
                Poll::Ready(())
            }
        }
    }
}

impl Drop for ProcessTask {
    fn drop(&mut self) {
        self.discard();
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without words".into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::future::FutureExt;

    use super::*;
    use crate::sim::world::Limits;

    #[tokio::test]
    async fn finished_tasks_are_removed() {
        let world = World::new(Arc::new(Schedule::without_faults(1, 1, 1)), Limits { budget: 10_000 });
        let spawner = ProcessSpawner { world: world.clone(), process: 0 };
        for _ in 0..100 {
            drop(spawner.spawn(async {}.boxed()));
            tokio::task::yield_now().await;
        }
        assert!(world.lock().processes.iter().all(|process| process.tasks.len() <= 2));
    }
}
