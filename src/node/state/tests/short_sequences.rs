//! Searches of all short sequences of requests to one node.
//!
//! The quorums of two leases share a node. Therefore the promises P1 and P2 follow from properties of each single node,
//! for any number of nodes. A *counted* answer is a vote, or the answer to a renewal that counts as a vote:
//!
//! ```text
//!  property      counted answer x, before a counted answer y for another lease, at the same node
//!  ────────      ───────────────────────────────────────────────────────────────────────────────
//!  exclusion     at y, the lease of x is unlocked, or the ttl that x promised is over, or the node has registered
//!                after x, so long ago that the lease of x has ended (if y is a vote), or that the attempt of x is
//!                decided (if y is a renewal)
//!  order         the token that x confirms is smaller than the token that y confirms
//!  verification  no token that x confirms is larger than the token that y verifies
//! ```
//!
//! All searches execute the pure node. A search of tokens visits every sequence up to a length. The search of exclusion
//! has no limit of length: without tokens, and with remaining times in place of times, a node has only thousands of
//! states.

use std::{
    collections::{HashSet, VecDeque},
    fmt,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher},
};

use super::*;
use crate::{
    mutation::{Mutation, break_rule},
    node::{
        Init, NewNodes, QuarantineParameters, QuorumParameters, Register, RestartGuard,
        operation::samples::not_waiting,
    },
};

/// The ttl of a lock, in milliseconds.
const TTL: u64 = 3;
/// The ttl of a renewal, in milliseconds: the rest of the validity, as in a renewal without an extension.
const RENEWAL_TTL: u64 = 1;

/// The milliseconds after which each lease that a node may have forgotten has ended. A quarantine of this length is the
/// shortest that the argument of P1 allows (`docs/GUARANTEES.md`).
const LEASES_LAST: u64 = TTL;
/// The milliseconds after which each attempt in which a node may have voted is decided. From then on, renewals count.
const ATTEMPTS_LAST: u64 = 2;

/// The milliseconds after which an unused counter has expired.
const COUNTER_ENDS: u64 = 2 * 3_600_000;
/// The milliseconds of a quarantine in searches of tokens. A missing counter begins at the whole second. After a shorter
/// quarantine, the counter could repeat votes of the same second.
const SECOND: u64 = 1000;
/// The milliseconds by which the clock of a node steps back.
const STEP_BACK: u64 = 10 * SECOND;
/// The milliseconds between the last lock and the beginning of a search of old data.
const COUNTER_AGE: u64 = 1800 * SECOND;

const LEASES: usize = 2;
const RESOURCE: &str = "r";

/// A property of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Property {
    Exclusion,
    Order,
    Verification,
}

/// A step of a sequence. A number names a lease, unless the step says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Lock(usize),
    WriteBack(usize, TokenChoice),
    Renew(usize),
    Unlock {
        lease: usize,
        leaves_tombstone: bool,
    },
    /// The passing of this number of milliseconds.
    Wait(u64),
    Flush,
    /// A restart with all data.
    Restart,
    Save,
    /// A restart with the data of the last save.
    RestoreSaved,
    /// A step back of the node's clock, if the clock stays ahead of every vote.
    SetClockBack,
    Register,
}

/// The token of a write-back, compared with the largest vote of this node. The token is the largest vote of the quorum,
/// so the token may be the vote of another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenChoice {
    Below,
    Equal,
    Above,
}

/// The steps that can break exclusion. A write-back changes no key.
const STEPS_OF_KEYS: &[Step] = &[
    Step::Wait(1),
    Step::Flush,
    Step::Restart,
    Step::Register,
    Step::Lock(0),
    Step::Lock(1),
    Step::Renew(0),
    Step::Renew(1),
    Step::Unlock { lease: 0, leaves_tombstone: true },
    Step::Unlock { lease: 1, leaves_tombstone: true },
    Step::Unlock { lease: 0, leaves_tombstone: false },
    Step::Unlock { lease: 1, leaves_tombstone: false },
];

