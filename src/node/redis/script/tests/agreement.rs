//! A comparison of the Lua script on a real server with the pure node (`node/state`). Random steps
//! run on both, and answers, notices and data must be equal.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use proptest::{collection::vec, prelude::*, sample, test_runner::TestRunner};
use redis::{Cmd, Connection, PushKind, Value};

use self::{
    equality::{contents, is_near, is_same_answer},
    steps::{
        Draft, DraftKind, DraftRecord, Number, TestStep, Topic, full_queue, readers, registration, step,
    },
};
use crate::{
    node::{
        Abstention, Answer, CountPermits, Enqueue, ForceUnlock, Holder, HolderInfo, Init, Inspect,
        InspectAnswer, InspectDetails, Latch, LatchInfo, List, Lock, NewNodes, Observe, ObserveAnswer,
        Operation, Proclaim, Proclamation, Queued, QuorumParameters, Reconfigure, RecordReplacements,
        RecordStep, Register, Renew, Resources, RestartGuard, Tombstone, Transfer, Unlock, Vacant, Withdraw,
        WriteBack, names,
        operation::{
            ListPage,
            samples::{lease_id, parameters, resource},
        },
        redis::{script::tests::server::Server, stamp::Stamp},
        state::{
            Counter, HeldKey, LARGEST_COUNTER, LeaderRecord, NodeMetadata, NodeState, NodeTime, Outcome,
            PermitCount, Quarantine, QueueEntry,
        },
    },
    values::{Fingerprint, NodeError, Resource},
};

mod equality;
mod steps;

/// `a` and `{a}` share their derived names.
const RESOURCES: [&str; 7] = ["a", "b", "{a}", "x{y", "z}", "n\nl", "0\0"];
/// The lease ids. `u:1` has neither the form of this crate nor that of Redisson.
const LEASE_IDS: [&str; 3] = ["u:1", "a-b-c-d-e:2", "me/a-b-c-d-e:3"];
/// The waiters. Two of them are readers.
const WAITERS: [&str; 4] = ["w:1", "w:2:shared", "w:3:shared", "w:4"];

/// The user that may publish on no channel.
const MUTE: &str = "mute";

/// A hand-over that is long enough for no mark to expire within a run.
const HAND_OVER: Duration = Duration::from_secs(15);

/// The maximum difference between times of the server and of the pure node, in milliseconds. The
/// pure node executes a call at the server's time from directly before the call.
const TOLERANCE: u64 = 200;

/// The largest number of tries of a case. A failed case is tried again if the server took more than a quarter of the
/// tolerance for a step.
const MAX_TRIES: usize = 20;

/// The server and the pure node, in equal states.
struct NodePair<'a> {
    server: &'a mut Server,
    /// The connection that receives the notices.
    listener: &'a mut Connection,
    /// The channels to which `listener` is subscribed.
    subscribed: BTreeSet<Vec<u8>>,
    /// Whether the user may publish on no channel.
    is_mute: bool,
    state: NodeState,
    /// The last vote.
    last_vote: u64,
    /// The number of executed steps.
    steps: u64,
    /// Whether the server took too long for a step, so that the times of the two nodes may differ by
    /// more than the tolerance.
    is_delayed: bool,
}

