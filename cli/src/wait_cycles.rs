//! The cycles of clients that wait for each other, which `list` and `top` mark and `doctor` reports.

use std::{
    collections::BTreeSet,
    fmt,
    time::{Duration, Instant},
};

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
    Ok(WaitCycle::all_of(&second.lasting_since(&first)))
}

/// The search for cycles in lists that follow each other at any interval.
#[derive(Debug, Default)]
pub(crate) struct CycleWatch {
    /// The waits of a list, and the end of that list. A list that begins a second later is compared with these waits.
    earlier: Option<(Instant, WaitGraph)>,
    /// The waits that two lists showed, one second apart, and that every later list has shown, too.
    lasting: WaitGraph,
}

impl CycleWatch {
    /// Returns the cycles after one more list, with the instants of its begin and its end.
    pub(crate) fn look(&mut self, listing: &Listing, began: Instant, ended: Instant) -> Vec<WaitCycle> {
        let graph = WaitGraph::new(listing);
        self.lasting = match &self.earlier {
            Some((at, earlier)) if began.duration_since(*at) >= INTERVAL => graph.lasting_since(earlier),
            _ => graph.lasting_since(&self.lasting),
        };
        if self.earlier.as_ref().is_none_or(|(at, _)| began.duration_since(*at) >= INTERVAL) {
            self.earlier = Some((ended, graph));
        }
        WaitCycle::all_of(&self.lasting)
    }
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
    fn all_of(graph: &WaitGraph) -> Vec<Self> {
        let cycle = |steps: &Vec<WaitStep>| Self { steps: steps.iter().map(WaitStepView::new).collect() };
        graph.cycles().iter().map(cycle).collect()
    }

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

#[cfg(test)]
mod tests {
    use redquorum::{MemoryCluster, Quorum, admin};
    use redquorum_tests::eventually;

    use super::*;

    /// The time within which a client enters a wait queue.
    const SOON: Duration = Duration::from_secs(10);

    async fn list(quorum: &Quorum) -> Listing {
        admin::list(quorum, |_| true).await.unwrap()
    }

    #[tokio::test]
    async fn a_cycle_is_shown_after_a_second_and_until_a_list_lacks_a_wait() {
        let cluster = MemoryCluster::new(3);
        let [one, two] =
            ["one", "two"].map(|label| Quorum::builder().label(label).connect_in_memory(&cluster).unwrap());
        let _held = [one.red_lock("a").lock().await.unwrap(), two.red_lock("b").lock().await.unwrap()];
        let nothing_waits = list(&one).await;
        let waiters = [(&one, "b"), (&two, "a")].map(|(quorum, name)| {
            let lock = quorum.red_lock(name);
            tokio::spawn(async move { drop(lock.lock().await) })
        });
        for name in ["a", "b"] {
            let is_queued = async || one.inspect(name).await.unwrap().waiters() == 1;
            eventually(SOON, "a client waits", is_queued).await;
        }
        let both_wait = list(&one).await;
        waiters.iter().for_each(tokio::task::JoinHandle::abort);
        let (mut watch, start) = (CycleWatch::default(), stopwatch::now());
        // Each list begins after this number of milliseconds, and takes 50 ms.
        for (begins, listing, is_shown) in [
            (0, &nothing_waits, false),
            (500, &both_wait, false),
            (1100, &both_wait, false),
            (2100, &both_wait, false),
            (2200, &both_wait, true),
            (2300, &both_wait, true),
            (3300, &both_wait, true),
            (3400, &nothing_waits, false),
            (3500, &both_wait, false),
            (4500, &nothing_waits, false),
            (5600, &both_wait, false),
            (6700, &both_wait, true),
        ] {
            let began = start + Duration::from_millis(begins);
            let cycles = watch.look(listing, began, began + Duration::from_millis(50));
            assert_eq!(!cycles.is_empty(), is_shown, "{begins}: {cycles:?}");
        }
    }
}
