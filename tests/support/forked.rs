//! Copies of the test process, made by a fork.

use std::{
    io::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
    process::exit,
    time::{Duration, Instant},
};

use fork::{Fork, fork};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// The longest time for the work of a copy. The work takes far less time, even on a machine under load.
const DEADLINE: Duration = Duration::from_secs(20);

/// A forked copy of the test process, which runs some work and ends.
#[derive(Debug)]
#[must_use = "only `wait` and `is_done` detect that the copy failed"]
pub struct ForkedProcess {
    pid: Pid,
    start: Instant,
}

impl ForkedProcess {
    /// Forks the process. The copy has only a copy of the calling thread, which runs the work and then ends the copy.
    /// If the work panics, the copy writes the message to standard error.
    pub fn start(work: impl FnOnce()) -> Self {
        match fork().expect("the process can be forked") {
            Fork::Parent(pid) => {
                Self { pid: Pid::from_raw(pid).expect("a process id"), start: Instant::now() }
            }
            Fork::Child => {
                let outcome = catch_unwind(AssertUnwindSafe(work));
                if let Err(panic) = &outcome {
                    let text = panic.downcast_ref::<String>().map(String::as_str);
                    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                    // `eprintln` would write to the output that the test harness collects in memory. The copy would
                    // lose this output at its end.
                    writeln!(std::io::stderr(), "in the forked process: {}", text.unwrap_or("a panic")).ok();
                }
                exit(i32::from(outcome.is_err()))
            }
        }
    }

    /// Whether the work is done.
    ///
    /// # Panics
    ///
    /// If the work panicked, or has taken too long.
    pub fn is_done(&self) -> bool {
        let Some((_, status)) = waitpid(Some(self.pid), WaitOptions::NOHANG).expect("the copy is a child")
        else {
            if self.start.elapsed() > DEADLINE {
                kill_process(self.pid, Signal::KILL).ok();
                panic!("the forked process hangs");
            }
            return false;
        };
        assert_eq!(status.exit_status(), Some(0), "the forked process failed: see standard error");
        true
    }

    /// Blocks until the work is done.
    pub fn wait(self) {
        while !self.is_done() {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