impl NodePair<'_> {
    fn number(&self, number: &Number) -> u64 {
        match number {
            Number::Exactly(number) => *number,
            Number::NearLast(less) => (self.last_vote + 2).saturating_sub(*less),
        }
    }

    fn operation(&self, draft: &Draft, index: u64) -> Operation {
        let mut named: Vec<(Resource, bool)> =
            draft.resources.iter().map(|name| resource(name)).zip(draft.shared).collect();
        named.sort();
        let first = named[0].0.clone();
        let resources: Resources = named.into_iter().collect();
        let lease_id = lease_id(draft.lease_id);
        // The ttls of one run differ by more than the tolerance, so both nodes agree on their
        // order.
        let ttl = Duration::from_millis(draft.ttl * 20_000 + (self.steps * 4 + index) * 2 * TOLERANCE);
        match &draft.kind {
            DraftKind::Lock { hint, ignores_queue, will_not_wait } => {
                let (hint, ignores_queue, will_not_wait) =
                    (self.number(hint), *ignores_queue, *will_not_wait);
                Operation::Lock(Lock { resources, lease_id, ttl, hint, ignores_queue, will_not_wait })
            }
            DraftKind::WriteBack { token } => {
                Operation::WriteBack(WriteBack { resources, lease_id, token: self.number(token) })
            }
            DraftKind::Renew { holds, token, may_have_waiters } => {
                let (holds, token) = (*holds, self.number(token));
                let (extends, may_have_waiters) = (true, *may_have_waiters);
                Operation::Renew(Renew { resources, lease_id, holds, ttl, extends, token, may_have_waiters })
            }
            DraftKind::Unlock { notify, tombstone, has_waiters, rest } => Operation::Unlock(Unlock {
                resources,
                lease_id,
                notify: *notify,
                tombstone: *tombstone,
                has_waiters: *has_waiters,
                // No ttl of the run is within the tolerance of a rest.
                rest: rest.map(|rest| {
                    Duration::from_millis(rest * 5_000 + ((self.steps * 4 + index) * 2 + 1) * TOLERANCE)
                }),
            }),
            DraftKind::Enqueue { waiter, arrival, enters, enqueue_only, index } => {
                let (entry_ttl, resource, enqueue_only) =
                    (enters.then_some(ttl), index % resources.len(), *enqueue_only);
                let (waiter, arrival) = (self::lease_id(waiter), self.number(arrival));
                // `arrival` also serves as a random hint, below or above the next vote.
                let lock = Lock {
                    resources,
                    lease_id,
                    ttl,
                    hint: arrival,
                    ignores_queue: true,
                    will_not_wait: false,
                };
                Operation::Enqueue(Enqueue { lock, resource, waiter, arrival, entry_ttl, enqueue_only })
            }
            DraftKind::Transfer { from, is_downgrade, hint, proof } => {
                let lock = Lock {
                    resources: if *is_downgrade { resources.shared() } else { resources },
                    lease_id,
                    ttl,
                    hint: self.number(hint),
                    ignores_queue: true,
                    will_not_wait: false,
                };
                // A proof of 0 is none on the wire.
                let proof = proof.as_ref().map(|proof| self.number(proof).max(1));
                Operation::Transfer(Transfer { lock, from: self::lease_id(from), proof })
            }
            DraftKind::Withdraw { waiter } => {
                Operation::Withdraw(Withdraw { resource: first, waiter: self::lease_id(waiter) })
            }
            DraftKind::ForceUnlock => Operation::ForceUnlock(ForceUnlock { resources }),
            DraftKind::Inspect { max_details } => {
                let max_details = *max_details;
                Operation::Inspect(Inspect { resource: first, max_readers: 2, max_details })
            }
            DraftKind::Proclaim { number } => {
                let value = format!("v\0\n{number}").into_bytes().into();
                let since = Duration::from_secs(*number + 1);
                let proclamation =
                    Proclamation { lease_id, term: self.last_vote, number: *number, value, since };
                Operation::Proclaim(Proclaim { resource: first, proclamation, ttl })
            }
            DraftKind::Vacant { ignores_marks } => Operation::Vacant(Vacant {
                resources: resources.iter().cloned().collect(),
                max_resources: 2,
                ignores_marks: *ignores_marks,
            }),
            DraftKind::Latch { count, is_open, arrivals } => Operation::Latch(Latch {
                latch: first,
                count: *count,
                is_open: *is_open,
                arrivals: arrivals.iter().map(|arrival| arrival.as_bytes().into()).collect(),
                ttl,
            }),
            DraftKind::CountPermits { permits } => {
                Operation::CountPermits(CountPermits { semaphore: first, permits: *permits, ttl })
            }
            DraftKind::List => Operation::List(List { cursor: 0 }),
            DraftKind::Observe => Operation::Observe(Observe { resource: first }),
            DraftKind::Register { new_nodes, is_clock_off } => {
                Operation::Register(Register { new_nodes: *new_nodes, time: self.time(*is_clock_off) })
            }
            DraftKind::Init { is_dry_run, is_clock_off } => {
                Operation::Init(Init { is_dry_run: *is_dry_run, time: self.time(*is_clock_off) })
            }
            DraftKind::Reconfigure { from, to, record } => Operation::Reconfigure(Reconfigure {
                from: Fingerprint::new(from),
                to: Fingerprint::new(to),
                record: record.map(|record| match record {
                    DraftRecord::Requires(text) => RecordStep::Requires(text.into()),
                    DraftRecord::Writes(text) => RecordStep::Writes(text.into()),
                }),
            }),
            DraftKind::RecordReplacements { from, to } => {
                let (from, to) = (Arc::from(*from), Arc::from(*to));
                Operation::RecordReplacements(RecordReplacements { from, to })
            }
        }
    }

    /// Returns the time of day of a client: the time of the last vote, or two hours later if the
    /// client's clock is off.
    fn time(&self, is_clock_off: bool) -> Duration {
        Duration::from_micros(self.last_vote) + Duration::from_secs(if is_clock_off { 7200 } else { 0 })
    }

    /// Records whether the server took too long between these two times.
    fn record_delay(&mut self, [before, after]: [NodeTime; 2]) {
        let taken = after.since_epoch().saturating_sub(before.since_epoch());
        self.is_delayed |= taken > Duration::from_millis(TOLERANCE / 4);
    }

    /// Executes operations on the pure node. Returns the next state if answers and notices equal those of the server.
    ///
    /// # Errors
    ///
    /// The answers and notices of the pure node, if they differ.
    fn predict(
        &self,
        parameters: &QuorumParameters,
        operations: &[Operation],
        server_answers: &[Answer],
        (server_channels, is_any_unpublished): (&[Vec<u8>], bool),
        now: NodeTime,
    ) -> Result<NodeState, (Vec<Answer>, Vec<String>)> {
        let mut state = self.state.clone();
        let (mut expected, mut notices, mut expects_unpublished) = (Vec::new(), Vec::new(), false);
        let is_subscribed = |channel: &Vec<u8>| self.subscribed.contains(channel);
        let listeners = |topic: &Resource| {
            (!self.is_mute).then(|| u32::from(is_subscribed(&names::notice_channel(topic))))
        };
        let mut is_same = operations.len() == server_answers.len();
        for (operation, server_answer) in operations.iter().zip(server_answers) {
            let before = state.clone();
            let Outcome { answer, notices: topics, is_any_unpublished } =
                state.apply_with_listeners(&listeners, parameters, operation, now);
            expects_unpublished |= is_any_unpublished;
            notices.extend(topics.iter().map(names::notice_channel).filter(is_subscribed));
            is_same &= is_same_answer(operation, &answer, server_answer, &state, now);
            adopt_arrival(&mut state, operation, server_answer);
            adopt_mark(&mut state, &before, operation, (&answer, server_answer), now);
            expected.push(answer);
        }
        is_same &= notices == server_channels && expects_unpublished == is_any_unpublished;
        if is_same { Ok(state) } else { Err((expected, escaped(&notices))) }
    }

    fn step(&mut self, step: &TestStep) -> Result<(), TestCaseError> {
        self.steps += 1;
        match step {
            TestStep::Call { guard, has_present_incarnation, drafts } => {
                let incarnation = if *has_present_incarnation {
                    self.server.incarnation_of_data().into()
                } else {
                    "earlier".into()
                };
                let parameters = QuorumParameters {
                    guard: *guard,
                    incarnation: Some(incarnation),
                    hand_over: HAND_OVER,
                    ..parameters()
                };
                let operations: Vec<Operation> =
                    (0..).zip(drafts).map(|(index, draft)| self.operation(draft, index)).collect();
                let (answers, times) = self.server.timed_call(&parameters, &operations);
                let [before, after] = times;
                self.record_delay(times);
                let channels = take_channels(self.listener);
                let is_any_unpublished = self.server.take_unpublished().is_some();
                let notices = (&*channels, is_any_unpublished);
                let state = self.predict(&parameters, &operations, &answers, notices, before);
                // A new second may begin between `before` and the execution. A missing counter then has another value
                // on the server, which shows in the answers or only in the data. So the later time is tried, too.
                self.state = match state {
                    Ok(state) if before.seconds() == after.seconds() || self.agrees_with(&state) => state,
                    other => self
                        .predict(&parameters, &operations, &answers, notices, after)
                        .or(other)
                        .map_err(|expected| {
                            let channels = escaped(&channels);
                            let problem = format!(
                                "{operations:#?}\nserver: {answers:#?} {channels:#?}, unpublished: \
                                 {is_any_unpublished}\nstate: {expected:#?}"
                            );
                            TestCaseError::fail(problem)
                        })?,
                };
                for answer in &answers {
                    if let (Answer::Granted { vote }, _) = answer.clone().into_parts() {
                        self.last_vote = vote;
                    }
                }
            }
            TestStep::LoseLock(name) => {
                self.server.get::<i64>(redis::cmd("PEXPIRE").arg(name).arg(0));
                self.state.set_lock(&resource(name), None);
            }
            TestStep::LoseReaders(name) => {
                self.server.get::<i64>(redis::cmd("DEL").arg(names::readers(&resource(name))));
                self.state.forget_readers(&resource(name));
            }
            TestStep::EndReader(name, reader) => {
                let (now, _) = self.server.ttls();
                let at = NodeTime::from_epoch(1);
                if self.state.end_reader(&resource(name), &lease_id(reader), at, now) {
                    let mut command = redis::cmd("ZADD");
                    command.arg(names::readers(&resource(name))).arg("XX").arg(1).arg(reader);
                    self.server.get::<i64>(&command);
                }
            }
            TestStep::LoseCounter(name) => {
                self.server.get::<i64>(redis::cmd("DEL").arg(names::counter(&resource(name))));
                self.state.set_counter(&resource(name), None);
            }
            TestStep::LoseLeader(name) => {
                let key = names::leader(&resource(name));
                self.server.get::<i64>(redis::cmd("DEL").arg(key.as_bytes()));
                self.state.forget_leader(&resource(name));
            }
            TestStep::SetCounter(name, number, has_long_ttl) => {
                let (value, seconds) = (self.number(number), if *has_long_ttl { 5000 } else { 100 });
                let mut command = redis::cmd("SET");
                command.arg(names::counter(&resource(name))).arg(value).arg("PX").arg(seconds * 1000);
                let (_, times) = self.server.timed(&command);
                self.record_delay(times);
                let expires_at = times[0] + Duration::from_secs(seconds);
                self.state.set_counter(&resource(name), Some(Counter { value, expires_at }));
            }
            TestStep::SetMetadata { minimum_token, is_ours } => {
                let minimum_token = self.number(minimum_token);
                let fingerprint = if *is_ours { parameters().fingerprint } else { Fingerprint::new("other") };
                let incarnation = self.server.incarnation_of_data().into();
                let before = self.state.metadata().map(|metadata| Arc::clone(&metadata.replacements));
                let replacements = before.unwrap_or_default();
                let metadata = NodeMetadata { incarnation, minimum_token, fingerprint, replacements };
                let mut command = redis::cmd("HSET");
                command
                    .arg(names::METADATA)
                    .arg(&["stamp", &stamp(&metadata), "incarnation", &metadata.incarnation])
                    .arg("minimum_token")
                    .arg(minimum_token);
                self.server.get::<i64>(command.arg("fingerprint").arg(metadata.fingerprint.as_str()));
                self.state.set_metadata(Some(metadata));
            }
            TestStep::LoseMetadata => {
                self.server.get::<i64>(redis::cmd("DEL").arg(names::METADATA));
                self.state.set_metadata(None);
                self.state.set_new(None);
            }
            TestStep::LoseQuarantine => {
                self.server.get::<i64>(redis::cmd("DEL").arg(names::QUARANTINE));
                self.state.set_quarantine(None);
            }
            TestStep::Listen(topic, listens) => {
                let channel = topic.channel();
                if *listens {
                    self.listen([channel]);
                } else {
                    subscribe(self.listener, redis::cmd("UNSUBSCRIBE").arg(&channel));
                    self.subscribed.remove(&channel);
                }
            }
            TestStep::Mute(is_mute) => {
                if *is_mute {
                    self.server.connect_as(MUTE);
                } else {
                    self.server.connect();
                }
                self.is_mute = *is_mute;
            }
            TestStep::WakeLongAgo(name) => {
                let name = resource(name);
                if let Some(waiter) = self.state.set_last_woken_at(&name, NodeTime::from_epoch(1)) {
                    let value = [b"1 ", waiter.as_bytes()].concat();
                    let mut command = redis::cmd("SET");
                    command.arg(names::last_woken(&name)).arg(value).arg("KEEPTTL").arg("XX");
                    self.server.get::<String>(&command);
                }
            }
            TestStep::EndEntry(name, waiter) => {
                let mut command = redis::cmd("ZADD");
                command.arg(names::entry_ttls(&resource(name))).arg("XX").arg(1).arg(waiter);
                self.server.get::<i64>(&command);
                let end = |entry: &mut QueueEntry| entry.ends = NodeTime::from_epoch(1);
                self.state.change_entry(&resource(name), &lease_id(waiter), end);
            }
            TestStep::Restart => {
                // A node detects a restart only by the incarnation in its metadata, so the step changes that
                // incarnation.
                if let Some(metadata) = self.state.metadata().cloned() {
                    let metadata = NodeMetadata { incarnation: "earlier".into(), ..metadata };
                    let mut command = redis::cmd("HSET");
                    command.arg(names::METADATA).arg(&[
                        "stamp",
                        &stamp(&metadata),
                        "incarnation",
                        &metadata.incarnation,
                    ]);
                    self.server.get::<i64>(&command);
                    self.state.set_metadata(Some(metadata));
                }
            }
        }
        let state = self.state.clone();
        self.compare(&state)
    }

    fn agrees_with(&mut self, state: &NodeState) -> bool {
        self.compare(state).is_ok()
    }

    /// Checks that the server has the keys of the state, with equal values and ttls.
    fn compare(&mut self, state: &NodeState) -> Result<(), TestCaseError> {
        let (now, ttls) = self.server.ttls();
        let expected = contents(state, now);
        let mut found = BTreeMap::new();
        for (key, ttl) in ttls {
            if key == names::METADATA.as_bytes() {
                self.compare_metadata(state)?;
                continue;
            }
            let is_string = key.starts_with(b"redisson_lock_token:")
                || key.starts_with(b"redquorum:tombstone:")
                || key.starts_with(b"redquorum:permits:")
                || key.starts_with(b"redquorum:yield_mark:")
                || key.starts_with(b"redquorum:writer_mark:")
                || key == names::DIRTY.as_bytes()
                || key == names::QUARANTINE.as_bytes();
            let value: Vec<Vec<u8>> = if key.starts_with(b"redquorum:queue:") {
                self.server.get(redis::cmd("ZRANGE").arg(&key).arg(0).arg(-1))
            } else if key.starts_with(b"redquorum:entry_ttl:") {
                self.compare_entry_ttls(state, &key, now)?
            } else if key.starts_with(b"redquorum:readers:") {
                self.compare_readers(state, &key, now)?
            } else if key.starts_with(b"redquorum:last_woken:") {
                // The value is the time of the first wake, and the waiter.
                let value: Vec<u8> = self.server.get(redis::cmd("GET").arg(&key));
                value.splitn(2, |byte| *byte == b' ').map(<[u8]>::to_vec).collect()
            } else if is_string {
                vec![self.server.get(redis::cmd("GET").arg(&key))]
            } else {
                let fields: BTreeMap<Vec<u8>, Vec<u8>> = self.server.get(redis::cmd("HGETALL").arg(&key));
                fields.into_iter().flat_map(|(field, value)| [field, value]).collect()
            };
            prop_assert!(ttl >= 0, "{} has no ttl", key.escape_ascii());
            found.insert(key, (value, Duration::from_millis(ttl.unsigned_abs())));
        }
        // The script checks for tombstones, queues and marks only if this key exists, so the key
        // must outlive all of these.
        let dirty_ttl = found.remove(names::DIRTY.as_bytes()).map(|(_, ttl)| ttl);
        let dirty_prefixes = [
            &b"redquorum:tombstone:"[..],
            b"redquorum:queue:",
            b"redquorum:yield_mark:",
            b"redquorum:writer_mark:",
        ];
        let is_dirty = |key: &[u8]| dirty_prefixes.iter().any(|prefix| key.starts_with(prefix));
        let longest = found.iter().filter(|(key, _)| is_dirty(key)).map(|(_, (_, ttl))| *ttl).max();
        prop_assert!(dirty_ttl >= longest, "{dirty_ttl:?} {longest:?}");
        prop_assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        for (key, (value, ttl)) in &found {
            let (expected, remaining) = &expected[key];
            let at =
                |value: &Vec<Vec<u8>>| str::from_utf8(&value[0]).unwrap().parse().map(Duration::from_millis);
            if key.starts_with(b"redquorum:last_woken:") {
                prop_assert_eq!(value.get(1), expected.get(1), "{}", key.escape_ascii());
                prop_assert!(
                    is_near(at(value).unwrap(), at(expected).unwrap()),
                    "the times of the wake differ"
                );
                // The pure node has no ttl for this record, which lasts until the woken waiter
                // leaves.
                prop_assert!(*ttl <= parameters().max_ttl);
                continue;
            }
            if key == names::QUARANTINE.as_bytes() {
                prop_assert!(
                    is_near(at(value).unwrap(), at(expected).unwrap()),
                    "the times from which renewals count differ"
                );
            } else if expected.len() == 1 {
                // The pure node has forgotten the readers of this key, and with them phase and
                // epoch.
                prop_assert_eq!(&value[..1], expected, "{}", key.escape_ascii());
            } else {
                prop_assert_eq!(value, expected, "{}", key.escape_ascii());
            }
            prop_assert!(is_near(*ttl, *remaining), "{}: {ttl:?}, {remaining:?}", key.escape_ascii());
        }
        Ok(())
    }
}

