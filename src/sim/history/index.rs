//! The index of a history by attempt.

use std::{collections::HashMap, time::Duration};

use super::{
    History,
    event::{AttemptId, Entry, Event},
    evidence::Grant,
    violation::Violation,
};
use crate::values::{FencingToken, Resource};

/// One attempt, from its start to the end of its lease.
#[derive(Clone, Debug)]
pub(crate) struct AttemptRecord<'h> {
    pub(crate) attempt: AttemptId,
    pub(crate) process: usize,
    pub(crate) resources: &'h [Resource],
    shared: &'h [Resource],
    pub(crate) began: Duration,
    pub(crate) granted: Option<GrantedRecord>,
    pub(crate) lost: Option<Duration>,
    pub(crate) ended: Option<EndedRecord>,
    pub(crate) announced: Option<AnnouncedRecord>,
    /// Whether a verification has begun and proved nothing yet.
    is_verifying: bool,
}

/// A grant, with the index of its entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantedRecord {
    pub(crate) entry: usize,
    pub(crate) at: Duration,
    pub(crate) token: FencingToken,
}

/// The end of a lease, with the index of its entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedRecord {
    pub(crate) entry: usize,
    pub(crate) at: Duration,
    pub(crate) is_unlocked: bool,
}

/// The first announcement of a loss, with the index of its entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnnouncedRecord {
    pub(crate) entry: usize,
    pub(crate) at: Duration,
}

impl<'h> AttemptRecord<'h> {
    fn new(
        attempt: AttemptId,
        process: usize,
        resources: &'h [Resource],
        shared: &'h [Resource],
        began: Duration,
    ) -> Self {
        let (granted, lost, ended, announced) = (None, None, None, None);
        Self {
            attempt,
            process,
            resources,
            shared,
            began,
            granted,
            lost,
            ended,
            announced,
            is_verifying: false,
        }
    }

    /// Whether the attempt only reads this resource.
    pub(crate) fn shares(&self, resource: &Resource) -> bool {
        self.shared.binary_search(resource).is_ok()
    }

    /// Returns the lease as evidence.
    pub(crate) fn grant(&self) -> Option<Grant> {
        let GrantedRecord { at: granted, token, .. } = self.granted?;
        let Self { attempt, process, began, .. } = *self;
        Some(Grant { attempt, process, token, began, granted, ended: self.ended.map(|ended| ended.at) })
    }

    /// Adds an event after the start of the attempt. Returns the reason if the event is impossible.
    fn add(&mut self, entry: usize, at: Duration, event: &Event) -> Result<(), &'static str> {
        let is_granted = self.granted.is_some();
        match *event {
            Event::Began { .. } => return Err("the attempt has begun before"),
            Event::Granted { .. } | Event::Lost { .. } if is_granted => {
                return Err("the attempt was granted before");
            }
            Event::Granted { .. } | Event::Lost { .. } if self.lost.is_some() => {
                return Err("the attempt was lost before");
            }
            Event::Ended { .. } if self.ended.is_some() => return Err("the lease has ended before"),
            Event::Ended { .. }
            | Event::Announced { .. }
            | Event::Reentered { .. }
            | Event::Downgraded { .. }
            | Event::Redeemed { .. }
            | Event::Verifying { .. }
            | Event::Proven { .. }
                if !is_granted =>
            {
                return Err("the attempt was not granted");
            }
            Event::Proven { .. } if !self.is_verifying => return Err("no verification began"),
            Event::Granted { token, .. } => self.granted = Some(GrantedRecord { entry, at, token }),
            Event::Lost { .. } => self.lost = Some(at),
            Event::Ended { is_unlocked, .. } => self.ended = Some(EndedRecord { entry, at, is_unlocked }),
            Event::Announced { .. } => drop(self.announced.get_or_insert(AnnouncedRecord { entry, at })),
            Event::Verifying { .. } => self.is_verifying = true,
            Event::Proven { .. } => self.is_verifying = false,
            _ => {}
        }
        Ok(())
    }
}

/// The attempts of a history, and its entries in order, each with the index of its attempt.
#[derive(Debug)]
pub(crate) struct HistoryIndex<'h> {
    attempts: Vec<AttemptRecord<'h>>,
    indices: HashMap<AttemptId, usize>,
    steps: Vec<Result<IndexedEntry<'h>, Violation>>,
}