/// The steps that change tokens, in addition to [`STEPS_OF_KEYS`].
const STEPS_OF_TOKENS: &[Step] = &[
    Step::Wait(SECOND + 1),
    Step::Wait(COUNTER_ENDS),
    Step::WriteBack(0, TokenChoice::Below),
    Step::WriteBack(1, TokenChoice::Below),
    Step::WriteBack(0, TokenChoice::Equal),
    Step::WriteBack(1, TokenChoice::Equal),
    Step::WriteBack(0, TokenChoice::Above),
    Step::WriteBack(1, TokenChoice::Above),
];

/// The steps by which a node could repeat old votes, or keep an old key for longer than a quarantine: a restart with
/// old data, and a clock that steps back.
const STEPS_OF_OLD_DATA: &[Step] = &[
    Step::Wait(SECOND + 1),
    Step::Wait(TTL + 1),
    Step::Save,
    Step::RestoreSaved,
    Step::SetClockBack,
    Step::Register,
    Step::Lock(0),
    Step::Lock(1),
    Step::WriteBack(0, TokenChoice::Equal),
];

/// The knowledge of a lease's client, from the answers of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct LeaseRecord {
    promise: Option<Promise>,
    /// Whether the client has sent an unlock. After the unlock, no answer counts.
    is_unlocked: bool,
    /// Whether the client has sent a renewal. Only a granted lease is renewed, and after the grant no answer confirms the
    /// token.
    is_renewed: bool,
    /// The largest token that the node has confirmed for this lease; 0 if there is none.
    confirmed: u64,
}

/// The promise of the last counted answers: the key of the lease exists until the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Promise {
    end: u64,
    /// Whether the node has registered since the last counted answer, so that the node may have forgotten the key.
    is_before_registration: bool,
}

/// A node after some steps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SearchedNode {
    state: NodeState,
    saved: Option<NodeState>,
    /// The time of the clients, in milliseconds since the epoch.
    now: u64,
    /// The milliseconds by which the node's time is behind.
    is_behind_by: u64,
    restarts: u32,
    largest_vote: u64,
    /// The time of the last registration after which the node may have forgotten votes.
    registered_at: Option<u64>,
    leases: [LeaseRecord; LEASES],
}

/// A sequence in which the last step breaks a property.
#[derive(Debug)]
struct Breach {
    property: Property,
    steps: Vec<Step>,
    reason: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { property, steps, reason } = self;
        write!(f, "{property:?} is broken in {} steps: {reason}, after {steps:?}", steps.len())
    }
}

/// A counted answer.
struct Counted {
    lease: usize,
    is_vote: bool,
    end: u64,
}

impl SearchedNode {
    /// Returns a node of a new quorum, at this millisecond of a second.
    fn new(quarantine: QuarantineParameters, millisecond: u64) -> Self {
        let now = START / 1000 + millisecond;
        let mut node = Self {
            state: NodeState::new("0"),
            saved: None,
            now,
            is_behind_by: 0,
            restarts: 0,
            largest_vote: 0,
            registered_at: None,
            leases: Default::default(),
        };
        let init = Init { is_dry_run: false, time: Duration::from_millis(now) };
        let answer = node.ask(quarantine, &Operation::Init(init));
        assert!(matches!(answer, Answer::Registered(_)), "{answer:?}");
        node
    }

    fn ask(&mut self, quarantine: QuarantineParameters, operation: &Operation) -> Answer {
        let parameters = QuorumParameters {
            guard: RestartGuard::PerConnection,
            incarnation: Some(self.restarts.to_string().into()),
            max_ttl: Duration::from_millis(TTL),
            quarantine,
            ..parameters()
        };
        let now = self.node_time();
        self.state.apply(&parameters, operation, now).answer
    }

    fn node_time(&self) -> NodeTime {
        NodeTime::from_epoch(self.now - self.is_behind_by)
    }