impl NodePair<'_> {
    fn listen(&mut self, channels: impl IntoIterator<Item = Vec<u8>>) {
        let mut command = redis::cmd("SUBSCRIBE");
        for channel in channels {
            command.arg(&channel);
            self.subscribed.insert(channel);
        }
        subscribe(self.listener, &command);
    }

    /// Checks that each queue entry ends at about the time in the state, and returns the waiters.
    fn compare_entry_ttls(
        &mut self,
        state: &NodeState,
        key: &[u8],
        now: NodeTime,
    ) -> Result<Vec<Vec<u8>>, TestCaseError> {
        let entry_ttls = self.ends(key);
        let name = RESOURCES.map(resource).into_iter().find(|name| names::entry_ttls(name) == key);
        let queue = name.as_ref().and_then(|name| state.wait_queue(name, now));
        for entry in queue.into_iter().flat_map(|queue| queue.entries()) {
            let ends = entry_ttls.get(entry.waiter.as_bytes()).copied().map(Duration::from_millis);
            prop_assert!(
                ends.is_some_and(|ends| is_near(ends, entry.ends.since_epoch())),
                "{entry:?}: {ends:?}"
            );
        }
        Ok(entry_ttls.into_keys().collect())
    }

    /// Checks that the lease of each reader ends at about the time in the state, and returns the
    /// readers.
    fn compare_readers(
        &mut self,
        state: &NodeState,
        key: &[u8],
        now: NodeTime,
    ) -> Result<Vec<Vec<u8>>, TestCaseError> {
        let ends = self.ends(key);
        let name = RESOURCES.map(resource).into_iter().find(|name| names::readers(name) == key);
        let readers = name.as_ref().and_then(|name| state.remembered_readers(name, now));
        for (reader, expected) in readers.into_iter().flat_map(|readers| &readers.ends) {
            let end = ends.get(reader.as_bytes()).copied().map(Duration::from_millis);
            prop_assert!(
                end.is_some_and(|end| is_near(end, expected.since_epoch())),
                "{reader}: {expected:?}, {end:?}"
            );
        }
        Ok(ends.into_keys().collect())
    }

    /// Returns the members of a sorted set with their scores, which are times in milliseconds.
    fn ends(&mut self, key: &[u8]) -> BTreeMap<Vec<u8>, u64> {
        let ends: Vec<(Vec<u8>, f64)> =
            self.server.get(redis::cmd("ZRANGE").arg(key).arg(0).arg(-1).arg("WITHSCORES"));
        ends.into_iter().map(|(member, end)| (member, end as u64)).collect()
    }

    fn compare_metadata(&mut self, state: &NodeState) -> Result<(), TestCaseError> {
        let found: BTreeMap<String, String> = self.server.get(redis::cmd("HGETALL").arg(names::METADATA));
        let is_new = state.is_new().map(|is_new| u8::from(is_new).to_string());
        prop_assert_eq!(found.get("new"), is_new.as_ref());
        let Some(metadata) = state.metadata() else {
            // Before the first registration, the key may have only the field `new`.
            let has_only_new = found.len() == 1 && is_new.is_some();
            if has_only_new {
                return Ok(());
            }
            return Err(TestCaseError::fail("the server has metadata, and the pure node has none"));
        };
        let NodeMetadata { incarnation, minimum_token, fingerprint, replacements } = metadata;
        let expected = [
            ("stamp", stamp(metadata)),
            ("incarnation", incarnation.to_string()),
            ("fingerprint", fingerprint.to_string()),
        ];
        for (field, value) in expected {
            prop_assert_eq!(&found[field], &value);
        }
        prop_assert_eq!(found.get("replacements").map_or("", String::as_str), &**replacements);
        prop_assert_eq!(found["minimum_token"].parse().ok(), Some(*minimum_token));
        Ok(())
    }
}

