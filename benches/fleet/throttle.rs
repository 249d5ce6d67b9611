//! Servers that get only a part of the processor time.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::{JoinHandle, spawn},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

/// The part of each period in which the servers run.
const RUN: Duration = Duration::from_millis(3);

/// The part of each period in which the servers are stopped.
const STOP: Duration = Duration::from_millis(17);

/// Stops and continues processes periodically, until the value is dropped.
#[derive(Debug)]
pub(crate) struct Throttle {
    processes: Arc<Mutex<Vec<Pid>>>,
    /// A drop ends the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Throttle {
    pub(crate) fn start() -> Self {
        let processes: Arc<Mutex<Vec<Pid>>> = Arc::default();
        let (end, is_ended) = channel::<()>();
        let throttled = Arc::clone(&processes);
        let thread = spawn(move || {
            for (signal, lasts) in [(Signal::STOP, STOP), (Signal::CONT, RUN)].into_iter().cycle() {
                send(&locked(&throttled), signal);
                if is_ended.recv_timeout(lasts) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        });
        Self { processes, end: Some(end), thread: Some(thread) }
    }

    pub(crate) fn add(&self, process: Pid) {
        locked(&self.processes).push(process);
    }

    /// Lets a process run all the time. No signal reaches the process afterwards.
    pub(crate) fn exempt(&self, process: Pid) {
        locked(&self.processes).retain(|throttled| *throttled != process);
        send(&[process], Signal::CONT);
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        drop(self.end.take());
        self.thread.take().map(JoinHandle::join);
        send(&locked(&self.processes), Signal::CONT);
    }
}

fn locked(processes: &Mutex<Vec<Pid>>) -> MutexGuard<'_, Vec<Pid>> {
    processes.lock().unwrap_or_else(PoisonError::into_inner)
}

fn send(processes: &[Pid], signal: Signal) {
    for process in processes {
        kill_process(*process, signal).ok();
    }
}
