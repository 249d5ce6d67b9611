//! The violations of promises, and their evidence.

use std::time::Duration;

use super::{
    event::AttemptId,
    evidence::{Access, Grant},
    promise::Promise,
};
use crate::{
    sim::millis::Millis,
    values::{FencingToken, Resource},
};

/// A broken promise of a history, with the evidence. The text is one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// An overlap of two leases on one resource, of which at least one is a write lease.
    #[error("two leases on {resource:?} overlap: {first}, and {second}")]
    Overlap {
        /// The resource of both leases.
        resource: Resource,
        /// The lease that was held.
        first: Grant,
        /// The lease that was granted while the first lease was held.
        second: Grant,
    },
    /// A write lease that was granted between another write lease and the lease that replaced it.
    #[error("another client wrote {resource:?} during a transfer: {writer}, between {from}, and {to}")]
    Interrupted {
        /// The resource.
        resource: Resource,
        /// The write lease that was replaced.
        from: Grant,
        /// The lease that replaced the write lease `from`: its downgrade, or the redemption of its ticket.
        to: Grant,
        /// The write lease in between.
        writer: Grant,
    },
    /// The same token for two leases on one resource, of which at least one is a write lease.
    #[error("two leases on {resource:?} have the same token: {first}, and {second}")]
    RepeatedToken {
        /// The resource of both leases.
        resource: Resource,
        /// The first lease with the token.
        first: Grant,
        /// The second lease with the token.
        second: Grant,
    },
    /// A lease with a smaller token than a lease that was granted before the attempt began.
    #[error("tokens of {resource:?} fall: first {first}, then {second}")]
    FallingToken {
        /// The resource of both leases.
        resource: Resource,
        /// The lease that was granted first, with the larger token.
        first: Grant,
        /// The lease that began later, with the smaller token.
        second: Grant,
    },
    /// An accepted write with a smaller token than an earlier accepted access.
    #[error("register {register:?} accepted an old token: after {newest}, a write of {write}")]
    OldToken {
        /// The register.
        register: Resource,
        /// The earlier access with the largest token.
        newest: Access,
        /// The write that should have been refused.
        write: Access,
    },
    /// An accepted read with a smaller token than an earlier accepted write.
    #[error("register {register:?} accepted an old token: after {newest}, a read of {read}")]
    OldRead {
        /// The register.
        register: Resource,
        /// The earlier write with the largest token.
        newest: Access,
        /// The read that should have been refused.
        read: Access,
    },
    /// An overwritten update that the writer had not read.
    #[error(
        "an update of register {register:?} was lost: read by {read}, written by {lost}, overwritten \
         by {write}"
    )]
    LostUpdate {
        /// The register.
        register: Resource,
        /// The last read of the writer that overwrote the update.
        read: Access,
        /// The update after that read.
        lost: Access,
        /// The write that overwrote the update.
        write: Access,
    },
    /// A key of an attempt that is over, on a node.
    #[error("node {node} still has a key of {attempt} of process {process} at {} ms", Millis(*.at))]
    Residue {
        /// The attempt of the key.
        attempt: AttemptId,
        /// The process of the attempt.
        process: usize,
        /// The node with the key.
        node: usize,
        /// The time at which the key was found.
        at: Duration,
    },
    /// A process whose program had not ended at the end of the run.
    #[error("process {process} still waits at {} ms", Millis(*.at))]
    Stalled {
        /// The process.
        process: usize,
        /// The end of the run.
        at: Duration,
    },
    /// A re-entry with a token that differs from the token of the grant.
    #[error("a re-entry at {} ms was shown token {shown}: {lease}", Millis(*.at))]
    OtherToken {
        /// The lease.
        lease: Grant,
        /// The token that the re-entry returned.
        shown: FencingToken,
        /// The time of the re-entry.
        at: Duration,
    },
    /// A check that found a lease valid before its grant.
    #[error("{attempt} of process {process} looked valid before it was granted, at {} ms", Millis(*.at))]
    EarlyValidity {
        /// The attempt.
        attempt: AttemptId,
        /// The process of the attempt.
        process: usize,
        /// The time of the check.
        at: Duration,
    },
    /// A check that found a lease valid after its end.
    #[error("a lease that was over looked valid at {} ms: {lease}", Millis(*.at))]
    LateValidity {
        /// The lease.
        lease: Grant,
        /// The time of the check.
        at: Duration,
    },
    /// A loss that was announced too late.
    #[error("a loss was announced late, at {} ms: {lease}", Millis(*.at))]
    LateLoss {
        /// The lease.
        lease: Grant,
        /// The time of the announcement.
        at: Duration,
    },
    /// A proof of a lease although a lease with a larger token had been granted before the
    /// verification began.
    #[error(
        "a verification on {resource:?} from {} to {} ms proved {lease}, after {later}",
        Millis(*.since),
        Millis(*.at)
    )]
    FalseProof {
        /// The resource of both leases.
        resource: Resource,
        /// The lease that was proved.
        lease: Grant,
        /// The lease with the larger token.
        later: Grant,
        /// The start of the verification.
        since: Duration,
        /// The end of the verification.
        at: Duration,
    },
    /// An impossible entry. The history is wrong, and no promise is known to be broken.
    #[error("entry {entry} of the history, of process {process} at {} ms, cannot be: {reason}", Millis(*.at))]
    Malformed {
        /// The index of the entry, from zero.
        entry: usize,
        /// The process of the entry.
        process: usize,
        /// The time of the entry.
        at: Duration,
        /// The reason why the entry is impossible.
        reason: &'static str,
    },
}

