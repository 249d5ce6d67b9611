//! Deadlines for calls that block.

use std::{
    panic::{UnwindSafe, catch_unwind, resume_unwind},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// Far longer than anything here takes on a busy machine.
pub(super) const DEADLINE: Duration = Duration::from_secs(20);

/// What some work returns, on a thread of its own; a panic if it hangs.
#[track_caller]
pub(super) fn finishes<T: Send + 'static>(work: impl FnOnce() -> T + Send + UnwindSafe + 'static) -> T {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(catch_unwind(work)));
    match told.recv_timeout(DEADLINE) {
        Ok(Ok(value)) => value,
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => panic!("it hangs"),
    }
}

/// Looks until it is so.
#[track_caller]
pub(super) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < DEADLINE, "not in time: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}