    /// Returns the node after a further step. If the step breaks a property, returns the property with the reason.
    fn after(&self, step: Step, quarantine: QuarantineParameters) -> Result<Self, (Property, String)> {
        let mut node = self.clone();
        match step {
            Step::Wait(milliseconds) => node.now += milliseconds,
            Step::Flush => node.state.flush(),
            Step::Restart => node.restart(),
            Step::Save => node.saved = Some(node.state.clone()),
            Step::RestoreSaved => {
                if let Some(saved) = node.saved.clone() {
                    node.state = saved;
                    node.restart();
                }
            }
            Step::SetClockBack if self.largest_vote > 1000 * (self.now - STEP_BACK) => {}
            Step::SetClockBack => node.is_behind_by = STEP_BACK,
            Step::Register => node.register(quarantine),
            Step::Unlock { lease, leaves_tombstone } => {
                node.ask(quarantine, &unlock(RESOURCE, &lease.to_string(), true, leaves_tombstone));
                node.leases[lease].is_unlocked = true;
            }
            Step::Lock(lease) => {
                let lock = not_waiting(take(RESOURCE, &lease.to_string(), TTL));
                if let Answer::Granted { vote } = node.ask(quarantine, &lock) {
                    node.largest_vote = node.largest_vote.max(vote);
                    node.count(&Counted { lease, is_vote: true, end: node.now + TTL })?;
                    node.confirm(lease, vote)?;
                }
            }
            Step::WriteBack(..) if self.largest_vote == 0 => {}
            Step::WriteBack(lease, choice) => {
                let token = match choice {
                    TokenChoice::Below => self.largest_vote - 1,
                    TokenChoice::Equal => self.largest_vote,
                    TokenChoice::Above => self.largest_vote + 1,
                };
                let answer = node.ask(quarantine, &write_back(RESOURCE, &lease.to_string(), token));
                if answer == Answer::WrittenBack {
                    node.confirm(lease, token)?;
                }
            }
            Step::Renew(lease) => node.renew(lease, quarantine)?,
        }
        let (now, node_time) = (node.now, node.node_time());
        node.state.sweep(node_time);
        for lease in &mut node.leases {
            lease.promise = lease.promise.filter(|promise| now <= promise.end);
        }
        Ok(node)
    }

    fn restart(&mut self) {
        self.restarts += 1;
        self.state.restart(&self.restarts.to_string());
    }

    fn register(&mut self, quarantine: QuarantineParameters) {
        let before = self.state.metadata().cloned();
        let time = Duration::from_millis(self.now);
        self.ask(quarantine, &Operation::Register(Register { new_nodes: NewNodes::Quarantine, time }));
        if self.state.metadata() != before.as_ref() {
            self.registered_at = Some(self.now);
            for promise in self.leases.iter_mut().filter_map(|lease| lease.promise.as_mut()) {
                promise.is_before_registration = true;
            }
        }
    }

    fn renew(&mut self, lease: usize, quarantine: QuarantineParameters) -> Result<(), (Property, String)> {
        let token = match self.leases[lease].confirmed {
            0 => self.largest_vote,
            confirmed => confirmed,
        };
        self.leases[lease].is_renewed = true;
        let renewal = renew(RESOURCE, &lease.to_string(), 1, RENEWAL_TTL, token);
        let Answer::Renewed { proves } = self.ask(quarantine, &renewal) else { return Ok(()) };
        self.count(&Counted { lease, is_vote: false, end: self.now + RENEWAL_TTL })?;
        let larger = self.leases.iter().find(|other| other.confirmed > token).filter(|_| proves);
        match larger {
            Some(other) if !self.leases[lease].is_unlocked => Err((
                Property::Verification,
                format!("the node verifies {token}, and had confirmed {} before", other.confirmed),
            )),
            _ => Ok(()),
        }
    }

    /// Counts an answer. Returns an error if the promise to another lease lasts.
    fn count(&mut self, counted: &Counted) -> Result<(), (Property, String)> {
        let forgotten_until = if counted.is_vote { LEASES_LAST } else { ATTEMPTS_LAST };
        let is_over =
            self.registered_at.is_some_and(|registered_at| self.now > registered_at + forgotten_until);
        for (other, lease) in self.leases.iter().enumerate().filter(|(other, _)| *other != counted.lease) {
            let promise = lease.promise.filter(|promise| !(promise.is_before_registration && is_over));
            if let Some(promise) = promise.filter(|_| !lease.is_unlocked) {
                let left = promise.end - self.now;
                return Err((
                    Property::Exclusion,
                    format!("lease {other} has the resource for {left} ms more"),
                ));
            }
        }
        let lease = &mut self.leases[counted.lease];
        let promised = lease.promise.map_or(0, |promise| promise.end);
        lease.promise = Some(Promise { end: promised.max(counted.end), is_before_registration: false });
        Ok(())
    }

