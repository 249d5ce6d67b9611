//! An index of a history: what it says about each attempt.

use std::{collections::HashMap, time::Duration};

use super::{
    History,
    event::{AttemptId, Entry, Event},
    evidence::Grant,
    violation::Violation,
};
use crate::values::{FencingToken, Resource};

/// The whole of one attempt, from its beginning to the end of its lease.
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
    is_verified: bool,
}

/// A grant, and which entry of the history it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantedRecord {
    pub(crate) entry: usize,
    pub(crate) at: Duration,
    pub(crate) token: FencingToken,
}

/// The end of a lease, and which entry of the history it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedRecord {
    pub(crate) entry: usize,
    pub(crate) at: Duration,
    pub(crate) is_unlocked: bool,
}

/// The first announcement of a loss, and which entry of the history it is.
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
            is_verified: false,
        }
    }

    /// Whether it only reads this one of its resources.
    pub(crate) fn shares(&self, resource: &Resource) -> bool {
        self.shared.binary_search(resource).is_ok()
    }

    /// The lease, as evidence.
    pub(crate) fn grant(&self) -> Option<Grant> {
        let GrantedRecord { at: granted, token, .. } = self.granted?;
        let Self { attempt, process, began, .. } = *self;
        Some(Grant { attempt, process, token, began, granted, ended: self.ended.map(|ended| ended.at) })
    }

    /// Takes in what comes after the beginning, or says why it cannot be.
    fn take(&mut self, entry: usize, at: Duration, event: &Event) -> Result<(), &'static str> {
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
            | Event::Verifying { .. }
            | Event::Proven { .. }
                if !is_granted =>
            {
                return Err("the attempt was not granted");
            }
            Event::Proven { .. } if !self.is_verified => return Err("no verification began"),
            Event::Granted { token, .. } => self.granted = Some(GrantedRecord { entry, at, token }),
            Event::Lost { .. } => self.lost = Some(at),
            Event::Ended { is_unlocked, .. } => self.ended = Some(EndedRecord { entry, at, is_unlocked }),
            Event::Announced { .. } => drop(self.announced.get_or_insert(AnnouncedRecord { entry, at })),
            Event::Verifying { .. } => self.is_verified = true,
            Event::Proven { .. } => self.is_verified = false,
            _ => {}
        }
        Ok(())
    }
}

/// All attempts of a history, and its entries in order, each with the whole of its attempt.
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
    /// It cannot be.
    Malformed(&'a Violation),
    /// It can.
    Event(IndexedEvent<'a>),
}

/// An event together with what the history says of its attempt, before and after it.
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
            index.take(number, latest, entry);
        }
        index
    }

    /// Every attempt, in the order in which they began.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &AttemptRecord<'h>> {
        self.attempts.iter()
    }

    /// Every entry, in order. One that is before its predecessor comes twice: as malformed, and at
    /// the corrected time.
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

    fn take(&mut self, index: usize, at: Duration, entry: &'h Entry) {
        let Entry { process, ref event, .. } = *entry;
        match self.attempt_of(index, at, process, event) {
            Ok(record) => self.steps.push(Ok(IndexedEntry { entry: index, at, process, event, record })),
            Err(reason) => self.malformed(index, entry, reason),
        }
    }

    /// The attempt that an event belongs to, with the event taken in; or why it cannot be.
    fn attempt_of(
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
            (Some(record), event) => record.take(index, at, event).map(|()| known),
            (None, Event::Began { resources, shared, .. }) => {
                if resources.is_empty() || !resources.is_sorted_by(|a, b| a < b) {
                    return Err("the resources are none, unsorted or repeated");
                }
                let is_known = |name| resources.binary_search(name).is_ok();
                if !(shared.iter().all(is_known) && shared.is_sorted_by(|a, b| a < b)) {
                    return Err("what is shared is unsorted, repeated or not among the resources");
                }
                let next = self.attempts.len();
                self.attempts.push(AttemptRecord::new(attempt, process, resources, shared, at));
                self.indices.insert(attempt, next);
                Ok(Some(next))
            }
            // A key counts, no matter which process wrote it.
            (None, Event::Left { .. }) => Ok(None),
            (None, _) => Err("the attempt never began"),
        }
    }

    fn malformed(&mut self, index: usize, entry: &Entry, reason: &'static str) {
        let Entry { at, process, .. } = *entry;
        self.steps.push(Err(Violation::Malformed { entry: index, process, at, reason }));
    }
}
