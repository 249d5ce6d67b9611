//! The waits of clients for each other, from a list of locks, and the cycles of these waits. `algorithm/wait_cycles.rs`
//! searches the cycles.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    algorithm::wait_cycles::{Wait, wait_cycles},
    lock::inspection::Inspection,
    node::names,
    quorum::{Listing, LockName},
    values::{LeaseId, Resource},
};

/// The waits of clients for locks that other clients hold, according to one list of locks.
///
/// Clients are distinguished by the part of their lease ids that all lease ids of a client share. The graph has only
/// the waiters and readers that an inspection names: the first 32 waiters of a lock, and the first 16 readers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitGraph {
    /// By the lease id under which a client waits and the lock, the leases that the client waits for.
    waits: BTreeMap<(LeaseId, AwaitedLock), BTreeSet<LeaseId>>,
}

/// The lock that a client waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "the command of exactly this version matches each kind of lock")]
pub enum AwaitedLock {
    /// A lock.
    Lock(LockName),
    /// Any slot of this semaphore.
    Permit(Resource),
}

/// The listed slots of a semaphore.
#[derive(Default)]
struct SemaphoreView<'a> {
    holders: BTreeSet<LeaseId>,
    waiters: BTreeSet<&'a LeaseId>,
    /// The number of slots: up to the last listed slot, or more if a client with more slots is the release watcher.
    slots: usize,
    held_slots: usize,
}

impl<'a> SemaphoreView<'a> {
    fn add_slot(&mut self, slot: usize, inspection: &'a Inspection) {
        let holders = holders_of(inspection);
        self.slots = self.slots.max(slot + 1);
        self.held_slots += usize::from(!holders.is_empty());
        self.holders.extend(holders);
        self.waiters.extend(waiters_of(inspection).into_iter().flatten());
    }

    /// Whether no known slot is free. A waiter acquires a free slot soon, so the waiter is not stuck. A list has no slot
    /// that a program other than this library or Redisson holds, so such a slot counts as free if a later slot is held.
    fn is_full(&self) -> bool {
        self.held_slots == self.slots
    }
}

/// A step of a cycle: a client waits for a lease of the next client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitStep {
    /// The lease id under which the client waits.
    pub waiter: LeaseId,
    /// The lock that the client waits for.
    pub lock: AwaitedLock,
    /// The lease of the next client of the cycle, or for a reader behind a writer, the lease id under which the writer
    /// waits.
    pub holder: LeaseId,
}

impl WaitGraph {
    /// Returns the waits according to a list of locks. A holder counts if a quorum names the holder. The candidates of
    /// an election do not count, because they stand by until the leader ends, and do nothing else meanwhile.
    #[must_use]
    pub fn new(listing: &Listing) -> Self {
        let mut graph = Self::default();
        let mut semaphores: BTreeMap<&Resource, SemaphoreView<'_>> = BTreeMap::new();
        for (name, inspection) in listing.locks() {
            match name {
                LockName::Slot { semaphore, slot } => {
                    semaphores.entry(semaphore).or_default().add_slot(*slot, inspection);
                }
                // A wait for this role is a part of a wait for a permit.
                LockName::ReleaseWatcher { name, candidates } => {
                    let view = semaphores.entry(name).or_default();
                    view.slots = view.slots.max(*candidates);
                }
                LockName::Latch { .. } => {}
                _ if inspection.is_led() => {}
                name => graph.add_lock(name, inspection),
            }
        }
        for (semaphore, view) in semaphores.into_iter().filter(|(_, view)| view.is_full()) {
            for waiter in view.waiters {
                graph.add(waiter, AwaitedLock::Permit(semaphore.clone()), view.holders.clone());
            }
        }
        graph
    }

