//! Whether a node may vote: the restart guard.

use std::{sync::Arc, time::Duration};

use crate::{
    mutation::{self, Mutation},
    node::{
        answer::{Abstention, Answer, Enrolment},
        request::{Enrol, Reconfigure},
        state::{NodeState, NodeTime, Quarantine, Record, counters::floor_at},
        terms::{Fingerprint, RestartGuard, Terms},
    },
};

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
            RestartGuard::PerConnection => self.record.is_some(),
            RestartGuard::PerVote => self.is_of_this_run(),
        };
        if !is_enrolled {
            return Some(Abstention::NotEnrolled);
        }
        let quarantine = self.quarantine(now)?;
        Some(Abstention::Quarantined(quarantine.until.remaining(now)))
    }

    /// Whether a renewal counts. In quarantine it does as soon as every attempt that the node may have voted in is decided:
    /// what it may have forgotten from then on are whole leases, and those it learns again from the renewals themselves.
    pub(super) fn counts_renewals(&self, terms: &Terms, now: NodeTime) -> bool {
        match self.abstention(terms, now) {
            None => true,
            Some(Abstention::NotEnrolled) => mutation::is_on(Mutation::CountWithoutRecord),
            Some(Abstention::Quarantined(_)) => {
                mutation::is_on(Mutation::CountInQuarantine)
                    || self.quarantine(now).is_none_or(|quarantine| quarantine.renewals_from.is_past(now))
            }
        }
    }

    pub(super) fn enrol(&mut self, terms: &Terms, enrol: &Enrol, now: NodeTime) -> Result<Answer, Answer> {
        self.admit(terms)?;
        let is_trusted = terms.guard == RestartGuard::Off || (self.record.is_none() && enrol.admits_new);
        if self.record.is_none() || !(self.is_of_this_run() || is_trusted) {
            self.write_record(&terms.fingerprint, if is_trusted { 0 } else { floor_at(now) });
            if !is_trusted {
                self.quarantine = Some(Quarantine {
                    until: now + terms.quarantine.lasts,
                    renewals_from: now + terms.quarantine.renewals_after,
                });
            }
        }
        Ok(self.enrolled(now))
    }

    /// Makes this a node of a new quorum: what it knew is over, an administrator says so.
    pub(super) fn init(&mut self, terms: &Terms, now: NodeTime) -> Answer {
        if let Some(record) = &self.record {
            return Answer::Known { fingerprint: record.fingerprint.clone() };
        }
        self.write_record(&terms.fingerprint, 0);
        self.enrolled(now)
    }

    /// Makes this a node of another configuration. Repeating it changes nothing.
    pub(super) fn reconfigure(&mut self, reconfigure: &Reconfigure, now: NodeTime) -> Answer {
        let Reconfigure { from, to } = reconfigure;
        match &mut self.record {
            None => Answer::Abstains(Abstention::NotEnrolled),
            Some(record) if record.fingerprint == *from || record.fingerprint == *to => {
                record.fingerprint = to.clone();
                self.enrolled(now)
            }
            Some(record) => Answer::Foreign { fingerprint: record.fingerprint.clone() },
        }
    }

    /// Until when the node must not vote.
    pub(crate) fn quarantine(&self, now: NodeTime) -> Option<Quarantine> {
        self.quarantine.filter(|quarantine| !quarantine.until.is_past(now))
    }

    fn is_of_this_run(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.run_id == self.run_id)
    }

    /// The floor of a new node stays where it is: with votes from the next second on, they would be above the floor that a
    /// restart within this second sets.
    fn write_record(&mut self, fingerprint: &Fingerprint, floor: u64) {
        let floor = self.record.as_ref().map_or(0, |record| record.floor).max(floor);
        self.record =
            Some(Record { run_id: Arc::clone(&self.run_id), floor, fingerprint: fingerprint.clone() });
    }

    fn enrolled(&self, now: NodeTime) -> Answer {
        let quarantine = self.quarantine(now).map(|quarantine| quarantine.until.remaining(now));
        let time: Duration = now.since_epoch();
        Answer::Enrolled(Enrolment { run_id: Some(Arc::clone(&self.run_id)), quarantine, time })
    }
}
