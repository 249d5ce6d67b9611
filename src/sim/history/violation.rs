//! What was wrong, and the evidence.

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

/// One promise that a history breaks, with the evidence; as text, a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Two leases on one resource overlap that exclude each other.
    #[error("two leases on {resource:?} overlap: {first}, and {second}")]
    Overlap {
        /// On which resource.
        resource: Resource,
        /// The one that was held.
        first: Grant,
        /// The one that was granted meanwhile.
        second: Grant,
    },
    /// A lease was downgraded, and before that was granted, another wrote.
    #[error("another wrote {resource:?} in a downgrade: {writer}, between {from}, and {to}")]
    Interrupted {
        /// Which resource.
        resource: Resource,
        /// The lease that was downgraded.
        from: Grant,
        /// The lease that it was downgraded to.
        to: Grant,
        /// The one between them.
        writer: Grant,
    },
    /// Two leases on one resource that exclude each other have the same token.
    #[error("two leases on {resource:?} have the same token: {first}, and {second}")]
    RepeatedToken {
        /// On which resource.
        resource: Resource,
        /// The one that had it first.
        first: Grant,
        /// The one that had it again.
        second: Grant,
    },
    /// A lease has a smaller token than one that was granted before its attempt began.
    #[error("tokens of {resource:?} fall: first {first}, then {second}")]
    FallingToken {
        /// On which resource.
        resource: Resource,
        /// The one that was granted first, and has the larger token.
        first: Grant,
        /// The one that began later, and has the smaller token.
        second: Grant,
    },
    /// A register accepted a write under a smaller token than it had accepted before.
    #[error("register {register:?} accepted an old token: after {newest}, a write of {write}")]
    OldToken {
        /// Which register.
        register: Resource,
        /// The access with the largest token before.
        newest: Access,
        /// The write that should have been refused.
        write: Access,
    },
    /// A register accepted a read under a smaller token than it had accepted a write before: what
    /// was read is not what its lease protects.
    #[error("register {register:?} accepted an old token: after {newest}, a read of {read}")]
    OldRead {
        /// Which register.
        register: Resource,
        /// The write with the largest token before.
        newest: Access,
        /// The read that should have been refused.
        read: Access,
    },
    /// A write overwrote an update that its writer had not seen.
    #[error(
        "an update of register {register:?} was lost: read by {read}, written by {lost}, overwritten \
         by {write}"
    )]
    LostUpdate {
        /// Which register.
        register: Resource,
        /// What the overwriting writer had read last.
        read: Access,
        /// The update that came after it.
        lost: Access,
        /// The write that knew nothing of it.
        write: Access,
    },
    /// A key stayed on a node.
    #[error("node {node} still has a key of {attempt} of process {process} at {} ms", Millis(*.at))]
    Residue {
        /// Whose key.
        attempt: AttemptId,
        /// Whose attempt.
        process: usize,
        /// On which node.
        node: usize,
        /// When it was found.
        at: Duration,
    },
    /// A process waited for ever.
    #[error("process {process} still waits at {} ms", Millis(*.at))]
    Stalled {
        /// Which process.
        process: usize,
        /// When it was found.
        at: Duration,
    },
    /// A re-entry was shown another token than the grant.
    #[error("a re-entry at {} ms was shown token {shown}: {lease}", Millis(*.at))]
    OtherToken {
        /// The lease.
        lease: Grant,
        /// The token that the re-entry was shown.
        shown: FencingToken,
        /// When.
        at: Duration,
    },
    /// An attempt looked like a valid lease that had not been granted.
    #[error("{attempt} of process {process} looked valid before it was granted, at {} ms", Millis(*.at))]
    EarlyLook {
        /// Which attempt.
        attempt: AttemptId,
        /// Whose.
        process: usize,
        /// When it looked valid.
        at: Duration,
    },
    /// A lease looked valid after its end.
    #[error("a lease that was over looked valid at {} ms: {lease}", Millis(*.at))]
    LateLook {
        /// The lease.
        lease: Grant,
        /// When it looked valid.
        at: Duration,
    },
    /// The loss of a lease was announced too late.
    #[error("a loss was announced late, at {} ms: {lease}", Millis(*.at))]
    LateLoss {
        /// The lease.
        lease: Grant,
        /// When it was announced.
        at: Duration,
    },
    /// A verification proved a lease although one with a larger token had been granted before it
    /// began.
    #[error(
        "a verification on {resource:?} from {} to {} ms proved {lease}, after {later}",
        Millis(*.since),
        Millis(*.at)
    )]
    FalseProof {
        /// On which resource.
        resource: Resource,
        /// The lease that was proved.
        lease: Grant,
        /// The lease with the larger token.
        later: Grant,
        /// When the verification began.
        since: Duration,
        /// When it was over.
        at: Duration,
    },
    /// An entry that cannot be. No promise was broken: the history was not written well.
    #[error("entry {entry} of the history, of process {process} at {} ms, cannot be: {reason}", Millis(*.at))]
    Malformed {
        /// Which entry, counted from zero.
        entry: usize,
        /// Of which process.
        process: usize,
        /// Its time.
        at: Duration,
        /// Why it cannot be.
        reason: &'static str,
    },
}

impl Violation {
    /// The promise that is broken; `None` for a malformed entry.
    #[must_use]
    pub const fn promise(&self) -> Option<Promise> {
        Some(match self {
            Self::Overlap { .. } | Self::Interrupted { .. } => Promise::Exclusion,
            Self::RepeatedToken { .. } | Self::FallingToken { .. } => Promise::Order,
            Self::OldToken { .. } | Self::OldRead { .. } | Self::LostUpdate { .. } => Promise::Register,
            Self::Residue { .. } => Promise::Residue,
            Self::Stalled { .. } => Promise::Liveness,
            Self::OtherToken { .. } => Promise::Reentry,
            Self::EarlyLook { .. } | Self::LateLook { .. } | Self::LateLoss { .. } => Promise::Honesty,
            Self::FalseProof { .. } => Promise::Proof,
            Self::Malformed { .. } => return None,
        })
    }

    /// When it showed.
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
            | Self::EarlyLook { at, .. }
            | Self::LateLook { at, .. }
            | Self::LateLoss { at, .. }
            | Self::FalseProof { at, .. }
            | Self::Malformed { at, .. } => *at,
        }
    }

    /// The process at which it showed.
    #[must_use]
    pub const fn process(&self) -> usize {
        match self {
            Self::Overlap { second: lease, .. }
            | Self::Interrupted { to: lease, .. }
            | Self::RepeatedToken { second: lease, .. }
            | Self::FallingToken { second: lease, .. }
            | Self::OtherToken { lease, .. }
            | Self::LateLook { lease, .. }
            | Self::LateLoss { lease, .. }
            | Self::FalseProof { lease, .. } => lease.process,
            Self::OldToken { write: access, .. }
            | Self::OldRead { read: access, .. }
            | Self::LostUpdate { write: access, .. } => access.process,
            Self::Residue { process, .. }
            | Self::Stalled { process, .. }
            | Self::EarlyLook { process, .. }
            | Self::Malformed { process, .. } => *process,
        }
    }
}
