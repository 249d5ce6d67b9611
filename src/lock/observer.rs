//! Who is told what becomes of attempts and leases.

use std::{fmt, sync::Arc};

use crate::{lock::held::Held, node::Resources, owner_id::OwnerId};

/// Is told what becomes of attempts and leases, at the very moment.
pub(crate) trait Observer: fmt::Debug + Send + Sync {
    /// An attempt begins; nothing has been sent yet. What is returned names it from now on.
    fn attempt_began(&self, resources: &Resources, owner: &OwnerId) -> u64;

    /// The attempt is taken back.
    fn attempt_lost(&self, attempt: u64);

    /// The attempt was won and has become a lease, which is in care.
    fn lease_granted(&self, held: &Arc<Held>);

    /// The lease has left the held phase: unlocked, or known to be lost.
    fn lease_ended(&self, held: &Held, is_unlocked: bool);
}

/// Nobody is told.
#[derive(Debug)]
pub(crate) struct Unobserved;

impl Observer for Unobserved {
    fn attempt_began(&self, _: &Resources, _: &OwnerId) -> u64 {
        0
    }

    fn attempt_lost(&self, _: u64) {}

    fn lease_granted(&self, _: &Arc<Held>) {}

    fn lease_ended(&self, _: &Held, _: bool) {}
}