impl Violation {
    /// Returns the broken promise; `None` for a malformed entry.
    #[must_use]
    pub const fn promise(&self) -> Option<Promise> {
        Some(match self {
            Self::Overlap { .. } | Self::Interrupted { .. } => Promise::Exclusion,
            Self::RepeatedToken { .. } | Self::FallingToken { .. } => Promise::Order,
            Self::OldToken { .. } | Self::OldRead { .. } | Self::LostUpdate { .. } => Promise::Register,
            Self::Residue { .. } => Promise::Residue,
            Self::Stalled { .. } => Promise::Liveness,
            Self::OtherToken { .. } => Promise::Reentry,
            Self::EarlyValidity { .. } | Self::LateValidity { .. } | Self::LateLoss { .. } => {
                Promise::Honesty
            }
            Self::FalseProof { .. } => Promise::Proof,
            Self::Malformed { .. } => return None,
        })
    }

    /// Returns the time at which the violation showed.
    #[must_use]
    pub const fn at(&self) -> Duration {
        match self {
            Self::Overlap { second: lease, .. }
            | Self::Interrupted { to: lease, .. }
            | Self::RepeatedToken { second: lease, .. }
            | Self::FallingToken { second: lease, .. } => lease.granted,
            Self::OldToken { write: access, .. }
            | Self::OldRead { read: access, .. }
            | Self::LostUpdate { write: access, .. } => access.at,
            Self::Residue { at, .. }
            | Self::Stalled { at, .. }
            | Self::OtherToken { at, .. }
            | Self::EarlyValidity { at, .. }
            | Self::LateValidity { at, .. }
            | Self::LateLoss { at, .. }
            | Self::FalseProof { at, .. }
            | Self::Malformed { at, .. } => *at,
        }
    }

    /// Returns the process at which the violation showed.
    #[must_use]
    pub const fn process(&self) -> usize {
        match self {
            Self::Overlap { second: lease, .. }
            | Self::Interrupted { to: lease, .. }
            | Self::RepeatedToken { second: lease, .. }
            | Self::FallingToken { second: lease, .. }
            | Self::OtherToken { lease, .. }
            | Self::LateValidity { lease, .. }
            | Self::LateLoss { lease, .. }
            | Self::FalseProof { lease, .. } => lease.process,
            Self::OldToken { write: access, .. }
            | Self::OldRead { read: access, .. }
            | Self::LostUpdate { write: access, .. } => access.process,
            Self::Residue { process, .. }
            | Self::Stalled { process, .. }
            | Self::EarlyValidity { process, .. }
            | Self::Malformed { process, .. } => *process,
        }
    }
}