/// Returns the stamp of the incarnation and the fingerprint in the metadata.
fn stamp(NodeMetadata { incarnation, fingerprint, .. }: &NodeMetadata) -> String {
    let (incarnation, fingerprint) = (Some(Arc::clone(incarnation)), fingerprint.clone());
    Stamp::of(&QuorumParameters { incarnation, fingerprint, ..parameters() }).to_string()
}

/// Changes the subscriptions of a connection. The server confirms by pushes, which are dropped
/// together with all earlier pushes.
fn subscribe(listener: &mut Connection, command: &Cmd) {
    listener.send_packed_command(&command.get_packed_command()).unwrap();
    take_channels(listener);
}

/// Returns the channels of the notices since the last call, in order.
fn take_channels(listener: &mut Connection) -> Vec<Vec<u8>> {
    listener.send_packed_command(&redis::cmd("PING").get_packed_command()).unwrap();
    let mut channels = Vec::new();
    loop {
        match listener.recv_response().unwrap() {
            Value::Push { kind: PushKind::Message, data } => {
                let Some(Value::BulkString(channel)) = data.into_iter().next() else { panic!("no channel") };
                channels.push(channel);
            }
            Value::Push { .. } => {}
            _ => return channels,
        }
    }
}

/// Returns channels as text for messages.
fn escaped(channels: &[Vec<u8>]) -> Vec<String> {
    channels.iter().map(|channel| channel.escape_ascii().to_string()).collect()
}

