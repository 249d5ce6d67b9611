//! The restart guard: decides whether a node may vote.
//!
//! ```text
//!   not registered ── registration: same incarnation, or trusted ──────────────► voting
//!     ▲         └──── registration: any other node ──► quarantine ── its end ──►   │
//!     └───────────────── restart, promotion or flush of the server ◄───────────────┘
//! ```
//!
//! A client trusts a new node if the client admits new nodes, and every node if its guard is off.
//!
//! | state | lock, write-back | renewal |
//! |---|---|---|
//! | not registered | abstains | extends the lease, without a vote |
//! | quarantine | abstains | extends the lease; a vote only after `renewals_from` |
//! | voting | a vote | a vote |

use std::{sync::Arc, time::Duration};

use crate::{
    node::{
        operation::{Abstention, Answer, Registration},
        parameters::{Incarnation, QuorumParameters, RestartGuard},
        state::{NodeMetadata, NodeState, NodeTime, Quarantine},
    },
    values::{Fingerprint, NodeError},
};

/// The maximum difference between the clocks of a node and a client. A lost counter begins at the time of the
/// node, so a node with a clock far behind would repeat tokens.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(3600);

impl NodeState {
    /// Refuses the clients of another quorum.
    pub(super) fn admit(&self, parameters: &QuorumParameters) -> Result<(), Answer> {
        match &self.metadata {
            Some(metadata) if metadata.fingerprint != parameters.fingerprint => {
                Err(Answer::WrongQuorum { fingerprint: metadata.fingerprint.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Returns the reason for which the node must not vote, if there is one.
    pub(super) fn abstention(&self, parameters: &QuorumParameters, now: NodeTime) -> Option<Abstention> {
        let is_registered = match parameters.guard {
            RestartGuard::Off => return None,
            RestartGuard::PerConnection => {
                parameters.incarnation.as_ref().is_some_and(|incarnation| self.has_metadata_of(incarnation))
            }
            RestartGuard::PerVote => self.has_metadata_of(&self.incarnation),
        };
        if !is_registered {
            return Some(Abstention::NotRegistered);
        }
        let quarantine = self.quarantine(now)?;
        Some(Abstention::Quarantined(quarantine.until.remaining(now)))
    }

    /// Returns the reason for which a renewal is no vote, if there is one.
    ///
    /// In quarantine, a renewal is a vote once every attempt is decided in which the node may have voted. From
    /// then on, the node can have forgotten only votes of granted leases, and renewals write these leases again.
    pub(super) fn abstention_from_renewals(
        &self,
        parameters: &QuorumParameters,
        now: NodeTime,
    ) -> Option<Abstention> {
        self.abstention(parameters, now).filter(|abstention| match abstention {
            Abstention::NotRegistered => true,
            Abstention::Quarantined(_) => {
                let from = self.quarantine(now).map(|quarantine| quarantine.renewals_from);
                from.is_some_and(|from| !from.is_past(now))
            }
        })
    }

    /// Refuses the renewals of another quorum. A refused renewal proves that a quorum existed before, so the node
    /// records the proof. The node may have forgotten that quorum.
    pub(super) fn admit_renewal(
        &mut self,
        parameters: &QuorumParameters,
        now: NodeTime,
    ) -> Result<(), Answer> {
        self.admit(parameters).inspect_err(|_| self.note_quorum(parameters, now))
    }

    /// Records that a quorum existed before, as a renewal proves, if the node has no metadata or is in quarantine.
    ///
    /// A node that has forgotten a quorum must not become a node of a new quorum.
    pub(super) fn note_quorum(&mut self, parameters: &QuorumParameters, now: NodeTime) {
        let is_empty = self.metadata.is_none() && parameters.guard != RestartGuard::Off;
        if is_empty || self.quarantine(now).is_some() {
            self.is_new = self.is_new.map(|_| false).or_else(|| is_empty.then_some(false));
        }
    }

    /// Returns the quarantine, unless it has ended.
    pub(crate) fn quarantine(&self, now: NodeTime) -> Option<Quarantine> {
        self.quarantine.filter(|quarantine| !quarantine.until.is_past(now))
    }

    /// Whether the metadata was written in this incarnation of the server.
    pub(super) fn has_metadata_of(&self, incarnation: &Incarnation) -> bool {
        self.metadata.as_ref().is_some_and(|metadata| metadata.incarnation == *incarnation)
    }

    pub(super) fn write_metadata(&mut self, fingerprint: &Fingerprint, minimum_token: u64, is_new: bool) {
        self.is_new = Some(is_new);
        self.metadata = Some(NodeMetadata {
            incarnation: Arc::clone(&self.incarnation),
            minimum_token,
            fingerprint: fingerprint.clone(),
            replacements: self.metadata.take().map_or_else(|| "".into(), |metadata| metadata.replacements),
        });
    }

    /// Returns the answer to a registration, initialisation or reconfiguration that is done.
    pub(super) fn registered(&self, now: NodeTime) -> Answer {
        let quarantine = self.quarantine(now).map(|quarantine| quarantine.until.remaining(now));
        Answer::Registered(Registration { incarnation: Some(Arc::clone(&self.incarnation)), quarantine })
    }
}

/// Refuses a client whose time of day differs too much from the node's.
///
/// The check precedes every write, because a node with a wrong clock could write a minimum token far ahead, and the
/// minimum token is never lowered.
pub(super) fn check_clock(time: Duration, now: NodeTime) -> Result<(), Answer> {
    let (gap, is_node_ahead) = (now.since_epoch().abs_diff(time), now.since_epoch() > time);
    if gap <= MAX_CLOCK_DIFFERENCE {
        return Ok(());
    }
    Err(Answer::Error(NodeError::ClockOff { gap, is_node_ahead }))
}
