//! What happens at a time.

use std::task::Waker;

use super::{State, network::Delivery, stores::Access, teardown::Teardown};

/// What happens at a time.
#[derive(Debug)]
pub(crate) enum Event {
    /// A sleep is over.
    Wake(Waker),
    /// A message arrives.
    Arrive(Delivery),
    /// A node comes to a message that it was slow to come to.
    Execute(Delivery),
    /// An access arrives at a store.
    Access(Access),
    /// A client hears what came of an access.
    Accessed { client: usize, number: u64, outcome: Option<u64> },
    /// A fault of the schedule, by its index.
    Begin(usize),
    /// Its end.
    End(usize),
    /// A node's state is kept, for a later fault that brings it back.
    Remember(usize),
    /// The validity of a lease may be over by its client's clock.
    Validity(u64),
    /// All clients are done; what they leave behind had its time to go away.
    Settle,
}

impl State {
    pub(super) fn run(&mut self, event: Event, after: &mut Teardown) {
        match event {
            Event::Wake(waker) => after.woken.push(waker),
            Event::Arrive(delivery) => self.arrive(delivery, after),
            Event::Execute(delivery) => self.execute(delivery),
            Event::Access(access) => self.access(access),
            Event::Accessed { client, number, outcome } => self.reply(client, number, outcome, after),
            Event::Begin(fault) => self.begin_fault(fault, after),
            Event::End(fault) => self.end_fault(fault, after),
            Event::Remember(fault) => self.remember(fault),
            Event::Validity(attempt) => self.look_at_lease(attempt),
            Event::Settle => self.settle(),
        }
    }
}
