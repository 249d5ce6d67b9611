//! Deadlines for blocking calls.

use std::{
    panic::{UnwindSafe, catch_unwind, resume_unwind},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// The deadline of a test. Each test takes much less time, even on a machine under load.
pub(super) const DEADLINE: Duration = Duration::from_secs(20);

/// Runs `work` on a new thread, and returns its value. Panics if `work` panics or does not return before the
/// deadline.
#[track_caller]
pub(super) fn run_with_deadline<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + UnwindSafe + 'static,
) -> T {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(catch_unwind(work)));
    match receiver.recv_timeout(DEADLINE) {
        Ok(Ok(value)) => value,
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => panic!("the work has not returned within {DEADLINE:?}"),
    }
}

/// Polls `condition` until it holds, and panics at the deadline.
#[track_caller]
pub(super) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}
