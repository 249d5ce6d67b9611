//! Quorum locks over independent Redis masters.

mod clock;
mod error;
mod mutex;
mod node;
mod owner_id;
mod resource;

pub use crate::{
    clock::Instant,
    error::ConfigError,
    node::{Fault, Fingerprint},
    owner_id::OwnerId,
    resource::Resource,
};
