//! One table of examples for every node that executes operations: the pure node and the script on a server.
//!
//! The file `table.txt` has the examples, separated by empty lines. An example is a sentence, and below the sentence
//! the steps with the expected answers. A step after `unchanged` must change nothing.
//!
//! ```text
//! set counter RESOURCE NUMBER | set minimum TOKEN | set quorum FINGERPRINT
//! lose RESOURCE                deletes the key of the resource
//! wait MILLISECONDS
//! lock RESOURCES LEASE_ID TTL [HINT]
//! take | try_take              RESOURCES LEASE_ID TTL
//! renew                        RESOURCES LEASE_ID HOLDS TTL TOKEN
//! write_back                   RESOURCES LEASE_ID TOKEN
//! unlock                       RESOURCES LEASE_ID     with a notice
//! roll_back                    RESOURCES LEASE_ID     without a notice
//! unlock_late                  RESOURCES LEASE_ID     without a notice; with a tombstone if a key is missing
//! bury                         RESOURCES LEASE_ID     with a notice and a tombstone
//! unlock_rest                  RESOURCES LEASE_ID REST     with a notice, and the rest of a minimum hold
//! downgrade                    RESOURCES READER WRITER TTL
//! transfer                     RESOURCES TO FROM TTL HINT [PROOF]
//! enqueue RESOURCES WAITER TTL | arrive LATCH COUNT ARRIVAL | proclaim RESOURCE LEASE_ID VALUE TTL
//! force_unlock RESOURCES | inspect RESOURCE
//! counter | lease_id | holds | ttl | readers   RESOURCE     the present value on the node
//! notices                      the channels of the notices since the last `notices`
//! mute                         takes from the client the permission to publish notices
//! unpublished                  whether a notice could not be published since the last `unpublished`
//! ```
//!
//! Commas separate resources, and a `*` precedes a shared resource. A time in an answer ends with `ms`. The real
//! time may be shorter than the expected time, by at most the time that the example has taken until then.

use std::time::Duration;

use crate::{
    node::{
        Answer, Operation, names,
        operation::samples::{
            arrive, downgrade, enqueue, force_unlock, inspect, lock, not_waiting, proclaim, proclamation,
            renew, resource, take, transfer, unlock, unlock_late, unlock_with_rest, write_back,
        },
    },
    values::NodeError,
};

/// A node on which the examples run.
pub(crate) trait ExampleNode {
    fn ask(&mut self, operation: &Operation) -> Answer;

    fn set_counter(&mut self, name: &str, value: u64);

    /// Replaces the metadata by metadata of this quorum.
    fn set_metadata(&mut self, minimum_token: u64, fingerprint: &str);

    /// Deletes the key of a resource.
    fn lose(&mut self, name: &str);

    /// Advances the clock of the node, so that keys expire.
    fn wait(&mut self, milliseconds: u64);

    fn counter(&mut self, name: &str) -> Option<u64>;

    fn lease_id(&mut self, name: &str) -> Option<String>;

    fn holds(&mut self, name: &str) -> Option<u32>;

    fn ttl(&mut self, name: &str) -> Option<Duration>;

    /// Returns phase and epoch as `7:8`, and the readers in the order of their names.
    fn readers(&mut self, name: &str) -> Option<(String, Vec<String>)>;

    /// Returns the channels of the notices since the last call.
    fn take_channels(&mut self) -> Vec<Vec<u8>>;

    /// Takes from the client the permission to publish notices.
    fn mute(&mut self);

    /// Whether a notice was not published since the last call.
    fn take_unpublished(&mut self) -> bool;

    /// Returns all data of the node as text, without the key of a dirty node, which only servers have.
    fn contents(&mut self) -> String;

    /// Returns the real time that has passed for the node, without the times of [`wait`](Self::wait).
    fn elapsed(&mut self) -> Duration;
}