/// Moves the yield mark of the pure node to the resource that the server names. The two nodes may
/// name different resources if several holders have about equal ttls.
fn adopt_mark(
    state: &mut NodeState,
    before: &NodeState,
    operation: &Operation,
    answers: (&Answer, &Answer),
    now: NodeTime,
) {
    let (
        Operation::Lock(Lock { resources, ignores_queue: false, .. }),
        (Answer::Held(pure), Answer::Held(server)),
    ) = (operation, answers)
    else {
        return;
    };
    if pure.resource != server.resource {
        let [pure, server] = [pure, server].map(|holder| &resources[holder.resource]);
        let mark = state.yield_mark(pure, now);
        state.put_yield_mark(pure, before.yield_mark(pure, now));
        state.put_yield_mark(server, mark);
    }
}

/// Copies an arrival from the server to the pure node, which executed the operation at a slightly
/// earlier time.
fn adopt_arrival(state: &mut NodeState, operation: &Operation, server_answer: &Answer) {
    if let (
        Operation::Enqueue(Enqueue { lock, resource, waiter, entry_ttl: Some(_), .. }),
        Answer::Queued(queued),
    ) = (operation, server_answer)
    {
        state.change_entry(&lock.resources[*resource], waiter, |entry| entry.arrival = queued.arrival);
    }
}