    /// Records the confirmation of a token. Returns an error unless all tokens of other leases are smaller.
    fn confirm(&mut self, lease: usize, token: u64) -> Result<(), (Property, String)> {
        if self.leases[lease].is_renewed {
            return Ok(());
        }
        for (other, record) in self.leases.iter().enumerate().filter(|(other, _)| *other != lease) {
            if record.confirmed >= token {
                let reason = format!("{token} is not above {} of lease {other}", record.confirmed);
                return Err((Property::Order, reason));
            }
        }
        let record = &mut self.leases[lease];
        record.confirmed = record.confirmed.max(token);
        Ok(())
    }

    /// Returns the part of the state on which later answers depend, without the tokens. Two nodes with equal futures
    /// give equal answers to equal steps, apart from tokens.
    fn future(&self) -> impl Hash + use<> {
        let rest = |end: NodeTime| end.remaining(self.node_time());
        let held =
            self.state.locks.values().map(|held| (held.lease_id.clone(), held.holds, rest(held.expires_at)));
        let tombstones =
            self.state.tombstones.iter().map(|((_, lease_id), end)| (lease_id.clone(), rest(*end)));
        let is_current = |metadata: &NodeMetadata| metadata.incarnation == self.state.incarnation;
        let quarantine = self.state.quarantine;
        let quarantine = quarantine.map(|quarantine| {
            (rest(quarantine.until), rest_or_past(quarantine.renewals_from, self.node_time()))
        });
        let registered = self.registered_at.map(|at| (self.now - at).min(LEASES_LAST + 1));
        let leases = self.leases.clone().map(|lease| {
            let promise =
                lease.promise.map(|promise| (promise.end - self.now, promise.is_before_registration));
            (promise, lease.is_unlocked)
        });
        (
            held.collect::<Vec<_>>(),
            tombstones.collect::<Vec<_>>(),
            self.state.metadata.as_ref().map(is_current),
            quarantine,
            registered,
            leases,
        )
    }
}

/// Returns the time until an end; `None` after the end.
fn rest_or_past(end: NodeTime, now: NodeTime) -> Option<Duration> {
    (!end.is_past(now)).then(|| end.remaining(now))
}

/// Returns a digest of 128 bits. In a search of a million states, the chance of two equal digests is below 2^-80.
fn digest(value: &impl Hash) -> (u64, u64) {
    let builder = BuildHasherDefault::<DefaultHasher>::default();
    let mut second = DefaultHasher::new();
    (1_u8, value).hash(&mut second);
    (builder.hash_one(value), second.finish())
}

/// Visits every state that at most `depth` steps reach from the first state. Returns the number of states, or a shortest
/// sequence that breaks a property. Two states are equal if `distinguish` returns equal values.
fn search<D: Hash>(
    first: SearchedNode,
    steps: &[Step],
    depth: usize,
    quarantine: QuarantineParameters,
    distinguish: impl Fn(&SearchedNode) -> D,
) -> Result<usize, Breach> {
    let mut seen = HashSet::from([digest(&distinguish(&first))]);
    let mut frontier = VecDeque::from([(first, Vec::new())]);
    while let Some((node, path)) = frontier.pop_front() {
        for step in steps {
            let mut path = path.clone();
            path.push(*step);
            match node.after(*step, quarantine) {
                Ok(next) => {
                    let is_new = seen.insert(digest(&distinguish(&next)));
                    if is_new && path.len() < depth {
                        frontier.push_back((next, path));
                    }
                }
                Err((property, reason)) => return Err(Breach { property, steps: path, reason }),
            }
        }
    }
    Ok(seen.len())
}

fn quarantine(lasts: u64, renewals_after: u64) -> QuarantineParameters {
    let (lasts, renewals_after) = (Duration::from_millis(lasts), Duration::from_millis(renewals_after));
    QuarantineParameters { lasts, renewals_after }
}

/// Visits every state that matters for exclusion, without a limit of steps.
fn search_exclusion(quarantine: QuarantineParameters) -> Result<usize, Breach> {
    let first = SearchedNode::new(quarantine, 0);
    search(first, STEPS_OF_KEYS, usize::MAX, quarantine, SearchedNode::future)
}

