//! The random steps of the comparison: calls, and changes of subscriptions and data between calls.

use super::*;

/// A number of a draft. Some numbers depend on the last vote when the step is executed.
#[derive(Clone, Debug)]
pub(super) enum Number {
    Exactly(u64),
    /// The last vote, plus 2, minus this number.
    NearLast(u64),
}

/// What a step of a replacement does with the record of replacements.
#[derive(Clone, Copy, Debug)]
pub(super) enum DraftRecord {
    Requires(&'static str),
    Writes(&'static str),
}

#[derive(Clone, Debug)]
pub(super) enum DraftKind {
    Lock { hint: Number, ignores_queue: bool, will_not_wait: bool },
    WriteBack { token: Number },
    Renew { holds: u32, token: Number, may_have_waiters: bool },
    Unlock { notify: bool, tombstone: Tombstone, has_waiters: bool, rest: Option<u64> },
    Enqueue { waiter: &'static str, arrival: Number, enters: bool, enqueue_only: bool, index: usize },
    Transfer { from: &'static str, is_downgrade: bool, hint: Number, proof: Option<Number> },
    Withdraw { waiter: &'static str },
    ForceUnlock,
    Inspect { max_details: u32 },
    Proclaim { number: u64 },
    Observe,
    List,
    Vacant { ignores_marks: bool },
    CountPermits { permits: u32 },
    Latch { count: u32, is_open: bool, arrivals: Vec<&'static str> },
    Register { new_nodes: NewNodes, is_clock_off: bool },
    Init { is_dry_run: bool, is_clock_off: bool },
    Reconfigure { from: &'static str, to: &'static str, record: Option<DraftRecord> },
    RecordReplacements { from: &'static str, to: &'static str },
}

#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) kind: DraftKind,
    pub(super) resources: Vec<&'static str>,
    /// Whether each resource is shared.
    pub(super) shared: [bool; 3],
    pub(super) lease_id: &'static str,
    /// The ttl, in units of 20 s.
    pub(super) ttl: u64,
}

/// The ids of arrivals at a latch. The text of the third id could be mistaken for two ids in a
/// request.
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
        let forced = LEASE_IDS.into_iter().map(Self::ForceUnlocked);
        RESOURCES
            .into_iter()
            .flat_map(move |name| of(name).chain([Self::Release(name), Self::Latch(name)]))
            .chain(forced)
    }

    pub(super) fn channel(&self) -> Vec<u8> {
        names::notice_channel(&match self {
            Self::Release(name) => resource(name),
            Self::Latch(name) => names::latch(&resource(name)),
            Self::Wake(name, waiter) => names::wake(&resource(name), &lease_id(waiter)),
            Self::Head(name, waiter) => names::head(&resource(name), &lease_id(waiter)),
            Self::ForceUnlocked(name) => names::force_unlocked(lease_id(name).client().unwrap_or_default()),
        })
    }
}

#[derive(Clone, Debug)]
pub(super) enum TestStep {
    Call {
        guard: RestartGuard,
        /// Whether the connection has registered in the present incarnation of the server, not in an earlier one.
        has_present_incarnation: bool,
        drafts: Vec<Draft>,
    },
    LoseLock(&'static str),
    /// The loss of the key of the readers, while the key of the resource remains.
    LoseReaders(&'static str),
    /// The end of one reader, while other readers hold the resource.
    EndReader(&'static str, &'static str),
    LoseCounter(&'static str),
    LoseLeader(&'static str),
    /// A new value of a counter, with a long ttl, or else with a ttl that the next use extends.
    SetCounter(&'static str, Number, bool),
    SetMetadata {
        minimum_token: Number,
        is_ours: bool,
    },
    LoseMetadata,
    LoseQuarantine,
    /// The beginning or the end of the listener's subscription to a topic.
    Listen(Topic, bool),
    /// The loss of the user's permission to publish on any channel, or its return.
    Mute(bool),
    /// A change of the last woken waiter's first wake to a time far in the past.
    WakeLongAgo(&'static str),
    /// The end of a queue entry.
    EndEntry(&'static str, &'static str),
    /// The beginning of another incarnation.
    Restart,
}

const NUMBERS: [u64; 7] = [0, 1, 7, LARGEST_COUNTER - 1, LARGEST_COUNTER, LARGEST_COUNTER + 1, u64::MAX];

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        6 => (0..5_u64).prop_map(Number::NearLast),
        1 => sample::select(NUMBERS.to_vec()).prop_map(Number::Exactly),
    ]
}

/// The tombstone settings of unlocks. Half of the unlocks write no tombstone.
const TOMBSTONES: [Tombstone; 4] =
    [Tombstone::Never, Tombstone::Never, Tombstone::IfMissing, Tombstone::Always];

/// Returns a strategy for hints, three quarters of which are 0.
fn hint() -> impl Strategy<Value = Number> {
    prop_oneof![3 => Just(Number::Exactly(0)), 1 => number()]
}

/// Returns a strategy for the rests of minimum holds, in units of 5 s. A third of the unlocks have a rest.
fn rest() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![2 => Just(None), 1 => (1..14_u64).prop_map(Some)]
}

/// Returns a strategy for transfers: half of them are downgrades, and more than half have a proof.
fn transfer() -> impl Strategy<Value = DraftKind> {
    let proof = prop::option::weighted(0.6, number());
    (sample::select(&LEASE_IDS[..]), any::<bool>(), hint(), proof)
        .prop_map(|(from, is_downgrade, hint, proof)| DraftKind::Transfer { from, is_downgrade, hint, proof })
}

fn kind() -> impl Strategy<Value = DraftKind> {
    prop_oneof![
        8 => (hint(), prop::bool::weighted(0.2), prop::bool::weighted(0.2))
            .prop_map(|(hint, ignores_queue, will_not_wait)| DraftKind::Lock { hint, ignores_queue, will_not_wait }),
        3 => number().prop_map(|token| DraftKind::WriteBack { token }),
        4 => (1..3_u32, number(), any::<bool>()).prop_map(|(holds, token, may_have_waiters)| {
            DraftKind::Renew { holds, token, may_have_waiters }
        }),
        6 => (any::<bool>(), sample::select(&TOMBSTONES[..]), prop::bool::weighted(0.3), rest())
            .prop_map(|(notify, tombstone, has_waiters, rest)| {
                DraftKind::Unlock { notify, tombstone, has_waiters, rest }
            }),
        10 => (waiter(), arrival(), prop::bool::weighted(0.8), prop::bool::weighted(0.2), 0..2_usize)
            .prop_map(|(waiter, arrival, enters, enqueue_only, index)| {
                DraftKind::Enqueue { waiter, arrival, enters, enqueue_only, index }
            }),
        4 => transfer(),
        2 => waiter().prop_map(|waiter| DraftKind::Withdraw { waiter }),
        1 => Just(DraftKind::ForceUnlock),
        3 => (0..4_u32).prop_map(|max_details| DraftKind::Inspect { max_details }),
        3 => (0..4_u64).prop_map(|number| DraftKind::Proclaim { number }),
        1 => Just(DraftKind::Observe),
        2 => Just(DraftKind::List),
        3 => any::<bool>().prop_map(|ignores_marks| DraftKind::Vacant { ignores_marks }),
        3 => latch(),
        2 => (1..4_u32).prop_map(|permits| DraftKind::CountPermits { permits }),
    ]
}

/// Returns a strategy for latch operations, most of which have the same count.
fn latch() -> impl Strategy<Value = DraftKind> {
    let count = prop_oneof![4 => Just(2_u32), 1 => Just(3)];
    let arrivals = sample::subsequence(&ARRIVALS[..], 0..3);
    (count, prop::bool::weighted(0.1), arrivals).prop_map(|(count, is_open, arrivals)| DraftKind::Latch {
        count,
        is_open,
        arrivals,
    })
}

fn waiter() -> impl Strategy<Value = &'static str> {
    sample::select(&WAITERS[..])
}

/// Returns a strategy for arrivals: 0, for which the node assigns an arrival, or a number far from
/// all assigned arrivals. A number between two assigned arrivals could order them differently at
/// the two nodes.
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
    (kind(), resources, shared, sample::select(&LEASE_IDS[..]), 1..4_u64)
        .prop_map(|(kind, resources, shared, lease_id, ttl)| Draft { kind, resources, shared, lease_id, ttl })
}

fn guard() -> impl Strategy<Value = RestartGuard> {
    prop_oneof![
        3 => Just(RestartGuard::PerConnection),
        1 => Just(RestartGuard::PerVote),
        2 => Just(RestartGuard::Off),
    ]
}

pub(super) fn registration() -> Draft {
    let kind = DraftKind::Register { new_nodes: NewNodes::Admit, is_clock_off: false };
    Draft { kind, resources: vec!["a"], shared: [false; 3], lease_id: "u:1", ttl: 1 }
}

/// Returns a strategy for steps that build a long queue, which random steps rarely do. One client holds or shares a
/// resource, and all waiters enter the queue. In some cases, the client unlocks, and the first waiter is woken, now or
/// long ago.
pub(super) fn full_queue() -> impl Strategy<Value = Vec<TestStep>> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(is_shared, leaves, is_long_ago)| {
        let mut steps = full_queue_steps(is_shared, leaves);
        steps.extend(is_long_ago.then_some(TestStep::WakeLongAgo("a")));
        steps
    })
}

fn full_queue_steps(is_shared: bool, leaves: bool) -> Vec<TestStep> {
    let shared = [is_shared; 3];
    let draft = |kind| Draft { kind, resources: vec!["a"], shared, lease_id: "u:1", ttl: 3 };
    let zero = || Number::Exactly(0);
    let mut drafts = vec![DraftKind::Lock { hint: zero(), ignores_queue: false, will_not_wait: false }];
    let queued =
        |waiter| DraftKind::Enqueue { waiter, arrival: zero(), enters: true, enqueue_only: true, index: 0 };
    drafts.extend(WAITERS.map(queued));
    let unlock =
        DraftKind::Unlock { notify: true, tombstone: Tombstone::Never, has_waiters: true, rest: None };
    drafts.extend(leaves.then_some(unlock));
    let call_with = move |kind| {
        let drafts = vec![draft(kind)];
        TestStep::Call { guard: RestartGuard::Off, has_present_incarnation: true, drafts }
    };
    drafts.into_iter().map(call_with).collect()
}

/// Returns a strategy for steps about the readers of one resource: readers share it, data of the
/// readers is lost, and then readers and writers send their usual operations. Random steps rarely
/// do all of that to the same resource.
pub(super) fn readers() -> impl Strategy<Value = Vec<TestStep>> {
    let draft = |(kind, lease_id, is_shared, ttl)| Draft {
        kind,
        resources: vec!["a"],
        shared: [is_shared; 3],
        lease_id,
        ttl,
    };
    let call_with =
        |drafts| TestStep::Call { guard: RestartGuard::Off, has_present_incarnation: true, drafts };
    let take = |ignores_queue, will_not_wait| DraftKind::Lock {
        hint: Number::Exactly(0),
        ignores_queue,
        will_not_wait,
    };
    let lock = move || take(false, false);
    let enqueue = |waiter| {
        let arrival = Number::Exactly(0);
        DraftKind::Enqueue { waiter, arrival, enters: true, enqueue_only: false, index: 0 }
    };
    let unlock = |tombstone| DraftKind::Unlock { notify: true, tombstone, has_waiters: false, rest: None };
    let lease_id = || sample::select(&LEASE_IDS[..]);
    let losses = prop_oneof![
        4 => lease_id().prop_map(|lease_id| TestStep::EndReader("a", lease_id)),
        1 => Just(TestStep::LoseLock("a")),
        1 => Just(TestStep::LoseReaders("a")),
        1 => (number(), any::<bool>())
            .prop_map(|(number, has_long_ttl)| TestStep::SetCounter("a", number, has_long_ttl)),
    ];
    let operations = prop_oneof![
        4 => Just(lock()),
        4 => any::<bool>().prop_map(move |will_not_wait| take(true, will_not_wait)),
        2 => waiter().prop_map(enqueue),
        4 => sample::select(&TOMBSTONES[..3]).prop_map(unlock),
        1 => (number(), any::<bool>()).prop_map(|(token, may_have_waiters)| {
            DraftKind::Renew { holds: 1, token, may_have_waiters }
        }),
        1 => number().prop_map(|token| DraftKind::WriteBack { token }),
        2 => transfer(),
        1 => Just(DraftKind::ForceUnlock),
        1 => Just(DraftKind::Inspect { max_details: 2 }),
    ];
    let shares = vec((lease_id(), 1..4_u64), 1..5);
    let operations = vec((operations, lease_id(), prop::bool::weighted(0.7), 1..4_u64), 1..6);
    (shares, vec(losses, 0..3), operations).prop_map(move |(shares, losses, operations)| {
        // The first lock creates the counter.
        let before = [lock(), unlock(Tombstone::Never)].map(|kind| (kind, LEASE_IDS[0], false, 1));
        let shares = shares.into_iter().map(|(lease_id, ttl)| (lock(), lease_id, true, ttl));
        let beginning = before.into_iter().chain(shares).map(draft).map(|draft| call_with(vec![draft]));
        let end = operations.into_iter().map(draft).map(|draft| call_with(vec![draft]));
        beginning.chain(losses).chain(end).collect()
    })
}

/// Returns a strategy for operations that change the node metadata.
fn administration() -> impl Strategy<Value = Draft> {
    let fingerprint = || sample::select(vec!["test", "other", "closed for other from test by 1"]);
    // The steps of a replacement: a new server is closed and opened, and an old node is retired.
    let (joining, replaced) = ("closed for test in place of old:1 by 1", "closed for test replaced by new:1");
    let replacement = sample::select(vec![("test", joining), (joining, "test"), ("test", replaced)]);
    let record = || sample::select(vec!["", "a", "b"]);
    let record_step = prop::option::of(prop_oneof![
        3 => record().prop_map(DraftRecord::Requires),
        1 => record().prop_map(DraftRecord::Writes),
    ]);
    let new_nodes = sample::select(vec![NewNodes::Admit, NewNodes::Quarantine, NewNodes::Ignore]);
    let kind = prop_oneof![
        4 => (new_nodes, prop::bool::weighted(0.2))
            .prop_map(|(new_nodes, is_clock_off)| DraftKind::Register { new_nodes, is_clock_off }),
        2 => (any::<bool>(), prop::bool::weighted(0.2))
            .prop_map(|(is_dry_run, is_clock_off)| DraftKind::Init { is_dry_run, is_clock_off }),
        1 => (fingerprint(), fingerprint())
            .prop_map(|(from, to)| DraftKind::Reconfigure { from, to, record: None }),
        3 => (replacement, record_step)
            .prop_map(|((from, to), record)| DraftKind::Reconfigure { from, to, record }),
        2 => (record(), record()).prop_map(|(from, to)| DraftKind::RecordReplacements { from, to }),
    ];
    let shared = [false; 3];
    kind.prop_map(move |kind| Draft { kind, resources: vec!["a"], shared, lease_id: "u:1", ttl: 1 })
}

fn call(drafts: impl Strategy<Value = Vec<Draft>>) -> impl Strategy<Value = TestStep> {
    (guard(), prop::bool::weighted(0.9), drafts).prop_map(|(guard, has_present_incarnation, drafts)| {
        TestStep::Call { guard, has_present_incarnation, drafts }
    })
}

pub(super) fn step() -> impl Strategy<Value = TestStep> {
    let name = || sample::select(&RESOURCES[..]);
    prop_oneof![
        20 => call(vec(draft(), 1..4)),
        4 => call(administration().prop_map(|draft| vec![draft])),
        2 => name().prop_map(TestStep::LoseLock),
        1 => name().prop_map(TestStep::LoseReaders),
        2 => (name(), sample::select(&LEASE_IDS[..])).prop_map(|(name, lease_id)| TestStep::EndReader(name, lease_id)),
        2 => name().prop_map(TestStep::LoseCounter),
        1 => name().prop_map(TestStep::LoseLeader),
        1 => (name(), number(), any::<bool>())
            .prop_map(|(name, number, has_long_ttl)| TestStep::SetCounter(name, number, has_long_ttl)),
        1 => (number(), prop::bool::weighted(0.8))
            .prop_map(|(minimum_token, is_ours)| TestStep::SetMetadata { minimum_token, is_ours }),
        1 => Just(TestStep::LoseMetadata),
        1 => Just(TestStep::LoseQuarantine),
        1 => Just(TestStep::Restart),
        2 => (name(), waiter()).prop_map(|(name, waiter)| TestStep::EndEntry(name, waiter)),
        2 => (sample::select(Topic::all().collect::<Vec<_>>()), any::<bool>())
            .prop_map(|(topic, listens)| TestStep::Listen(topic, listens)),
        2 => any::<bool>().prop_map(TestStep::Mute),
        3 => name().prop_map(TestStep::WakeLongAgo),
    ]
}
