//! The history of one object: the events of all processes in the order of their times.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
};

use anyhow::Context;

use crate::{
    clock::Nanoseconds,
    event::{Event, Object, Stage, Value},
};

/// The name of the operation that ends a lease.
pub(crate) const RELEASE: &str = "release";

/// The names of the operations that end a lease. The value of their beginning is the number of the lease.
pub(crate) const ENDS_OF_LEASES: [&str; 3] = [RELEASE, "downgrade", "issue"];

/// The events of one object. Each process has one operation at a time, and each operation has an end.
#[derive(Clone, Debug)]
pub(crate) struct History {
    events: Vec<Event>,
}

impl History {
    /// Returns the history of an object until `cut`, from the events that the workers have written.
    ///
    /// * A worker that was killed could not write the end of its lease. The lease ends at an unknown time after the last
    ///   instant for which the worker had written that the lease is valid.
    /// * An operation without an end, or with an unknown end, may take effect at any later time. The next operation of the
    ///   same worker gets a new process number, as in Jepsen.
    pub(crate) fn assemble(written: &[Event], object: Object, cut: Nanoseconds) -> Self {
        let mut events: Vec<Event> = written.iter().filter(|event| event.object == object).cloned().collect();
        let unknown_ends = unknown_ends(&events);
        events.retain(|event| event.stage != Stage::Until);
        events.extend(unknown_ends);
        events.retain(|event| event.time <= cut);
        events.sort_by_key(|event| event.time);
        Self { events: with_all_ends(renumbered(events)) }
    }

    /// Returns the history of these events, without a change.
    pub(crate) fn new(events: Vec<Event>) -> Self {
        Self { events }
    }

    pub(crate) fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns the first events of the history. Operations without an end among these events have an unknown end.
    pub(crate) fn prefix(&self, length: usize) -> Self {
        Self { events: with_all_ends(self.events[..length].to_vec()) }
    }

    /// Returns the history in the form of Jepsen: one map of EDN in each line.
    pub(crate) fn to_edn(&self) -> String {
        self.events.iter().enumerate().fold(String::new(), |mut text, (index, event)| {
            writeln!(text, "{}", event.with_index(index)).ok();
            text
        })
    }

    /// Reads a history in the form of Jepsen.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let events = text.lines().filter(|line| !line.trim().is_empty()).map(Event::parse);
        Ok(Self { events: events.collect::<Result<_, _>>()? })
    }

    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("no history: {}", path.display()))
    }
}

/// Returns the begins of the ends that killed workers could not write.
fn unknown_ends(events: &[Event]) -> Vec<Event> {
    let mut valid_until: BTreeMap<i64, &Event> = BTreeMap::new();
    let mut ended: BTreeSet<i64> = BTreeSet::new();
    for event in events {
        let Some(lease) = event.value.number() else { continue };
        if event.stage == Stage::Until {
            let latest = valid_until.entry(lease).or_insert(event);
            if latest.time < event.time {
                *latest = event;
            }
        } else if event.stage == Stage::Invoke && ENDS_OF_LEASES.contains(&event.function.as_str()) {
            ended.insert(lease);
        }
    }
    let open = valid_until.into_iter().filter(|(lease, _)| !ended.contains(lease));
    open.map(|(lease, until)| Event {
        stage: Stage::Invoke,
        function: RELEASE.to_owned(),
        value: Value::Number(lease),
        ..until.clone()
    })
    .collect()
}

/// Gives the processes small numbers. A process gets a new number after an operation with an
/// unknown end.
fn renumbered(mut events: Vec<Event>) -> Vec<Event> {
    let mut numbers: BTreeMap<i64, i64> = BTreeMap::new();
    let mut next = 0;
    for event in &mut events {
        let written = event.process;
        event.process = *numbers.entry(written).or_insert_with(|| {
            next += 1;
            next - 1
        });
        if event.stage == Stage::Info {
            numbers.remove(&written);
        }
    }
    events
}