/// Visits every sequence of the steps of keys and tokens up to this length. A second ends a millisecond after the
/// beginning.
fn search_sequences(depth: usize) -> Result<usize, Breach> {
    let quarantine = quarantine(SECOND, ATTEMPTS_LAST);
    let (first, steps) = (SearchedNode::new(quarantine, 999), [STEPS_OF_KEYS, STEPS_OF_TOKENS].concat());
    search(first, &steps, depth, quarantine, SearchedNode::clone)
}

/// Visits every sequence with old data up to this length, on a node with an old counter.
fn search_old_data(depth: usize) -> Result<usize, Breach> {
    let quarantine = quarantine(SECOND, ATTEMPTS_LAST);
    let mut first = SearchedNode::new(quarantine, 0);
    let locked = first.ask(quarantine, &take(RESOURCE, "earlier", TTL));
    assert!(matches!(locked, Answer::Granted { .. }), "{locked:?}");
    first.ask(quarantine, &unlock(RESOURCE, "earlier", true, false));
    first.now += COUNTER_AGE;
    search(first, STEPS_OF_OLD_DATA, depth, quarantine, SearchedNode::clone)
}

/// Returns the shortest quarantine that the arguments allow.
fn enough() -> QuarantineParameters {
    quarantine(LEASES_LAST, ATTEMPTS_LAST)
}

/// Asserts that the search found a sequence that breaks the property.
fn assert_breaks(property: Property, result: Result<usize, Breach>) {
    match result {
        Ok(states) => panic!("no sequence breaks {property:?}: {states} states"),
        Err(breach) => {
            eprintln!("{breach}");
            assert_eq!(breach.property, property);
        }
    }
}

/// Asserts that the search found no sequence that breaks a property.
fn assert_holds(result: Result<usize, Breach>) {
    match result {
        Ok(states) => eprintln!("all properties hold: {states} states"),
        Err(breach) => panic!("{breach}"),
    }
}

#[test]
fn no_sequence_breaks_exclusion() {
    assert_holds(search_exclusion(enough()));
}

#[test]
fn a_quarantine_that_is_a_millisecond_too_short_breaks_exclusion() {
    assert_breaks(Property::Exclusion, search_exclusion(quarantine(LEASES_LAST - 1, ATTEMPTS_LAST)));
    assert_breaks(Property::Exclusion, search_exclusion(quarantine(LEASES_LAST, ATTEMPTS_LAST - 1)));
}

#[test]
fn each_broken_rule_of_keys_breaks_exclusion() {
    for rule in [
        Mutation::CountInQuarantine,
        Mutation::CountWithoutMetadata,
        Mutation::UnlockWithoutOwner,
        Mutation::ShortenTtl,
    ] {
        eprint!("{rule:?}: ");
        let _broken = break_rule(Some(rule));
        assert_breaks(Property::Exclusion, search_exclusion(enough()));
    }
}

#[test]
fn no_short_sequence_breaks_a_property() {
    assert_holds(search_sequences(6));
    assert_holds(search_old_data(9));
}

/// This search takes minutes, so only builds with the full search of the model include it.
#[cfg(redquorum_model)]
#[test]
fn no_sequence_of_eight_steps_breaks_a_property() {
    assert_holds(search_sequences(8));
}

#[test]
fn each_broken_rule_of_tokens_breaks_order_or_verification() {
    for (rule, property) in [
        (Mutation::WriteBackUnconditionally, Property::Order),
        (Mutation::WriteBackWithoutOwner, Property::Order),
        (Mutation::WriteBackAboveToken, Property::Order),
        (Mutation::VerifyAboveToken, Property::Verification),
        (Mutation::VerifyWithoutCounter, Property::Verification),
    ] {
        eprint!("{rule:?}: ");
        let _broken = break_rule(Some(rule));
        assert_breaks(property, search_sequences(6));
    }
    for rule in [Mutation::VoteBelowMinimum, Mutation::WriteBackBelowMinimum] {
        eprint!("{rule:?}: ");
        let _broken = break_rule(Some(rule));
        assert_breaks(Property::Order, search_old_data(9));
    }
}
