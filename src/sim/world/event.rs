//! What happens at a time.

use std::task::Waker;

use super::{
    WorldState,
    message::Delivery,
    stores::{AccessOutcome, RegisterAccess},
    teardown::Teardown,
};

/// What happens at a time.
#[derive(Debug)]
pub(crate) enum WorldEvent {
    /// A sleep is over.
    Wake(Waker),
    /// A message arrives.
    Arrive(Delivery),
    /// A node comes to a message that it was slow to come to.
    Execute(Delivery),
    /// An access arrives at a store.
    Access(RegisterAccess),
    /// A process hears what came of an access.
    Accessed { process: usize, number: u64, outcome: AccessOutcome },
    /// A fault of the schedule, by its index.
    Begin(usize),
    /// Its end.
    End(usize),
    /// A node's state is kept, for a later fault that brings it back.
    Snapshot(usize),
    /// The validity of a lease may be over by its process's clock.
    Validity(u64),
    /// All processes are done; what they leave behind had its time to go away.
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
