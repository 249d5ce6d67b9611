//! The random steps of the comparison: calls, and changes of the data between calls.

use super::*;

/// A number that depends on the state at the execution of the step.
#[derive(Clone, Debug)]
pub(super) enum Number {
    Exactly(u64),
    /// The last vote, plus 2, minus this number.
    NearLast(u64),
}

#[derive(Clone, Debug)]
pub(super) enum Question {
    Lock { hint: Number, has_turn: bool, gives_up: bool },
    WriteBack { token: Number },
    Renew { holds: u32, token: Number, may_have_waiters: bool },
    Unlock { notify: bool, tombstone: Tombstone, has_waiters: bool },
    Enqueue { waiter: &'static str, arrival: Number, enters: bool, enqueue_only: bool, index: usize },
    Downgrade { writer: &'static str },
    Withdraw { waiter: &'static str },
    ForceUnlock,
    Inspect,
    Proclaim { number: u64 },
    Observe,
    List,
    Vacant { ignores_marks: bool },
    Latch { count: u32, is_open: bool, arrivals: Vec<&'static str> },
    Register { new_nodes: NewNodes, is_off: bool },
    Init { is_dry_run: bool, is_off: bool },
    Reconfigure { from: &'static str, to: &'static str },
}

#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) question: Question,
    pub(super) resources: Vec<&'static str>,
    /// Whether each resource is shared.
    pub(super) shared: [bool; 3],
    pub(super) owner: &'static str,
    /// The ttl, in steps of 20 s.
    pub(super) ttl: u64,
}

/// The arrivals at a latch, one of which looks like two on the wire.
const ARRIVALS: [&str; 4] = ["a", "b", "1:a1:b", "\0"];

/// A topic that may have subscribers.
#[derive(Clone, Debug)]
pub(super) enum Topic {
    Release(&'static str),
    Latch(&'static str),
    Wake(&'static str, &'static str),
    Head(&'static str, &'static str),
    ForceUnlocked(&'static str),
}

impl Topic {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let of_waiter = |name, waiter| [Self::Wake(name, waiter), Self::Head(name, waiter)];
        let of = move |name| WAITERS.into_iter().flat_map(move |waiter| of_waiter(name, waiter));
        let forced = OWNERS.into_iter().map(Self::ForceUnlocked);
        RESOURCES
            .into_iter()
            .flat_map(move |name| of(name).chain([Self::Release(name), Self::Latch(name)]))
            .chain(forced)
    }

    pub(super) fn channel(&self) -> Vec<u8> {
        names::notice_channel(&match self {
            Self::Release(name) => resource(name),
            Self::Latch(name) => names::latch(&resource(name)),
            Self::Wake(name, waiter) => names::wake(&resource(name), &owner(waiter)),
            Self::Head(name, waiter) => names::head(&resource(name), &owner(waiter)),
            Self::ForceUnlocked(name) => names::force_unlocked(owner(name).client().unwrap_or_default()),
        })
    }
}

#[derive(Clone, Debug)]
pub(super) enum TestStep {
    Call {
        guard: RestartGuard,
        /// Whether the connection has registered in the server's incarnation, or in an earlier one.
        knows_incarnation: bool,
        drafts: Vec<Draft>,
    },
    LoseLock(&'static str),
    /// The key of the readers is lost, and the key of the resource stays.
    LoseReaders(&'static str),
    /// One reader expires, while other readers hold the resource.
    EndReader(&'static str, &'static str),
    LoseCounter(&'static str),
    LoseLeader(&'static str),
    /// A counter is set, with a long ttl or one that the next use extends.
    SetCounter(&'static str, Number, bool),
    SetMetadata {
        minimum_token: Number,
        is_ours: bool,
    },
    LoseMetadata,
    LoseQuarantine,
    /// A topic gets subscribers, or loses them.
    Listen(Topic, bool),
    /// The first wake of a waiter is moved far into the past.
    WakeLongAgo(&'static str),
    /// A queue entry expires.
    EndEntry(&'static str, &'static str),
    /// The server begins another incarnation.
    Restart,
}

const NUMBERS: [u64; 7] = [0, 1, 7, LARGEST_COUNTER - 1, LARGEST_COUNTER, LARGEST_COUNTER + 1, u64::MAX];

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        6 => (0..5_u64).prop_map(Number::NearLast),
        1 => sample::select(NUMBERS.to_vec()).prop_map(Number::Exactly),
    ]
}

/// Tombstones, mostly none.
const TOMBSTONES: [Tombstone; 4] =
    [Tombstone::Never, Tombstone::Never, Tombstone::IfMissing, Tombstone::Always];

/// Returns hints, mostly none.
fn hint() -> impl Strategy<Value = Number> {
    prop_oneof![3 => Just(Number::Exactly(0)), 1 => number()]
}

fn question() -> impl Strategy<Value = Question> {
    prop_oneof![
        8 => (hint(), prop::bool::weighted(0.2), prop::bool::weighted(0.2))
            .prop_map(|(hint, has_turn, gives_up)| Question::Lock { hint, has_turn, gives_up }),
        3 => number().prop_map(|token| Question::WriteBack { token }),
        4 => (1..3_u32, number(), any::<bool>()).prop_map(|(holds, token, may_have_waiters)| {
            Question::Renew { holds, token, may_have_waiters }
        }),
        6 => (any::<bool>(), sample::select(&TOMBSTONES[..]), prop::bool::weighted(0.3))
            .prop_map(|(notify, tombstone, has_waiters)| Question::Unlock { notify, tombstone, has_waiters }),
        10 => (waiter(), arrival(), prop::bool::weighted(0.8), prop::bool::weighted(0.2), 0..2_usize)
            .prop_map(|(waiter, arrival, enters, enqueue_only, index)| {
                Question::Enqueue { waiter, arrival, enters, enqueue_only, index }
            }),
        2 => sample::select(&OWNERS[..]).prop_map(|writer| Question::Downgrade { writer }),
        2 => waiter().prop_map(|waiter| Question::Withdraw { waiter }),
        1 => Just(Question::ForceUnlock),
        1 => Just(Question::Inspect),
        3 => (0..4_u64).prop_map(|number| Question::Proclaim { number }),
        1 => Just(Question::Observe),
        2 => Just(Question::List),
        3 => any::<bool>().prop_map(|ignores_marks| Question::Vacant { ignores_marks }),
        3 => latch(),
    ]
}

/// Returns latch operations, mostly with equal counts.
fn latch() -> impl Strategy<Value = Question> {
    let count = prop_oneof![4 => Just(2_u32), 1 => Just(3)];
    let arrivals = sample::subsequence(&ARRIVALS[..], 0..3);
    (count, prop::bool::weighted(0.1), arrivals).prop_map(|(count, is_open, arrivals)| Question::Latch {
        count,
        is_open,
        arrivals,
    })
}

fn waiter() -> impl Strategy<Value = &'static str> {
    sample::select(&WAITERS[..])
}

/// Assigned arrivals have another order on the server and in the pure node if one in between
/// is asked for, so it is not.
fn arrival() -> impl Strategy<Value = Number> {
    prop_oneof![
        4 => Just(0),
        1 => sample::select(vec![1, 2, 7, LARGEST_COUNTER, u64::MAX]),
    ]
    .prop_map(Number::Exactly)
}

fn draft() -> impl Strategy<Value = Draft> {
    let resources = prop_oneof![
        3 => sample::subsequence(&RESOURCES[..3], 1..=2),
        1 => sample::subsequence(&RESOURCES[..], 1..=3),
    ];
    let shared = prop_oneof![
        3 => Just([false; 3]),
        3 => Just([true; 3]),
        2 => any::<[bool; 3]>(),
    ];
    (question(), resources, shared, sample::select(&OWNERS[..]), 1..4_u64).prop_map(
        |(question, resources, shared, owner, ttl)| Draft { question, resources, shared, owner, ttl },
    )
}

fn guard() -> impl Strategy<Value = RestartGuard> {
    prop_oneof![
        3 => Just(RestartGuard::PerConnection),
        1 => Just(RestartGuard::PerVote),
        2 => Just(RestartGuard::Off),
    ]
}

pub(super) fn registration() -> Draft {
    let question = Question::Register { new_nodes: NewNodes::Admit, is_off: false };
    Draft { question, resources: vec!["a"], shared: [false; 3], owner: "u:1", ttl: 1 }
}

/// Returns steps to a long queue, which random steps rarely reach: one client holds or shares a resource,
/// all other clients enqueue, and the first waiter is woken, perhaps long ago.
pub(super) fn crowd() -> impl Strategy<Value = Vec<TestStep>> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(is_shared, leaves, is_long_ago)| {
        let mut steps = crowd_round(is_shared, leaves);
        steps.extend(is_long_ago.then_some(TestStep::WakeLongAgo("a")));
        steps
    })
}

fn crowd_round(is_shared: bool, leaves: bool) -> Vec<TestStep> {
    let shared = [is_shared; 3];
    let draft = |question| Draft { question, resources: vec!["a"], shared, owner: "u:1", ttl: 3 };
    let zero = || Number::Exactly(0);
    let mut drafts = vec![Question::Lock { hint: zero(), has_turn: false, gives_up: false }];
    let queued =
        |waiter| Question::Enqueue { waiter, arrival: zero(), enters: true, enqueue_only: true, index: 0 };
    drafts.extend(WAITERS.map(queued));
    let unlock = Question::Unlock { notify: true, tombstone: Tombstone::Never, has_waiters: true };
    drafts.extend(leaves.then_some(unlock));
    let one = move |question| {
        let drafts = vec![draft(question)];
        TestStep::Call { guard: RestartGuard::Off, knows_incarnation: true, drafts }
    };
    drafts.into_iter().map(one).collect()
}

/// Some share a resource, something befalls what the node knows of them, and what readers and writers
/// ask most for is asked for. By chance, so much seldom happens to one resource.
pub(super) fn readers() -> impl Strategy<Value = Vec<TestStep>> {
    let draft = |(question, owner, is_shared, ttl)| Draft {
        question,
        resources: vec!["a"],
        shared: [is_shared; 3],
        owner,
        ttl,
    };
    let one = |drafts| TestStep::Call { guard: RestartGuard::Off, knows_incarnation: true, drafts };
    let take = |has_turn, gives_up| Question::Lock { hint: Number::Exactly(0), has_turn, gives_up };
    let lock = move || take(false, false);
    let enqueue = |waiter| {
        let arrival = Number::Exactly(0);
        Question::Enqueue { waiter, arrival, enters: true, enqueue_only: false, index: 0 }
    };
    let unlock = |tombstone| Question::Unlock { notify: true, tombstone, has_waiters: false };
    let owner = || sample::select(&OWNERS[..]);
    let befalls = prop_oneof![
        4 => owner().prop_map(|owner| TestStep::EndReader("a", owner)),
        1 => Just(TestStep::LoseLock("a")),
        1 => Just(TestStep::LoseReaders("a")),
        1 => (number(), any::<bool>()).prop_map(|(number, lives)| TestStep::SetCounter("a", number, lives)),
    ];
    let asked = prop_oneof![
        4 => Just(lock()),
        4 => any::<bool>().prop_map(move |gives_up| take(true, gives_up)),
        2 => waiter().prop_map(enqueue),
        4 => sample::select(&TOMBSTONES[..3]).prop_map(unlock),
        1 => (number(), any::<bool>()).prop_map(|(token, may_have_waiters)| {
            Question::Renew { holds: 1, token, may_have_waiters }
        }),
        1 => number().prop_map(|token| Question::WriteBack { token }),
        1 => sample::select(&OWNERS[..]).prop_map(|writer| Question::Downgrade { writer }),
        1 => Just(Question::ForceUnlock),
        1 => Just(Question::Inspect),
    ];
    let shares = vec((owner(), 1..4_u64), 1..5);
    let asked = vec((asked, owner(), prop::bool::weighted(0.7), 1..4_u64), 1..6);
    (shares, vec(befalls, 0..3), asked).prop_map(move |(shares, befalls, asked)| {
        // The node has the counter from then on.
        let before = [lock(), unlock(Tombstone::Never)].map(|question| (question, OWNERS[0], false, 1));
        let shares = shares.into_iter().map(|(owner, ttl)| (lock(), owner, true, ttl));
        let first = before.into_iter().chain(shares).map(draft).map(|draft| one(vec![draft]));
        let then = asked.into_iter().map(draft).map(|draft| one(vec![draft]));
        first.chain(befalls).chain(then).collect()
    })
}

fn administration() -> impl Strategy<Value = Draft> {
    let fingerprint = || sample::select(vec!["test", "other", "closed"]);
    let new_nodes = sample::select(vec![NewNodes::Admit, NewNodes::Quarantine, NewNodes::Ignore]);
    let question = prop_oneof![
        4 => (new_nodes, prop::bool::weighted(0.2))
            .prop_map(|(new_nodes, is_off)| Question::Register { new_nodes, is_off }),
        2 => (any::<bool>(), prop::bool::weighted(0.2))
            .prop_map(|(is_dry_run, is_off)| Question::Init { is_dry_run, is_off }),
        1 => (fingerprint(), fingerprint()).prop_map(|(from, to)| Question::Reconfigure { from, to }),
    ];
    let shared = [false; 3];
    question.prop_map(move |question| Draft { question, resources: vec!["a"], shared, owner: "u:1", ttl: 1 })
}

fn call(drafts: impl Strategy<Value = Vec<Draft>>) -> impl Strategy<Value = TestStep> {
    (guard(), prop::bool::weighted(0.9), drafts)
        .prop_map(|(guard, knows_incarnation, drafts)| TestStep::Call { guard, knows_incarnation, drafts })
}

pub(super) fn step() -> impl Strategy<Value = TestStep> {
    let name = || sample::select(&RESOURCES[..]);
    prop_oneof![
        20 => call(vec(draft(), 1..4)),
        4 => call(administration().prop_map(|draft| vec![draft])),
        2 => name().prop_map(TestStep::LoseLock),
        1 => name().prop_map(TestStep::LoseReaders),
        2 => (name(), sample::select(&OWNERS[..])).prop_map(|(name, owner)| TestStep::EndReader(name, owner)),
        2 => name().prop_map(TestStep::LoseCounter),
        1 => name().prop_map(TestStep::LoseLeader),
        1 => (name(), number(), any::<bool>())
            .prop_map(|(name, number, lives)| TestStep::SetCounter(name, number, lives)),
        1 => (number(), prop::bool::weighted(0.8))
            .prop_map(|(minimum_token, is_ours)| TestStep::SetMetadata { minimum_token, is_ours }),
        1 => Just(TestStep::LoseMetadata),
        1 => Just(TestStep::LoseQuarantine),
        1 => Just(TestStep::Restart),
        2 => (name(), waiter()).prop_map(|(name, waiter)| TestStep::EndEntry(name, waiter)),
        2 => (sample::select(Topic::all().collect::<Vec<_>>()), any::<bool>())
            .prop_map(|(topic, listens)| TestStep::Listen(topic, listens)),
        3 => name().prop_map(TestStep::WakeLongAgo),
    ]
}
