//! The cycles of clients that wait for each other, which `list` marks and `doctor` reports.

use std::{collections::BTreeSet, fmt, time::Duration};

use redquorum::{
    __command::{AwaitedLock, WaitGraph, WaitStep},
    inspection::{Listing, LockName},
};
use serde::Serialize;

use crate::{counted::counted, lock_view::short, name, stopwatch, table::width};

/// The time between the two looks that have to show a cycle.
const INTERVAL: Duration = Duration::from_secs(1);

/// The largest number of clients of a cycle that a text names.
const MAX_NAMED: usize = 16;

/// A cycle: each client waits for a lease of the next client, and the last client for a lease of the first.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct WaitCycle {
    steps: Vec<WaitStepView>,
}

/// A client of a cycle, and the lock that the client waits for.
#[derive(Clone, Debug, Serialize)]
struct WaitStepView {
    /// The part of the lease ids that all lease ids of the client share.
    client: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    /// The name of the resource or semaphore; `None` if this name is not UTF-8.
    waits_for: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for_hex: Option<String>,
    /// Whether the client waits for any permit of the semaphore.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    permit: bool,
    /// The lease of the next client.
    of: String,
    #[serde(skip)]
    lock: AwaitedLock,
}

/// Returns the cycles that both this list of locks and a second list show, one second later, with the same leases.
/// Without a cycle in the first list, there is no second list.
///
/// # Errors
///
/// The error of the second list.
pub(crate) async fn search<E>(
    listing: &Listing,
    list_again: impl AsyncFnOnce() -> Result<Listing, E>,
) -> Result<Vec<WaitCycle>, E> {
    let first = WaitGraph::new(listing);
    if first.cycles().is_empty() {
        return Ok(Vec::new());
    }
    stopwatch::pause(INTERVAL).await;
    let second = WaitGraph::new(&list_again().await?);
    let cycles = second.lasting_since(&first).cycles();
    Ok(cycles
        .iter()
        .map(|steps| WaitCycle { steps: steps.iter().map(WaitStepView::new).collect() })
        .collect())
}

impl WaitStepView {
    fn new(step: &WaitStep) -> Self {
        let (name, permit) = match &step.lock {
            AwaitedLock::Lock(lock) => (lock.name(), false),
            AwaitedLock::Permit(semaphore) => (semaphore, true),
        };
        let (waits_for, waits_for_hex) = name::text_or_hex(name.as_bytes());
        Self {
            client: step.client(),
            label: step.waiter.label().map(str::to_owned),
            waits_for,
            waits_for_hex,
            permit,
            of: step.holder.to_string(),
            lock: step.lock.clone(),
        }
    }

    /// Returns the lock as texts show it.
    fn lock(&self) -> String {
        match &self.lock {
            AwaitedLock::Lock(lock) => lock.to_string(),
            AwaitedLock::Permit(semaphore) => format!("a permit of {semaphore}"),
        }
    }
}

impl WaitCycle {
    /// Whether a client of the cycle waits for this lock, or for any slot of its semaphore.
    pub(crate) fn has(&self, lock: &LockName) -> bool {
        self.steps.iter().any(|step| match (&step.lock, lock) {
            (AwaitedLock::Permit(awaited), LockName::Slot { semaphore, .. }) => awaited == semaphore,
            (AwaitedLock::Lock(awaited), lock) => awaited == lock,
            (AwaitedLock::Permit(_), _) => false,
        })
    }

    /// Returns the cycle as a text: by the labels of the clients if `is_short` and each client has a label of its own.
    pub(crate) fn shown(&self, is_short: bool) -> String {
        let labels: BTreeSet<&str> = self.steps.iter().filter_map(|step| step.label.as_deref()).collect();
        let has_labels = is_short && labels.len() == self.steps.len();
        let client = |step: &WaitStepView| match &step.label {
            Some(label) if has_labels => label.clone(),
            _ if is_short => short(&step.client).into_owned(),
            _ => step.client.clone(),
        };
        let next = self.steps.iter().cycle().skip(1);
        let steps = self.steps.iter().zip(next).take(MAX_NAMED);
        let steps: Vec<String> = steps
            .map(|(step, next)| format!("{} waits for {} of {}", client(step), step.lock(), client(next)))
            .collect();
        let clients = counted(self.steps.len(), "client");
        let more = if self.steps.len() > MAX_NAMED { ", ..." } else { "" };
        format!("{clients} wait for each other: {}{more}", steps.join(", "))
    }
}

impl fmt::Display for WaitCycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown(width().is_some()))
    }
}