#[derive(Debug)]
struct IndexedEntry<'h> {
    entry: usize,
    at: Duration,
    process: usize,
    event: &'h Event,
    record: Option<usize>,
}

/// One entry of a history.
#[derive(Debug)]
pub(crate) enum IndexStep<'a> {
    /// An impossible entry.
    Malformed(&'a Violation),
    /// A possible entry.
    Event(IndexedEvent<'a>),
}

/// An event with the record of its attempt. The record also includes events that come later in the
/// history.
#[derive(Debug)]
pub(crate) struct IndexedEvent<'a> {
    pub(crate) entry: usize,
    pub(crate) at: Duration,
    pub(crate) process: usize,
    pub(crate) event: &'a Event,
    pub(crate) record: Option<&'a AttemptRecord<'a>>,
}

impl<'h> HistoryIndex<'h> {
    pub(crate) fn of(history: &'h History) -> Self {
        let mut index = Self { attempts: Vec::new(), indices: HashMap::new(), steps: Vec::new() };
        let mut latest = Duration::ZERO;
        for (number, entry) in history.entries().iter().enumerate() {
            if entry.at < latest {
                index.malformed(number, entry, "time runs backwards");
            }
            latest = latest.max(entry.at);
            index.add(number, latest, entry);
        }
        index
    }

    /// Returns all attempts, in the order of their starts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &AttemptRecord<'h>> {
        self.attempts.iter()
    }

    /// Returns all entries, in order. An entry with an earlier time than its predecessor appears twice: as
    /// malformed, and with the time of the latest entry before.
    pub(crate) fn steps(&self) -> impl Iterator<Item = IndexStep<'_>> {
        self.steps.iter().map(|step| match step {
            Err(violation) => IndexStep::Malformed(violation),
            Ok(indexed) => {
                let record = indexed.record.and_then(|index| self.attempts.get(index));
                let IndexedEntry { entry, at, process, event, .. } = *indexed;
                IndexStep::Event(IndexedEvent { entry, at, process, event, record })
            }
        })
    }

    fn add(&mut self, index: usize, at: Duration, entry: &'h Entry) {
        let Entry { process, ref event, .. } = *entry;
        match self.add_to_attempt(index, at, process, event) {
            Ok(record) => self.steps.push(Ok(IndexedEntry { entry: index, at, process, event, record })),
            Err(reason) => self.malformed(index, entry, reason),
        }
    }

    /// Adds an event to the record of its attempt, and returns the index of the record. Returns a
    /// reason if the event is impossible.
    fn add_to_attempt(
        &mut self,
        index: usize,
        at: Duration,
        process: usize,
        event: &'h Event,
    ) -> Result<Option<usize>, &'static str> {
        let Some(attempt) = event.attempt() else { return Ok(None) };
        let known = self.indices.get(&attempt).copied();
        let record = known.and_then(|known| self.attempts.get_mut(known));
        match (record, event) {
            (Some(record), event) => record.add(index, at, event).map(|()| known),
            (None, Event::Began { resources, shared, .. }) => {
                if resources.is_empty() || !resources.is_sorted_by(|a, b| a < b) {
                    return Err("the resources are missing, unsorted or repeated");
                }
                let is_known = |name| resources.binary_search(name).is_ok();
                if !(shared.iter().all(is_known) && shared.is_sorted_by(|a, b| a < b)) {
                    return Err("the shared resources are unsorted, repeated or not among the resources");
                }
                let next = self.attempts.len();
                self.attempts.push(AttemptRecord::new(attempt, process, resources, shared, at));
                self.indices.insert(attempt, next);
                Ok(Some(next))
            }
            // A residual key counts even if the history does not have its attempt.
            (None, Event::Residue { .. }) => Ok(None),
            (None, _) => Err("the attempt never began"),
        }
    }

    fn malformed(&mut self, index: usize, entry: &Entry, reason: &'static str) {
        let Entry { at, process, .. } = *entry;
        self.steps.push(Err(Violation::Malformed { entry: index, process, at, reason }));
    }
}
