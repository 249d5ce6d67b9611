//! Quorum locks over independent Redis masters.

mod algorithm;
mod clock;
mod config;
mod error;
mod lock;
mod mutex;
mod node;
mod owner_id;
mod resource;
mod vote;

pub use crate::{
    algorithm::fencing::FencingToken,
    clock::Instant,
    config::RetryPolicy,
    error::{ConfigError, ConnectError, LeaseLost, LockError, LossReason, RenewError, UnlockError},
    lock::{LockGuard, Quorum, QuorumBuilder, RedLock, Unlocked, Verification},
    node::{Fault, Fingerprint, memory::MemoryCluster},
    owner_id::OwnerId,
    resource::Resource,
    vote::{Refusal, Vote, Votes},
};
