//! The removal of containers that remain after their test process has ended.

#![cfg_attr(
    not(redquorum_containers),
    allow(dead_code, reason = "a build without containers does not use this module")
)]

use super::docker::{PROCESS_LABEL, docker};

/// The identity of one process of this machine. Process ids are reused, but not with the same start time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pid: u32,
    started: String,
}

impl Identity {
    /// Returns the identity of this test process.
    pub(super) fn current() -> Self {
        Self::of(std::process::id()).expect("/proc describes this process")
    }

    fn of(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        // The second field is the program's name in parentheses and may contain blanks. The start time is the
        // 22nd field.
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

/// Removes containers of ended test processes. A container remains if its [`Reaper`](super::reaper::Reaper) did
/// not finish, for example because the machine or the engine was stopped.
pub(super) fn sweep() {
    let format = format!("{{{{.ID}}}} {{{{.Label {PROCESS_LABEL:?}}}}}");
    let filter = format!("label={PROCESS_LABEL}");
    let list = docker(&["ps", "--all", "--filter", &filter, "--format", &format]).unwrap_or_default();
    let orphans = list.lines().filter_map(|line| line.split_once(' ')).filter(|(_, label)| {
        let is_alive = Identity::parse(label).is_some_and(|process| process.is_alive());
        !is_alive
    });
    for (id, _) in orphans {
        // Another test process may have removed the container meanwhile.
        docker(&["rm", "--force", "--volumes", id]).ok();
    }
}