/// Adds an unknown end to each operation without an end.
fn with_all_ends(mut events: Vec<Event>) -> Vec<Event> {
    let mut open: BTreeMap<i64, Event> = BTreeMap::new();
    for event in &events {
        if event.stage == Stage::Invoke {
            open.insert(event.process, event.clone());
        } else {
            open.remove(&event.process);
        }
    }
    let last = events.last().map_or(0, |event| event.time);
    events.extend(open.into_values().map(|begin| Event { stage: Stage::Info, time: last, ..begin }));
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(lines: &[&str]) -> Vec<Event> {
        lines.iter().map(|line| Event::parse(line).unwrap()).collect()
    }

    fn assemble(lines: &[&str], cut: Nanoseconds) -> History {
        History::assemble(&written(lines), Object::Leases, cut)
    }

    /// Returns the process, the type, the name and the time of each event.
    fn summary(history: &History) -> Vec<String> {
        let events = history.events().iter();
        events.map(|e| format!("{} {:?} {} {}", e.process, e.stage, e.function, e.time)).collect()
    }

    const ACQUIRED: [&str; 4] = [
        "{:object :leases, :process 7, :type :invoke, :f :acquire, :value nil, :time 10}",
        "{:object :leases, :process 7, :type :ok, :f :acquire, :value 1, :time 20}",
        "{:object :leases, :process 7, :type :until, :f :release, :value 1, :time 500}",
        "{:object :leases, :process 7, :type :until, :f :release, :value 1, :time 600}",
    ];

    #[test]
    fn a_history_is_written_as_edn_and_read_again() {
        let history = assemble(&ACQUIRED, 100);
        let edn = "{:index 0, :process 0, :type :invoke, :f :acquire, :value nil, :time 10, :object :leases}\n\
                   {:index 1, :process 0, :type :ok, :f :acquire, :value 1, :time 20, :object :leases}\n";
        assert_eq!(history.to_edn(), edn);
        assert_eq!(History::parse(edn).unwrap().events(), history.events());
    }

    #[test]
    fn the_lease_of_a_killed_worker_ends_at_an_unknown_time_after_its_last_valid_instant() {
        let history = assemble(&ACQUIRED, 1000);
        let expected =
            ["0 Invoke acquire 10", "0 Ok acquire 20", "0 Invoke release 600", "0 Info release 600"];
        assert_eq!(summary(&history), expected);
    }

    #[test]
    fn a_released_lease_has_one_end() {
        let release = [
            "{:object :leases, :process 7, :type :invoke, :f :release, :value 1, :time 30}",
            "{:object :leases, :process 7, :type :ok, :f :release, :value 1, :time 40}",
        ];
        let history = assemble(&[&ACQUIRED[..], &release].concat(), 1000);
        let expected = ["0 Invoke acquire 10", "0 Ok acquire 20", "0 Invoke release 30", "0 Ok release 40"];
        assert_eq!(summary(&history), expected);
    }

    #[test]
    fn after_an_unknown_end_a_process_has_another_number() {
        let history = assemble(
            &[
                "{:object :leases, :process 7, :type :invoke, :f :redeem, :value 1, :time 10}",
                "{:object :leases, :process 7, :type :info, :f :redeem, :value nil, :time 20}",
                "{:object :leases, :process 7, :type :invoke, :f :redeem, :value 2, :time 30}",
                "{:object :leases, :process 8, :type :invoke, :f :redeem, :value 3, :time 5}",
            ],
            1000,
        );
        let expected = [
            "0 Invoke redeem 5",
            "1 Invoke redeem 10",
            "1 Info redeem 20",
            "2 Invoke redeem 30",
            "0 Info redeem 30",
            "2 Info redeem 30",
        ];
        assert_eq!(summary(&history), expected);
    }

    #[test]
    fn a_line_that_is_no_event_is_an_error_with_the_line() {
        for line in ["{:process 1", "{:process 1}", "[1 2]"] {
            let error = format!("{:#}", Event::parse(line).unwrap_err());
            assert!(error.contains(line), "{error}");
        }
    }
}
