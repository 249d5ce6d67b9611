//! Whether a node may vote: the restart guard.

use std::{sync::Arc, time::Duration};

use crate::{
    node::{
        operation::{Abstention, Answer, Registration},
        parameters::{Incarnation, QuorumParameters, RestartGuard},
        state::{NodeMetadata, NodeState, NodeTime, Quarantine},
    },
    values::{Fingerprint, NodeError},
};

/// How far the clocks of a node and of a client may be apart. Counters that were lost begin at the
/// node's time: one that is far behind would give tokens again that were given before.
const LARGEST_GAP: Duration = Duration::from_secs(3600);

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

    /// Why the node must not vote, if it must not.
    pub(super) fn abstention(&self, parameters: &QuorumParameters, now: NodeTime) -> Option<Abstention> {
        let is_registered = match parameters.guard {
            RestartGuard::Off => return None,
            RestartGuard::PerConnection => {
                parameters.incarnation.as_ref().is_some_and(|incarnation| self.is_of(incarnation))
            }
            RestartGuard::PerVote => self.is_of(&self.incarnation),
        };
        if !is_registered {
            return Some(Abstention::NotRegistered);
        }
        let quarantine = self.quarantine(now)?;
        Some(Abstention::Quarantined(quarantine.until.remaining(now)))
    }

    /// Why a renewal does not count, if it does not. In quarantine it does as soon as every attempt
    /// that the node may have voted in is decided: what it may have forgotten from then on are
    /// whole leases, and those it learns again from the renewals themselves.
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

    /// A renewal shows that there was a quorum before: a node that has no lock of it because it
    /// forgot is none for a new one.
    pub(super) fn note_quorum(&mut self, parameters: &QuorumParameters, now: NodeTime) {
        let is_empty = self.metadata.is_none() && parameters.guard != RestartGuard::Off;
        if is_empty || self.quarantine(now).is_some() {
            self.is_new = self.is_new.map(|_| false).or_else(|| is_empty.then_some(false));
        }
    }

    /// Until when the node must not vote.
    pub(crate) fn quarantine(&self, now: NodeTime) -> Option<Quarantine> {
        self.quarantine.filter(|quarantine| !quarantine.until.is_past(now))
    }

    /// Whether the node's metadata was written in this incarnation.
    pub(super) fn is_of(&self, incarnation: &Incarnation) -> bool {
        self.metadata.as_ref().is_some_and(|metadata| metadata.incarnation == *incarnation)
    }

    pub(super) fn write_metadata(&mut self, fingerprint: &Fingerprint, minimum_token: u64, is_new: bool) {
        self.is_new = Some(is_new);
        self.metadata = Some(NodeMetadata {
            incarnation: Arc::clone(&self.incarnation),
            minimum_token,
            fingerprint: fingerprint.clone(),
        });
    }

    pub(super) fn registered(&self, now: NodeTime) -> Answer {
        let quarantine = self.quarantine(now).map(|quarantine| quarantine.until.remaining(now));
        Answer::Registered(Registration { incarnation: Some(Arc::clone(&self.incarnation)), quarantine })
    }
}

/// Refuses a client whose time of day is not the node's. Before anything is written: a minimum
/// token that is far ahead would stay.
pub(super) fn check_clock(time: Duration, now: NodeTime) -> Result<(), Answer> {
    let gap = now.since_epoch().abs_diff(time);
    if gap > LARGEST_GAP { Err(Answer::Error(NodeError::ClockOff(gap))) } else { Ok(()) }
}
