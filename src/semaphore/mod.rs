//! Any one of several resources: semaphores, whose slots are resources, and locks of any of some.

mod any_of;
mod any_of_request;
mod permits;
#[expect(clippy::module_inception, reason = "a file is named after its type")]
mod semaphore;
#[cfg(test)]
mod tests;

pub use self::{
    any_of::AnyOf,
    semaphore::{Permit, Semaphore},
};