    /// Adds the waits for a lock. A reader does not wait for other readers, and waits for each writer ahead.
    fn add_lock(&mut self, name: &LockName, inspection: &Inspection) {
        let holders = holders_of(inspection);
        let is_shared = inspection.holder().is_some_and(LeaseId::is_of_readers);
        let lock = AwaitedLock::Lock(name.clone());
        for queue in waiters_of(inspection) {
            let mut writers_ahead = BTreeSet::new();
            for waiter in queue {
                let is_beside_readers = is_shared && names::is_reader(waiter);
                let leases = if is_beside_readers { writers_ahead.clone() } else { holders.clone() };
                self.add(waiter, lock.clone(), leases);
                if !names::is_reader(waiter) {
                    writers_ahead.insert(waiter.clone());
                }
            }
        }
    }

    fn add(&mut self, waiter: &LeaseId, lock: AwaitedLock, leases: BTreeSet<LeaseId>) {
        if client_of(waiter).is_some() && !leases.is_empty() {
            self.waits.entry((waiter.clone(), lock)).or_default().extend(leases);
        }
    }

    /// Returns the waits that have lasted from an earlier look until this look: the same call waits for the same leases.
    /// A later call of the client is another wait, because the client went on in between. A wait for any permit lasts
    /// only if no lease has ended in between. Any other wait lasts for the leases that have not ended.
    #[must_use]
    pub fn lasting_since(&self, earlier: &Self) -> Self {
        let lasts = |(wait, now): (&(LeaseId, AwaitedLock), &BTreeSet<LeaseId>)| {
            let before = earlier.waits.get(wait)?;
            let leases = match &wait.1 {
                AwaitedLock::Permit(_) if !before.is_subset(now) => return None,
                AwaitedLock::Permit(_) => now.clone(),
                AwaitedLock::Lock(_) => now.intersection(before).cloned().collect(),
            };
            Some((wait.clone(), leases))
        };
        Self { waits: self.waits.iter().filter_map(lasts).collect() }
    }

    /// Returns the cycles: for each group of clients that wait for each other, one cycle.
    #[must_use]
    pub fn cycles(&self) -> Vec<Vec<WaitStep>> {
        // Two waits of one client remain two waits, such as of two tasks.
        let (mut waits, mut of_clients) = (Vec::new(), Vec::new());
        for ((waiter, lock), leases) in &self.waits {
            let Some(client) = client_of(waiter) else { continue };
            waits.push((waiter, lock, leases));
            of_clients.push(Wait {
                client,
                blockers: leases.iter().filter_map(client_of).collect(),
                ends_by_any: matches!(lock, AwaitedLock::Permit(_)),
            });
        }
        let step = |(index, next): (usize, Box<[u8]>)| {
            let (waiter, lock, leases) = *waits.get(index)?;
            let holder = leases.iter().find(|lease| client_of(lease).as_ref() == Some(&next))?;
            Some(WaitStep { waiter: waiter.clone(), lock: lock.clone(), holder: holder.clone() })
        };
        let cycles = wait_cycles(&of_clients);
        cycles.into_iter().map(|steps| steps.into_iter().filter_map(step).collect()).collect()
    }
}

impl WaitStep {
    /// Returns the part of the lease ids that all lease ids of the waiting client share.
    #[must_use]
    pub fn client(&self) -> String {
        client_of(&self.waiter)
            .map_or_else(|| self.waiter.to_string(), |client| crate::values::readable(&client))
    }
}

/// Returns the leases that hold a lock, as far as a quorum names them.
fn holders_of(inspection: &Inspection) -> BTreeSet<LeaseId> {
    match inspection.holder() {
        Some(holder) if holder.is_of_readers() => inspection.readers().cloned().collect(),
        holder => holder.into_iter().cloned().collect(),
    }
}

/// Returns the waiters at each node that has a queue, in the order of the queue.
fn waiters_of(inspection: &Inspection) -> Vec<Vec<&LeaseId>> {
    inspection
        .nodes()
        .map(|node| node.queue().collect::<Vec<_>>())
        .filter(|queue| !queue.is_empty())
        .collect()
}

/// Returns the part of a lease id that all lease ids of the client share; `None` for an id of another form.
fn client_of(lease_id: &LeaseId) -> Option<Box<[u8]>> {
    names::without_reader_suffix(lease_id).client().map(Into::into)
}