#[test]
fn the_script_and_the_pure_node_give_equal_answers_notices_and_data() {
    let server = RefCell::new(Server::start());
    let listener = RefCell::new(server.borrow().listen(std::iter::empty()));
    server.borrow_mut().run(&format!("ACL SETUSER {MUTE} on >x ~* resetchannels +@all"));
    let config = ProptestConfig {
        cases: 1000,
        max_shrink_iters: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    // Only a registered node takes the fast paths of the script, and random steps rarely leave a
    // node registered for long.
    let registered = TestStep::Call {
        guard: RestartGuard::Off,
        has_present_incarnation: true,
        drafts: vec![registration()],
    };
    let start =
        (prop::bool::weighted(0.8), prop_oneof![2 => Just(Vec::new()), 1 => full_queue(), 2 => readers()]);
    let steps = (start, vec(step(), 1..22)).prop_map(move |((is_registered, beginning), steps)| {
        let registration = is_registered.then(|| registered.clone());
        registration.into_iter().chain(beginning).chain(steps).collect::<Vec<_>>()
    });
    // Most topics have subscribers, because a wake without subscribers removes the waiter.
    let topics: Vec<Topic> = Topic::all().collect();
    let subscriptions = vec(prop::bool::weighted(0.85), topics.len());
    let result = TestRunner::new(config).run(&(subscriptions, steps), |(subscriptions, steps)| {
        let (mut server, mut listener) = (server.borrow_mut(), listener.borrow_mut());
        let all = topics.iter().map(Topic::channel).collect::<Vec<_>>();
        let mut attempt = || {
            subscribe(&mut listener, redis::cmd("UNSUBSCRIBE").arg(&all));
            server.connect();
            server.run("FLUSHALL");
            let last_vote = server.seconds() * 1_000_000;
            let state = NodeState::new(&server.incarnation_of_data());
            let (server, listener) = (&mut *server, &mut *listener);
            let subscribed = BTreeSet::new();
            let mut pair = NodePair {
                server,
                listener,
                subscribed,
                is_mute: false,
                state,
                last_vote,
                steps: 0,
                is_delayed: false,
            };
            let channel = |(topic, is_subscribed): (&Topic, bool)| is_subscribed.then(|| topic.channel());
            pair.listen(topics.iter().zip(subscriptions.iter().copied()).filter_map(channel));
            let result = steps.iter().try_for_each(|step| pair.step(step));
            (result, pair.is_delayed)
        };
        let mut outcome = attempt();
        for _ in 1..MAX_TRIES {
            if let (Err(_), true) = outcome {
                outcome = attempt();
            }
        }
        outcome.0
    });
    if let Err(problem) = result {
        panic!("{problem}");
    }
}
