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
    /// By the client and the lock, the lease ids that the client waits for.
    waits: BTreeMap<(Box<[u8]>, AwaitedLock), BlockingLeases>,
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

/// The leases that a client waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BlockingLeases {
    /// The lease id under which the client waits.
    waiter: LeaseId,
    leases: BTreeSet<LeaseId>,
}

/// The listed slots of a semaphore.
#[derive(Default)]
struct SemaphoreView<'a> {
    holders: BTreeSet<LeaseId>,
    waiters: BTreeSet<&'a LeaseId>,
    /// The number of slots from 0 to the last listed slot.
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

    /// Whether no slot is free. A waiter acquires a free slot soon, so the waiter is not stuck.
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
    /// Returns the waits according to a list of locks. A holder counts if a quorum names the holder.
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
                LockName::ReleaseWatcher { .. } | LockName::Latch { .. } => {}
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
        let Some(client) = client_of(waiter).filter(|_| !leases.is_empty()) else { return };
        let wait = self.waits.entry((client, lock));
        let wait = wait.or_insert_with(|| BlockingLeases { waiter: waiter.clone(), leases: BTreeSet::new() });
        wait.leases.extend(leases);
    }

    /// Returns the waits that have lasted from an earlier look until this look: the client waits for the same leases. A
    /// wait for any permit lasts only if no lease has ended in between. Any other wait lasts for the leases that have
    /// not ended.
    #[must_use]
    pub fn lasting_since(&self, earlier: &Self) -> Self {
        let lasts = |((client, lock), now): (&(Box<[u8]>, AwaitedLock), &BlockingLeases)| {
            let before = earlier.waits.get(&(client.clone(), lock.clone()))?;
            let leases = match lock {
                AwaitedLock::Permit(_) if !before.leases.is_subset(&now.leases) => return None,
                AwaitedLock::Permit(_) => now.leases.clone(),
                AwaitedLock::Lock(_) => now.leases.intersection(&before.leases).cloned().collect(),
            };
            Some(((client.clone(), lock.clone()), BlockingLeases { waiter: now.waiter.clone(), leases }))
        };
        Self { waits: self.waits.iter().filter_map(lasts).collect() }
    }

    /// Returns the cycles: for each group of clients that wait for each other, one cycle.
    #[must_use]
    pub fn cycles(&self) -> Vec<Vec<WaitStep>> {
        let waits: Vec<_> = self.waits.iter().collect();
        let as_wait = |((client, lock), blocking): &(&(Box<[u8]>, AwaitedLock), &BlockingLeases)| Wait {
            client: client.clone(),
            blockers: blocking.leases.iter().filter_map(client_of).collect(),
            ends_by_any: matches!(lock, AwaitedLock::Permit(_)),
        };
        let step = |(index, next): (usize, Box<[u8]>)| {
            let ((_, lock), blocking) = waits.get(index)?;
            let holder = blocking.leases.iter().find(|lease| client_of(lease).as_ref() == Some(&next))?;
            Some(WaitStep { waiter: blocking.waiter.clone(), lock: lock.clone(), holder: holder.clone() })
        };
        let cycles = wait_cycles(&waits.iter().map(as_wait).collect::<Vec<_>>());
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
