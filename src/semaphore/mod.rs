//! Locks of any one of several resources, and semaphores. A permit of a semaphore is a lock of any one of its slots.
//!
//! [`AnyOf`] and [`Semaphore`] are the public API. Both make requests of [`any_of_request`], and `acquire/any_of`
//! acquires the leases.

mod any_of;
mod any_of_request;
mod permit_count_check;
#[expect(clippy::module_inception, reason = "a file is named after its type")]
mod semaphore;
#[cfg(test)]
mod tests;

pub use self::{
    any_of::AnyOf,
    semaphore::{Permit, Semaphore},
};
