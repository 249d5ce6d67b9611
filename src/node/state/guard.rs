//! Whether a node may vote: the restart guard.

use std::{sync::Arc, time::Duration};

use crate::{
    mutation::{self, Mutation},
    node::{
        answer::{Abstention, Answer, Enrolment},
        fault::Fault,
        request::{Enrol, Init, NewNodes, Reconfigure},
        state::{
            NodeState, NodeTime, Quarantine, Record,
            counters::{floor_at, usable},
        },
        terms::{Fingerprint, RestartGuard, Run, Terms},
    },
};

/// How far the clocks of a node and of a client may be apart. Counters that were lost begin at the
/// node's time: one that is far behind would give tokens again that were given before.
const LARGEST_GAP: Duration = Duration::from_secs(3600);

impl NodeState {
    /// Refuses the clients of another quorum.
    pub(super) fn admit(&self, terms: &Terms) -> Result<(), Answer> {
        match &self.record {
            Some(record) if record.fingerprint != terms.fingerprint => {
                Err(Answer::Foreign { fingerprint: record.fingerprint.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Why the node must not vote, if it must not.
    pub(super) fn abstention(&self, terms: &Terms, now: NodeTime) -> Option<Abstention> {
        let is_enrolled = match terms.guard {
            RestartGuard::Off => return None,
            RestartGuard::PerConnection => terms.run.as_ref().is_some_and(|run| self.is_of(run)),
            RestartGuard::PerVote => self.is_of(&self.run),
        };
        if !is_enrolled {
            return Some(Abstention::NotEnrolled);
        }
        let quarantine = self.quarantine(now)?;
        Some(Abstention::Quarantined(quarantine.until.remaining(now)))
    }

    /// Why a renewal does not count, if it does not. In quarantine it does as soon as every attempt
    /// that the node may have voted in is decided: what it may have forgotten from then on are
    /// whole leases, and those it learns again from the renewals themselves.
    pub(super) fn abstention_from_renewals(&self, terms: &Terms, now: NodeTime) -> Option<Abstention> {
        self.abstention(terms, now).filter(|abstention| match abstention {
            Abstention::NotEnrolled => !mutation::is_on(Mutation::CountWithoutRecord),
            Abstention::Quarantined(_) => {
                let from = self.quarantine(now).map(|quarantine| quarantine.renewals_from);
                from.is_some_and(|from| !from.is_past(now)) && !mutation::is_on(Mutation::CountInQuarantine)
            }
        })
    }

    pub(super) fn enrol(&mut self, terms: &Terms, enrol: &Enrol, now: NodeTime) -> Result<Answer, Answer> {
        self.admit(terms)?;
        check_clock(enrol.time, now)?;
        if self.record.is_none() && enrol.new_nodes == NewNodes::Leave {
            return Ok(self.enrolled(now));
        }
        let admits_new = enrol.new_nodes == NewNodes::Admit;
        let is_trusted = terms.guard == RestartGuard::Off || (self.record.is_none() && admits_new);
        if self.record.is_none() || !(self.is_of(&self.run) || is_trusted) {
            let floor = self.record.as_ref().map_or(Ok(0), |record| usable(record.floor))?;
            // That of a new node stays: with votes from the next second on, they would be above the
            // floor that a restart within this second sets.
            let is_new = !is_trusted && self.record.is_none() && self.is_new.is_none();
            let floor = if is_trusted { floor } else { floor.max(floor_at(now)) };
            self.write_record(&terms.fingerprint, floor, is_new);
            if !is_trusted {
                self.quarantine = Some(Quarantine {
                    until: now + terms.quarantine.lasts,
                    renewals_from: now + terms.quarantine.renewals_after,
                });
            }
        }
        Ok(self.enrolled(now))
    }

    /// Makes this a node of a new quorum, if it is new: it has no record, or is in the quarantine
    /// that began with its first one, and no renewal has shown that there was a quorum before. Such
    /// a node has given no vote.
    pub(super) fn init(&mut self, terms: &Terms, init: &Init, now: NodeTime) -> Result<Answer, Answer> {
        let is_in_first_quarantine = self.is_new == Some(true)
            && self.record().is_some_and(|record| record.fingerprint == terms.fingerprint)
            && self.is_of(&self.run)
            && self.quarantine(now).is_some();
        if self.is_new == Some(false) || (self.record.is_some() && !is_in_first_quarantine) {
            let fingerprint = self.record.as_ref().map_or(&terms.fingerprint, |record| &record.fingerprint);
            return Err(Answer::Known { fingerprint: fingerprint.clone() });
        }
        check_clock(init.time, now)?;
        if !init.is_rehearsal {
            self.write_record(&terms.fingerprint, 0, false);
            self.quarantine = None;
        }
        Ok(self.enrolled(now))
    }

    /// A renewal shows that there was a quorum before: a node that has no lock of it because it
    /// forgot is none for a new one.
    pub(super) fn note_quorum(&mut self, terms: &Terms, now: NodeTime) {
        let is_empty = self.record.is_none() && terms.guard != RestartGuard::Off;
        if is_empty || self.quarantine(now).is_some() {
            self.is_new = self.is_new.map(|_| false).or_else(|| is_empty.then_some(false));
        }
    }

    /// Makes this a node of another configuration. Repeating it changes nothing.
    pub(super) fn reconfigure(&mut self, reconfigure: &Reconfigure, now: NodeTime) -> Answer {
        let Reconfigure { from, to } = reconfigure;
        match &mut self.record {
            None => Answer::Abstains(Abstention::NotEnrolled),
            Some(record) if record.fingerprint == *from || record.fingerprint == *to => {
                record.fingerprint = to.clone();
                self.is_new = Some(false);
                self.enrolled(now)
            }
            Some(record) => Answer::Foreign { fingerprint: record.fingerprint.clone() },
        }
    }

    /// Until when the node must not vote.
    pub(crate) fn quarantine(&self, now: NodeTime) -> Option<Quarantine> {
        self.quarantine.filter(|quarantine| !quarantine.until.is_past(now))
    }

    /// Whether the node's record was written in this run.
    fn is_of(&self, run: &Run) -> bool {
        self.record.as_ref().is_some_and(|record| record.run == *run)
    }

    fn write_record(&mut self, fingerprint: &Fingerprint, floor: u64, is_new: bool) {
        self.is_new = Some(is_new);
        self.record = Some(Record { run: Arc::clone(&self.run), floor, fingerprint: fingerprint.clone() });
    }

    fn enrolled(&self, now: NodeTime) -> Answer {
        let quarantine = self.quarantine(now).map(|quarantine| quarantine.until.remaining(now));
        Answer::Enrolled(Enrolment { run: Some(Arc::clone(&self.run)), quarantine })
    }
}

/// Refuses a client whose time of day is not the node's. Before anything is written: a floor that
/// is far ahead would stay.
fn check_clock(time: Duration, now: NodeTime) -> Result<(), Answer> {
    let gap = now.since_epoch().abs_diff(time);
    if gap > LARGEST_GAP { Err(Answer::Fault(Fault::ClockOff(gap))) } else { Ok(()) }
}
