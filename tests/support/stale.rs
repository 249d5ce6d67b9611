//! Containers whose test process is gone.

#![cfg_attr(
    not(redquorum_containers),
    allow(dead_code, reason = "a build without containers has no use for it")
)]

use super::docker::{PROCESS_LABEL, docker};

/// Names one process of this machine for all time: process ids are given out again, but not with
/// the same start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pid: u32,
    started: String,
}

impl Identity {
    /// The identity of this test process.
    pub(super) fn current() -> Self {
        Self::of(std::process::id()).expect("/proc describes this process")
    }

    fn of(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        // The second field is the program's name in brackets and may hold blanks; the start time is
        // the 22nd field.
        let ticks = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?;
        Some(Self { pid, started: format!("{ticks}@{}", boot.trim()) })
    }

    fn parse(label: &str) -> Option<Self> {
        let (pid, started) = label.split_once(':')?;
        Some(Self { pid: pid.parse().ok()?, started: started.to_owned() })
    }

    fn is_alive(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.pid, self.started)
    }
}

/// Removes the containers of test processes that no longer run and whose
/// [`Reaper`](super::reaper::Reaper) could not do it, because the machine or the engine went down
/// with them.
pub(super) fn sweep() {
    let format = format!("{{{{.ID}}}} {{{{.Label {PROCESS_LABEL:?}}}}}");
    let filter = format!("label={PROCESS_LABEL}");
    let list = docker(&["ps", "--all", "--filter", &filter, "--format", &format]).unwrap_or_default();
    let orphans = list.lines().filter_map(|line| line.split_once(' ')).filter(|(_, label)| {
        let is_alive = Identity::parse(label).is_some_and(|process| process.is_alive());
        !is_alive
    });
    for (id, _) in orphans {
        // Another test process may sweep at the same time, and the container be gone already.
        docker(&["rm", "--force", "--volumes", id]).ok();
    }
}
