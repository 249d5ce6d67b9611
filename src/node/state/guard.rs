//! Whether a node may vote: the restart guard.

use std::{sync::Arc, time::Duration};

use crate::{
    mutation::{self, Mutation},
    node::{
        answer::{Abstention, Answer, Registration},
        parameters::{Incarnation, QuorumParameters, RestartGuard},
        request::{Init, NewNodes, Reconfigure, Register},
        state::{
            NodeMetadata, NodeState, NodeTime, Quarantine,
            counters::{minimum_token_at, usable},
        },
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
            Abstention::NotRegistered => !mutation::is_on(Mutation::CountWithoutMetadata),
            Abstention::Quarantined(_) => {
                let from = self.quarantine(now).map(|quarantine| quarantine.renewals_from);
                from.is_some_and(|from| !from.is_past(now)) && !mutation::is_on(Mutation::CountInQuarantine)
            }
        })
    }

    pub(super) fn register(
        &mut self,
        parameters: &QuorumParameters,
        register: &Register,
        now: NodeTime,
    ) -> Result<Answer, Answer> {
        self.admit(parameters)?;
        check_clock(register.time, now)?;
        if self.metadata.is_none() && register.new_nodes == NewNodes::Leave {
            return Ok(self.registered(now));
        }
        let admits_new = register.new_nodes == NewNodes::Admit;
        let is_trusted = parameters.guard == RestartGuard::Off || (self.metadata.is_none() && admits_new);
        if self.metadata.is_none() || !(self.is_of(&self.incarnation) || is_trusted) {
            let minimum_token =
                self.metadata.as_ref().map_or(Ok(0), |metadata| usable(metadata.minimum_token))?;
            // That of a new node stays: with votes from the next second on, they would be above the
            // minimum token that a restart within this second sets.
            let is_new = !is_trusted && self.metadata.is_none() && self.is_new.is_none();
            let minimum_token =
                if is_trusted { minimum_token } else { minimum_token.max(minimum_token_at(now)) };
            self.write_metadata(&parameters.fingerprint, minimum_token, is_new);
            if !is_trusted {
                self.quarantine = Some(Quarantine {
                    until: now + parameters.quarantine.lasts,
                    renewals_from: now + parameters.quarantine.renewals_after,
                });
            }
        }
        Ok(self.registered(now))
    }

    /// Makes this a node of a new quorum, if it is new: it has no metadata, or is in the quarantine
    /// that began with its first one, and no renewal has shown that there was a quorum before. Such
    /// a node has given no vote.
    pub(super) fn init(
        &mut self,
        parameters: &QuorumParameters,
        init: &Init,
        now: NodeTime,
    ) -> Result<Answer, Answer> {
        let is_in_first_quarantine = self.is_new == Some(true)
            && self.metadata().is_some_and(|metadata| metadata.fingerprint == parameters.fingerprint)
            && self.is_of(&self.incarnation)
            && self.quarantine(now).is_some();
        if self.is_new == Some(false) || (self.metadata.is_some() && !is_in_first_quarantine) {
            let fingerprint =
                self.metadata.as_ref().map_or(&parameters.fingerprint, |metadata| &metadata.fingerprint);
            return Err(Answer::AlreadyRegistered { fingerprint: fingerprint.clone() });
        }
        check_clock(init.time, now)?;
        if !init.is_rehearsal {
            self.write_metadata(&parameters.fingerprint, 0, false);
            self.quarantine = None;
        }
        Ok(self.registered(now))
    }

    /// A renewal shows that there was a quorum before: a node that has no lock of it because it
    /// forgot is none for a new one.
    pub(super) fn note_quorum(&mut self, parameters: &QuorumParameters, now: NodeTime) {
        let is_empty = self.metadata.is_none() && parameters.guard != RestartGuard::Off;
        if is_empty || self.quarantine(now).is_some() {
            self.is_new = self.is_new.map(|_| false).or_else(|| is_empty.then_some(false));
        }
    }

    /// Makes this a node of another configuration. Repeating it changes nothing.
    pub(super) fn reconfigure(&mut self, reconfigure: &Reconfigure, now: NodeTime) -> Answer {
        let Reconfigure { from, to } = reconfigure;
        match &mut self.metadata {
            None => Answer::Abstains(Abstention::NotRegistered),
            Some(metadata) if metadata.fingerprint == *from || metadata.fingerprint == *to => {
                metadata.fingerprint = to.clone();
                self.is_new = Some(false);
                self.registered(now)
            }
            Some(metadata) => Answer::WrongQuorum { fingerprint: metadata.fingerprint.clone() },
        }
    }

    /// Until when the node must not vote.
    pub(crate) fn quarantine(&self, now: NodeTime) -> Option<Quarantine> {
        self.quarantine.filter(|quarantine| !quarantine.until.is_past(now))
    }

    /// Whether the node's metadata was written in this incarnation.
    fn is_of(&self, incarnation: &Incarnation) -> bool {
        self.metadata.as_ref().is_some_and(|metadata| metadata.incarnation == *incarnation)
    }

    fn write_metadata(&mut self, fingerprint: &Fingerprint, minimum_token: u64, is_new: bool) {
        self.is_new = Some(is_new);
        self.metadata = Some(NodeMetadata {
            incarnation: Arc::clone(&self.incarnation),
            minimum_token,
            fingerprint: fingerprint.clone(),
        });
    }

    fn registered(&self, now: NodeTime) -> Answer {
        let quarantine = self.quarantine(now).map(|quarantine| quarantine.until.remaining(now));
        Answer::Registered(Registration { incarnation: Some(Arc::clone(&self.incarnation)), quarantine })
    }
}

/// Refuses a client whose time of day is not the node's. Before anything is written: a minimum
/// token that is far ahead would stay.
fn check_clock(time: Duration, now: NodeTime) -> Result<(), Answer> {
    let gap = now.since_epoch().abs_diff(time);
    if gap > LARGEST_GAP { Err(Answer::Error(NodeError::ClockOff(gap))) } else { Ok(()) }
}
