//! Tests of the checks of histories. For each promise, a small history breaks the promise. For most
//! promises, a similar history keeps the promise.

mod against_naive;
mod form;
mod holding;
mod registers;

use std::time::Duration;

use super::*;
use crate::values::{FencingToken, Resource};

/// A history under construction. A millisecond passes before each entry that is not added by
/// `at_once`.
#[derive(Default)]
struct HistoryBuilder {
    history: History,
    at: Duration,
}

impl HistoryBuilder {
    fn new() -> Self {
        Self::default()
    }

    /// Returns the time of the last entry, in milliseconds.
    fn now(&self) -> u64 {
        u64::try_from(self.at.as_millis()).unwrap()
    }

    /// Adds an entry at the time of the last entry.
    fn at_once(&mut self, process: usize, event: Event) -> &mut Self {
        self.history.note(self.at, process, event);
        self
    }

    /// Adds an entry one millisecond after the last entry.
    fn note(&mut self, process: usize, event: Event) -> &mut Self {
        self.at += Duration::from_millis(1);
        self.at_once(process, event)
    }

    /// Adds the start of an attempt. The resources `"a b*"` stand for an attempt to write `a` and
    /// read `b`.
    fn began(&mut self, process: usize, attempt: u64, resources: &str) -> &mut Self {
        let name = |name: &str| resource(name.trim_end_matches('*'));
        let shared = resources.split(' ').filter(|name| name.ends_with('*')).map(name).collect();
        let resources = resources.split(' ').map(name).collect();
        self.note(process, Event::Began { attempt: AttemptId::new(attempt), resources, shared })
    }

    fn granted(&mut self, process: usize, attempt: u64, value: u64) -> &mut Self {
        self.note(process, Event::Granted { attempt: AttemptId::new(attempt), token: token(value) })
    }

    /// Adds an attempt and its grant. Attempt and process have the same number.
    fn lease(&mut self, number: usize, resources: &str, value: u64) -> &mut Self {
        self.began(number, number as u64, resources).granted(number, number as u64, value)
    }

    fn unlocked(&mut self, number: usize) -> &mut Self {
        self.note(number, ended(number as u64, true))
    }

    fn expired(&mut self, number: usize) -> &mut Self {
        self.note(number, ended(number as u64, false))
    }

    fn violations(&self) -> Vec<Violation> {
        self.history
            .check(&Promises::ALL)
            .map_or_else(|violations| violations.into_iter().collect(), |()| Vec::new())
    }

    fn assert_kept(&self) {
        assert_eq!(self.history.check(&Promises::ALL), Ok(()));
    }

    /// Asserts that the history has one violation, which breaks this promise. Returns the violation.
    fn assert_breaks_only(&self, promise: Promise) -> Violation {
        let [violation] = <[Violation; 1]>::try_from(self.violations()).unwrap();
        assert_eq!(violation.promise(), Some(promise));
        assert_eq!(self.history.check(&Promises::ALL.without(promise)), Ok(()));
        assert!(self.history.check(&Promises::NONE.with(promise)).unwrap_err().breaks(promise));
        violation
    }

    /// Asserts that the only violation is a malformed entry, and returns the reason.
    fn malformed_reason(&self) -> &'static str {
        match self.violations().as_slice() {
            [Violation::Malformed { reason, .. }] => reason,
            other => panic!("expected one malformed entry: {other:?}"),
        }
    }
}

fn resource(name: &str) -> Resource {
    Resource::new(name).unwrap()
}

fn token(value: u64) -> FencingToken {
    FencingToken::new(value)
}

fn ended(attempt: u64, is_unlocked: bool) -> Event {
    Event::Ended { attempt: AttemptId::new(attempt), is_unlocked }
}

fn checked(attempt: u64, is_valid: bool) -> Event {
    Event::Checked { attempt: AttemptId::new(attempt), is_valid }
}

fn announced(attempt: u64) -> Event {
    Event::Announced { attempt: AttemptId::new(attempt) }
}

fn reentered(attempt: u64, value: u64) -> Event {
    Event::Reentered { attempt: AttemptId::new(attempt), token: token(value) }
}

fn verifying(attempt: u64) -> Event {
    Event::Verifying { attempt: AttemptId::new(attempt) }
}

fn proven(attempt: u64) -> Event {
    Event::Proven { attempt: AttemptId::new(attempt) }
}