/// Runs all examples, each on a node of its own, and shows every step that fails.
pub(crate) fn run<N: ExampleNode>(mut new_node: impl FnMut() -> N) {
    let mut problems = Vec::new();
    let examples = include_str!("table.txt").split("\n\n");
    for example in examples {
        let (sentence, steps) = example.trim().split_once('\n').expect("an example has steps");
        let mut node = new_node();
        for step in steps.lines() {
            if let Err(problem) = run_step(&mut node, step) {
                problems.push(format!("{sentence}: {step}: {problem}"));
                break;
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn run_step(node: &mut impl ExampleNode, step: &str) -> Result<(), String> {
    let (asked, expected) =
        step.split_once(" -> ").map_or((step, None), |(asked, expected)| (asked, Some(expected)));
    let (is_unchanged, asked) = match asked.strip_prefix("unchanged ") {
        Some(asked) => (true, asked),
        None => (false, asked),
    };
    let before = is_unchanged.then(|| node.contents());
    let found = execute(node, &asked.split(' ').collect::<Vec<_>>());
    let elapsed = node.elapsed();
    match (&found, expected) {
        (None, None) => {}
        (Some(found), Some(expected)) if is_same(found, expected, elapsed) => {}
        _ => return Err(format!("{found:?}")),
    }
    match before {
        Some(before) if node.contents() != before => Err(format!("changed {before} to {}", node.contents())),
        _ => Ok(()),
    }
}

/// Whether the words are the same, except for times, which may be shorter by at most the elapsed time.
fn is_same(found: &str, expected: &str, elapsed: Duration) -> bool {
    let milliseconds = |word: &str| word.strip_suffix("ms").and_then(|number| number.parse::<u128>().ok());
    let is_same_word = |(found, expected): (&str, &str)| match (milliseconds(found), milliseconds(expected)) {
        (Some(found), Some(expected)) => {
            found <= expected && expected.saturating_sub(elapsed.as_millis()) <= found
        }
        _ => found == expected,
    };
    found.split(' ').count() == expected.split(' ').count()
        && found.split(' ').zip(expected.split(' ')).all(is_same_word)
}

/// Executes a step. Returns the result in words; `None` for a step that only prepares the node.
fn execute(node: &mut impl ExampleNode, words: &[&str]) -> Option<String> {
    let number = |word: &str| word.parse().expect("a number");
    let shown = match *words {
        ["set", "counter", name, value] => {
            node.set_counter(name, number(value));
            return None;
        }
        ["set", "minimum", token] => {
            node.set_metadata(number(token), "test");
            return None;
        }
        ["set", "quorum", fingerprint] => {
            node.set_metadata(0, fingerprint);
            return None;
        }
        ["lose", name] => {
            node.lose(name);
            return None;
        }
        ["wait", milliseconds] => {
            node.wait(number(milliseconds));
            return None;
        }
        ["mute"] => {
            node.mute();
            return None;
        }
        ["unpublished"] => Some(node.take_unpublished().to_string()),
        ["counter", name] => node.counter(name).map(|counter| counter.to_string()),
        ["lease_id", name] => node.lease_id(name),
        ["holds", name] => node.holds(name).map(|holds| holds.to_string()),
        ["ttl", name] => node.ttl(name).map(|ttl| format!("{}ms", ttl.as_millis())),
        ["readers", name] => {
            node.readers(name).map(|(votes, readers)| [vec![votes], readers].concat().join(" "))
        }
        ["notices"] => {
            let channels = node.take_channels();
            let shown: Vec<_> = channels.iter().map(|channel| topic(channel)).collect();
            (!shown.is_empty()).then(|| shown.join(" "))
        }
        _ => Some(shown_answer(&node.ask(&operation(words)))),
    };
    Some(shown.unwrap_or_else(|| "-".to_owned()))
}

/// Returns the short form of a channel.
fn topic(channel: &[u8]) -> String {
    let of_release = |name: &&str| names::notice_channel(&resource(name)) == channel;
    match ["a", "b", "c"].iter().find(|name| of_release(name)) {
        Some(name) => (*name).to_owned(),
        None => channel.escape_ascii().to_string(),
    }
}

fn operation(words: &[&str]) -> Operation {
    let number = |word: &str| word.parse().expect("a number");
    let [kind, names, rest @ ..] = words else { panic!("no operation: {words:?}") };
    let names = &*names.replace(',', " ");
    match (*kind, rest) {
        ("lock", [by, ttl]) => lock(names, by, number(ttl), 0),
        ("lock", [by, ttl, hint]) => lock(names, by, number(ttl), number(hint)),
        ("take", [by, ttl]) => take(names, by, number(ttl)),
        ("try_take", [by, ttl]) => not_waiting(take(names, by, number(ttl))),
        ("renew", [by, holds, ttl, token]) => {
            renew(names, by, holds.parse().expect("a number"), number(ttl), number(token))
        }
        ("write_back", [by, token]) => write_back(names, by, number(token)),
        ("unlock", [by]) => unlock(names, by, true, false),
        ("roll_back", [by]) => unlock(names, by, false, false),
        ("unlock_late", [by]) => unlock_late(names, by, false),
        ("bury", [by]) => unlock(names, by, true, true),
        ("unlock_rest", [by, rest]) => unlock_with_rest(names, by, number(rest)),
        ("downgrade", [reader, writer, ttl]) => downgrade(names, reader, writer, number(ttl)),
        ("transfer", [to, from, ttl, hint]) => transfer(names, to, from, number(ttl), number(hint), 0),
        ("transfer", [to, from, ttl, hint, proof]) => {
            transfer(names, to, from, number(ttl), number(hint), number(proof))
        }
        ("enqueue", [waiter, ttl]) => enqueue(names, waiter, waiter, 0, number(ttl)),
        ("arrive", [count, arrival]) => arrive(names, count.parse().expect("a number"), arrival),
        ("proclaim", [leader, value, ttl]) => proclaim(names, proclamation(leader, 1, 1, value), number(ttl)),
        ("force_unlock", []) => force_unlock(names),
        ("inspect", []) => inspect(names),
        _ => panic!("no operation: {words:?}"),
    }
}

fn shown_answer(answer: &Answer) -> String {
    match answer {
        Answer::Granted { vote } => format!("granted {vote}"),
        Answer::Held(held) => {
            let lease_id = held.lease_id.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
            format!("held {} {lease_id} {}ms {}", held.resource, held.remaining.as_millis(), held.counter)
        }
        Answer::Tombstone => "tombstone".to_owned(),
        Answer::WrongQuorum { fingerprint } => format!("wrong_quorum {fingerprint}"),
        Answer::WrittenBack => "written_back".to_owned(),
        Answer::NotWrittenBack { counter } => format!("not_written_back {counter}"),
        Answer::Renewed { proves } => format!("renewed {proves}"),
        Answer::Unlocked { deleted } => format!("unlocked {deleted}"),
        Answer::WithWaiters(answer) => format!("with_waiters {}", shown_answer(answer)),
        Answer::Queued(queued) => format!("queued {} {}", queued.resource, queued.rank),
        Answer::Proclaimed => "proclaimed".to_owned(),
        Answer::Open => "open".to_owned(),
        Answer::Inspected(_) => "inspected".to_owned(),
        Answer::Error(NodeError::InvalidCounter(counter)) => format!("invalid_counter {counter}"),
        other => format!("{other:?}"),
    }
}
