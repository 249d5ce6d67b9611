//! A comparison of the script with the pure node: equal operations give equal answers, notices and data.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use proptest::{collection::vec, prelude::*, sample, test_runner::TestRunner};
use redis::{Cmd, Connection, PushKind, Value};

use self::{
    sameness::{contents, is_near, is_same_answer},
    steps::{Draft, Number, Question, TestStep, Topic, crowd, readers, registration, step},
};
use crate::{
    node::{
        Abstention, Answer, Downgrade, Enqueue, ForceUnlock, Holder, HolderInfo, Init, Inspect,
        InspectAnswer, Latch, List, Lock, NewNodes, Observe, ObserveAnswer, Operation, Proclaim,
        Proclamation, Queued, QuorumParameters, Reconfigure, Register, Renew, Resources, RestartGuard,
        Tombstone, Unlock, Vacant, Withdraw, WriteBack, names,
        operation::{
            ListPage,
            samples::{owner, parameters, resource},
        },
        redis::{script::tests::server::Server, stamp::Stamp},
        state::{
            Counter, HeldKey, LARGEST_COUNTER, LeaderRecord, NodeMetadata, NodeState, NodeTime, Outcome,
            Quarantine, QueueEntry,
        },
    },
    values::{Fingerprint, NodeError, Resource},
};

mod sameness;
mod steps;

/// `a` and `{a}` share their derived names.
const RESOURCES: [&str; 7] = ["a", "b", "{a}", "x{y", "z}", "n\nl", "0\0"];
/// The owners, one of which has not the form of a lease id.
const OWNERS: [&str; 3] = ["u:1", "a-b-c-d-e:2", "me/a-b-c-d-e:3"];
/// The waiters, half of which are readers.
const WAITERS: [&str; 4] = ["w:1", "w:2:shared", "w:3:shared", "w:4"];

/// A hand-over that is long enough for no mark to expire within a run.
const HAND_OVER: Duration = Duration::from_secs(15);

/// The maximum difference between a ttl of the server and of the pure node, in milliseconds. The pure node
/// gets the server's time from directly before a call.
const TOLERANCE: u64 = 200;

/// A case that fails is tried again if the server was stopped within a step for a part of the tolerance.
const TRIES: usize = 20;

/// Both nodes, and their last answers.
struct Pair<'a> {
    server: &'a mut Server,
    ear: &'a mut Connection,
    /// The channels with subscribers.
    listening: BTreeSet<Vec<u8>>,
    state: NodeState,
    last: u64,
    steps: u64,
    /// Whether the server took so long for a step that the times of the two nodes differ.
    is_delayed: bool,
}

