//! The events of the simulated world.

use std::task::Waker;

use super::{
    WorldState,
    message::Delivery,
    stores::{AccessOutcome, RegisterAccess},
    teardown::Teardown,
};

/// An event at a point of global time.
#[derive(Debug)]
pub(crate) enum WorldEvent {
    /// The end of a sleep.
    Wake(Waker),
    /// The arrival of a message.
    Arrive(Delivery),
    /// The execution of a message that arrived at a slow or busy node.
    Execute(Delivery),
    /// The arrival of an access at a store.
    Access(RegisterAccess),
    /// The arrival of the reply of a store.
    Accessed { process: usize, number: u64, outcome: AccessOutcome },
    /// The beginning of a fault, by its index in the schedule.
    Begin(usize),
    /// The end of a fault.
    End(usize),
    /// A snapshot of a node's state. The crash with this index restores the snapshot later.
    Snapshot(usize),
    /// The expected end of the validity of the lease with this attempt number, by the clock of its process.
    /// A renewal may have moved the end.
    Validity(u64),
    /// The check for messages in flight and for residue, after all programs have ended.
    Settle,
}

impl WorldState {
    pub(super) fn run(&mut self, event: WorldEvent, after: &mut Teardown) {
        match event {
            WorldEvent::Wake(waker) => after.woken.push(waker),
            WorldEvent::Arrive(delivery) => self.arrive(delivery, after),
            WorldEvent::Execute(delivery) => self.execute(delivery),
            WorldEvent::Access(access) => self.access(access),
            WorldEvent::Accessed { process, number, outcome } => self.reply(process, number, outcome, after),
            WorldEvent::Begin(fault) => self.begin_fault(fault, after),
            WorldEvent::End(fault) => self.end_fault(fault, after),
            WorldEvent::Snapshot(fault) => self.take_snapshot(fault),
            WorldEvent::Validity(attempt) => self.check_lease(attempt),
            WorldEvent::Settle => self.settle(),
        }
    }
}
