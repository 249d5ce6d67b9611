//! Locks of any one of several resources, and semaphores, which lock any one of their slots.
//!
//! [`AnyOf`] and [`Semaphore`] are the public API. Both make an [`any_of_request`], and `acquire/any_of` acquires the
//! lease.

mod any_of;
mod any_of_request;
#[expect(clippy::module_inception, reason = "a file is named after its type")]
mod semaphore;
#[cfg(test)]
mod tests;

pub use self::{
    any_of::AnyOf,
    semaphore::{Permit, Semaphore},
};