impl Pair<'_> {
    fn number(&self, number: &Number) -> u64 {
        match number {
            Number::Exactly(number) => *number,
            Number::NearLast(less) => (self.last + 2).saturating_sub(*less),
        }
    }

    fn operation(&self, draft: &Draft, index: u64) -> Operation {
        let mut each: Vec<(Resource, bool)> =
            draft.resources.iter().map(|name| resource(name)).zip(draft.shared).collect();
        each.sort();
        let first = each[0].0.clone();
        let resources: Resources = each.into_iter().collect();
        let owner = owner(draft.owner);
        // The ttls of one run differ by more than the tolerance, so their order is certain.
        let ttl = Duration::from_millis(draft.ttl * 20_000 + (self.steps * 4 + index) * 2 * TOLERANCE);
        match &draft.question {
            Question::Lock { hint, has_turn, gives_up } => {
                let (hint, has_turn, gives_up) = (self.number(hint), *has_turn, *gives_up);
                Operation::Lock(Lock { resources, owner, ttl, hint, has_turn, gives_up })
            }
            Question::WriteBack { token } => {
                Operation::WriteBack(WriteBack { resources, owner, token: self.number(token) })
            }
            Question::Renew { holds, token, may_have_waiters } => {
                let (holds, token) = (*holds, self.number(token));
                let may_have_waiters = *may_have_waiters;
                Operation::Renew(Renew { resources, owner, holds, ttl, token, may_have_waiters })
            }
            Question::Unlock { notify, tombstone, has_waiters } => Operation::Unlock(Unlock {
                resources,
                owner,
                notify: *notify,
                tombstone: *tombstone,
                has_waiters: *has_waiters,
            }),
            Question::Enqueue { waiter, arrival, enters, enqueue_only, index } => {
                let (entry_ttl, resource, enqueue_only) =
                    (enters.then_some(ttl), index % resources.len(), *enqueue_only);
                let (waiter, arrival) = (self::owner(waiter), self.number(arrival));
                // Any number will do: some are below the next vote, and some are not.
                let lock = Lock { resources, owner, ttl, hint: arrival, has_turn: true, gives_up: false };
                Operation::Enqueue(Enqueue { lock, resource, waiter, arrival, entry_ttl, enqueue_only })
            }
            Question::Downgrade { writer } => {
                let lock = Lock {
                    resources: resources.shared(),
                    owner,
                    ttl,
                    hint: 0,
                    has_turn: true,
                    gives_up: false,
                };
                Operation::Downgrade(Downgrade { lock, writer: self::owner(writer) })
            }
            Question::Withdraw { waiter } => {
                Operation::Withdraw(Withdraw { resource: first, waiter: self::owner(waiter) })
            }
            Question::ForceUnlock => Operation::ForceUnlock(ForceUnlock { resources }),
            Question::Inspect => Operation::Inspect(Inspect { resource: first, max_readers: 2 }),
            Question::Proclaim { number } => {
                let value = format!("v\0\n{number}").into_bytes().into();
                let since = Duration::from_secs(*number + 1);
                let said = Proclamation { owner, term: self.last, number: *number, value, since };
                Operation::Proclaim(Proclaim { resource: first, said, ttl })
            }
            Question::Vacant { ignores_marks } => Operation::Vacant(Vacant {
                resources: resources.iter().cloned().collect(),
                most: 2,
                ignores_marks: *ignores_marks,
            }),
            Question::Latch { count, is_open, arrivals } => Operation::Latch(Latch {
                latch: first,
                count: *count,
                is_open: *is_open,
                arrivals: arrivals.iter().map(|arrival| arrival.as_bytes().into()).collect(),
                ttl,
            }),
            Question::List => Operation::List(List { cursor: 0 }),
            Question::Observe => Operation::Observe(Observe { resource: first }),
            Question::Register { new_nodes, is_off } => {
                Operation::Register(Register { new_nodes: *new_nodes, time: self.time(*is_off) })
            }
            Question::Init { is_dry_run, is_off } => {
                Operation::Init(Init { is_dry_run: *is_dry_run, time: self.time(*is_off) })
            }
            Question::Reconfigure { from, to } => {
                Operation::Reconfigure(Reconfigure { from: Fingerprint::new(from), to: Fingerprint::new(to) })
            }
        }
    }

    /// A client's time of day, which is that of the last vote; or two hours later.
    fn time(&self, is_off: bool) -> Duration {
        Duration::from_micros(self.last) + Duration::from_secs(if is_off { 7200 } else { 0 })
    }

    fn note_delay(&mut self, [before, after]: [NodeTime; 2]) {
        let taken = after.since_epoch().saturating_sub(before.since_epoch());
        self.is_delayed |= taken > Duration::from_millis(TOLERANCE / 4);
    }

    /// Returns the next state of the pure node if its answers and notices equal the server's; else its
    /// answers and notices.
    fn predict(
        &self,
        parameters: &QuorumParameters,
        operations: &[Operation],
        said: &[Answer],
        told: &[Vec<u8>],
        now: NodeTime,
    ) -> Result<NodeState, (Vec<Answer>, Vec<String>)> {
        let mut state = self.state.clone();
        let (mut expected, mut notices) = (Vec::new(), Vec::new());
        let is_heard = |channel: &Vec<u8>| self.listening.contains(channel);
        let listeners = |topic: &Resource| u32::from(is_heard(&names::notice_channel(topic)));
        let mut is_same = operations.len() == said.len();
        for (operation, said) in operations.iter().zip(said) {
            let before = state.clone();
            let Outcome { answer, notices: topics } =
                state.apply_with_listeners(&listeners, parameters, operation, now);
            notices.extend(topics.iter().map(names::notice_channel).filter(is_heard));
            is_same &= is_same_answer(operation, &answer, said, &state, now);
            adopt_arrival(&mut state, operation, said);
            adopt_mark(&mut state, &before, operation, (&answer, said), now);
            expected.push(answer);
        }
        if is_same && notices == told { Ok(state) } else { Err((expected, shown(&notices))) }
    }

    fn step(&mut self, step: &TestStep) -> Result<(), TestCaseError> {
        self.steps += 1;
        match step {
            TestStep::Call { guard, knows_incarnation, drafts } => {
                let incarnation = if *knows_incarnation {
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
                let (said, times) = self.server.timed_call(&parameters, &operations);
                let [before, after] = times;
                self.note_delay(times);
                let told = told(self.ear);
                let state = self.predict(&parameters, &operations, &said, &told, before);
                // A second may have begun in between, which counters that were missing show: in
                // answers, or only in what is stored.
                self.state = match state {
                    Ok(state) if before.seconds() == after.seconds() || self.agrees_with(&state) => state,
                    other => self.predict(&parameters, &operations, &said, &told, after).or(other).map_err(
                        |expected| {
                            let told = shown(&told);
                            let problem =
                                format!("{operations:#?}\nserver: {said:#?} {told:#?}\nstate: {expected:#?}");
                            TestCaseError::fail(problem)
                        },
                    )?,
                };
                for answer in &said {
                    if let (Answer::Granted { vote }, _) = answer.clone().into_parts() {
                        self.last = vote;
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
                if self.state.end_reader(&resource(name), &owner(reader), at, now) {
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
            TestStep::SetCounter(name, number, lives) => {
                let (value, seconds) = (self.number(number), if *lives { 5000 } else { 100 });
                let mut command = redis::cmd("SET");
                command.arg(names::counter(&resource(name))).arg(value).arg("PX").arg(seconds * 1000);
                let (_, times) = self.server.timed(&command);
                self.note_delay(times);
                let expires_at = times[0] + Duration::from_secs(seconds);
                self.state.set_counter(&resource(name), Some(Counter { value, expires_at }));
            }
            TestStep::SetMetadata { minimum_token, is_ours } => {
                let minimum_token = self.number(minimum_token);
                let fingerprint = if *is_ours { parameters().fingerprint } else { Fingerprint::new("other") };
                let incarnation = self.server.incarnation_of_data().into();
                let metadata = NodeMetadata { incarnation, minimum_token, fingerprint };
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
                    subscribe(self.ear, redis::cmd("UNSUBSCRIBE").arg(&channel));
                    self.listening.remove(&channel);
                }
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
                self.state.change_entry(&resource(name), &owner(waiter), end);
            }
            TestStep::Restart => {
                // The metadata of another incarnation, as far as the node can tell.
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

    /// Checks that the keys of the server are those of the state, with equal values and ttls.
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
                // The time of the first call, and the waiter.
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
        // The script reads this key before it checks for a tombstone, a queue or a mark, so the key must
        // outlive all of these.
        let sign = found.remove(names::DIRTY.as_bytes()).map(|(_, ttl)| ttl);
        let signed = [
            &b"redquorum:tombstone:"[..],
            b"redquorum:queue:",
            b"redquorum:yield_mark:",
            b"redquorum:writer_mark:",
        ];
        let is_signed = |key: &[u8]| signed.iter().any(|prefix| key.starts_with(prefix));
        let longest = found.iter().filter(|(key, _)| is_signed(key)).map(|(_, (_, ttl))| *ttl).max();
        prop_assert!(sign >= longest, "{sign:?} {longest:?}");
        prop_assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        for (key, (value, ttl)) in &found {
            let (expected, remaining) = &expected[key];
            let at =
                |value: &Vec<Vec<u8>>| str::from_utf8(&value[0]).unwrap().parse().map(Duration::from_millis);
            if key.starts_with(b"redquorum:last_woken:") {
                prop_assert_eq!(value.get(1), expected.get(1), "{}", key.escape_ascii());
                prop_assert!(is_near(at(value).unwrap(), at(expected).unwrap()), "woken at another time");
                // The pure node has no ttl of this key, which lasts until the woken waiter leaves.
                prop_assert!(*ttl <= parameters().max_ttl);
                continue;
            }
            if key == names::QUARANTINE.as_bytes() {
                prop_assert!(
                    is_near(at(value).unwrap(), at(expected).unwrap()),
                    "renewals count from another time"
                );
            } else if expected.len() == 1 {
                // The pure node does not keep what it has forgotten the readers of.
                prop_assert_eq!(&value[..1], expected, "{}", key.escape_ascii());
            } else {
                prop_assert_eq!(value, expected, "{}", key.escape_ascii());
            }
            prop_assert!(is_near(*ttl, *remaining), "{}: {ttl:?}, {remaining:?}", key.escape_ascii());
        }
        Ok(())
    }
}

impl Pair<'_> {
    fn listen(&mut self, channels: impl IntoIterator<Item = Vec<u8>>) {
        let mut command = redis::cmd("SUBSCRIBE");
        for channel in channels {
            command.arg(&channel);
            self.listening.insert(channel);
        }
        subscribe(self.ear, &command);
    }

    /// Returns the waiters of a resource, if the ttl of each entry is about that of the state.
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

    /// Returns the readers of a resource, if the end of each is about that of the state.
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

    /// The members of a sorted set that are times, and these.
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
            // A renewal may have recorded a quorum before the first registration.
            let is_told = found.len() == 1 && is_new.is_some();
            if is_told {
                return Ok(());
            }
            return Err(TestCaseError::fail("metadata that should not be there"));
        };
        let NodeMetadata { incarnation, minimum_token, fingerprint } = metadata;
        let expected = [
            ("stamp", stamp(metadata)),
            ("incarnation", incarnation.to_string()),
            ("fingerprint", fingerprint.to_string()),
        ];
        for (field, value) in expected {
            prop_assert_eq!(&found[field], &value);
        }
        prop_assert_eq!(found["minimum_token"].parse().ok(), Some(*minimum_token));
        Ok(())
    }
}

/// Returns the stamp of the two texts of the metadata.
fn stamp(NodeMetadata { incarnation, fingerprint, .. }: &NodeMetadata) -> String {
    let (incarnation, fingerprint) = (Some(Arc::clone(incarnation)), fingerprint.clone());
    Stamp::of(&QuorumParameters { incarnation, fingerprint, ..parameters() }).to_string()
}

/// Changes the subscriptions of a connection, which the server answers by pushes alone. Earlier pushes are
/// dropped.
fn subscribe(ear: &mut Connection, command: &Cmd) {
    ear.send_packed_command(&command.get_packed_command()).unwrap();
    told(ear);
}

/// Returns the channels of the notices since the last call, in order.
fn told(ear: &mut Connection) -> Vec<Vec<u8>> {
    ear.send_packed_command(&redis::cmd("PING").get_packed_command()).unwrap();
    let mut told = Vec::new();
    loop {
        match ear.recv_response().unwrap() {
            Value::Push { kind: PushKind::Message, data } => {
                let Some(Value::BulkString(channel)) = data.into_iter().next() else { panic!("no channel") };
                told.push(channel);
            }
            Value::Push { .. } => {}
            _ => return told,
        }
    }
}

fn shown(channels: &[Vec<u8>]) -> Vec<String> {
    channels.iter().map(|channel| channel.escape_ascii().to_string()).collect()
}

/// If several holders have equal ttls, moves the yield mark of the pure node to the resource that the
/// server named.
fn adopt_mark(
    state: &mut NodeState,
    before: &NodeState,
    operation: &Operation,
    answers: (&Answer, &Answer),
    now: NodeTime,
) {
    let (Operation::Lock(Lock { resources, has_turn: false, .. }), (Answer::Held(one), Answer::Held(other))) =
        (operation, answers)
    else {
        return;
    };
    if one.resource != other.resource {
        let [here, there] = [one, other].map(|holder| &resources[holder.resource]);
        let mark = state.yield_mark(here, now);
        state.put_yield_mark(here, before.yield_mark(here, now));
        state.put_yield_mark(there, mark);
    }
}

/// Copies the arrivals of the server to the pure node, which executes the operation slightly earlier.
fn adopt_arrival(state: &mut NodeState, operation: &Operation, said: &Answer) {
    if let (
        Operation::Enqueue(Enqueue { lock, resource, waiter, entry_ttl: Some(_), .. }),
        Answer::Queued(queued),
    ) = (operation, said)
    {
        state.change_entry(&lock.resources[*resource], waiter, |entry| entry.arrival = queued.arrival);
    }
}

#[test]
fn the_script_and_the_pure_node_agree() {
    let server = RefCell::new(Server::start());
    let ear = RefCell::new(server.borrow().listen(std::iter::empty()));
    let config = ProptestConfig {
        cases: 1000,
        max_shrink_iters: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    // The short ways are for nodes that are registered, which by chance they rarely are for long.
    let registered =
        TestStep::Call { guard: RestartGuard::Off, knows_incarnation: true, drafts: vec![registration()] };
    let start = (prop::bool::weighted(0.8), prop_oneof![2 => Just(Vec::new()), 1 => crowd(), 2 => readers()]);
    let steps = (start, vec(step(), 1..22)).prop_map(move |((is_registered, crowd), steps)| {
        let registration = is_registered.then(|| registered.clone());
        registration.into_iter().chain(crowd).chain(steps).collect::<Vec<_>>()
    });
    // Most topics have subscribers, because queues without subscribers are soon empty.
    let topics: Vec<Topic> = Topic::all().collect();
    let heard = vec(prop::bool::weighted(0.85), topics.len());
    let result = TestRunner::new(config).run(&(heard, steps), |(heard, steps)| {
        let (mut server, mut ear) = (server.borrow_mut(), ear.borrow_mut());
        let all = topics.iter().map(Topic::channel).collect::<Vec<_>>();
        let mut attempt = || {
            subscribe(&mut ear, redis::cmd("UNSUBSCRIBE").arg(&all));
            server.run("FLUSHALL");
            let last = server.seconds() * 1_000_000;
            let state = NodeState::new(&server.incarnation_of_data());
            let (server, ear) = (&mut *server, &mut *ear);
            let listening = BTreeSet::new();
            let mut pair = Pair { server, ear, listening, state, last, steps: 0, is_delayed: false };
            let is_heard = |(topic, is_heard): (&Topic, bool)| is_heard.then(|| topic.channel());
            pair.listen(topics.iter().zip(heard.iter().copied()).filter_map(is_heard));
            let result = steps.iter().try_for_each(|step| pair.step(step));
            (result, pair.is_delayed)
        };
        let mut outcome = attempt();
        for _ in 1..TRIES {
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
