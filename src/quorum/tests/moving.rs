//! Moves and give-ups: the checks before a change, the nodes that a call closes or opens, and races of calls.

use std::{
    ops::Range,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::{BoxFuture, join};
use tokio::{
    runtime::Handle,
    sync::Notify,
    time::{Instant, timeout},
};

use crate::{
    LockOptions, MemoryCluster, Quorum, QuorumBuilder,
    client::dependencies::ClientDependencies,
    error::{AdminError, ClosedReason, ConfigError, Error, NodeError, NodeReply},
    lock::client::Client,
    mutation::{Mutation, break_rule},
    mutex,
    node::{
        Answer, Listener, Node, Operation, PendingUnlocks, Reconfigure, Reply, Request, Responder,
        Subscription, memory::Behaviour,
    },
    observer::NoObserver,
    quorum::{
        admin::{ask_all_nodes, fingerprint_of, init_if_needed_with, init_with, inspect_started, register},
        moving::{give_up_with, reconfigure_with},
    },
    values::{Fingerprint, Resource},
};

/// A time that is enough to inspect all nodes, even if a node does not answer, and shorter than the pause of a move.
const BEFORE_THE_PAUSE: Duration = Duration::from_secs(20);

/// A time that is longer than a quarantine.
const QUARANTINE: Duration = Duration::from_secs(90);

/// A configuration of a quorum on some nodes of a cluster.
struct Configuration {
    name: &'static str,
    cluster: MemoryCluster,
    max_ttl: Duration,
}

impl Configuration {
    fn new(name: &'static str, all: &MemoryCluster, nodes: Range<usize>) -> Self {
        Self { name, cluster: all.some(nodes), max_ttl: Duration::from_secs(60) }
    }

    fn builder(&self) -> QuorumBuilder {
        // With the default, a node that does not answer would end a move only after `BEFORE_THE_PAUSE`.
        Quorum::builder().name(self.name).max_ttl(self.max_ttl).connect_timeout(Duration::from_secs(5))
    }

    /// Returns the client of an administrator. The requests of the client pass the gate, if there is one.
    fn administrator_behind(&self, gate: Option<&Arc<Gate>>) -> Arc<Client> {
        let settings = self.builder().settings.check(self.cluster.nodes()).unwrap();
        let is_read_only = true;
        let mut nodes = self.cluster.connect(&settings.parameters, is_read_only);
        if let Some(gate) = gate {
            let gated = |node: Arc<dyn Node>| {
                let address = Arc::clone(node.address());
                Arc::new(GatedNode { node, address, gate: Arc::clone(gate) }) as Arc<dyn Node>
            };
            nodes = nodes.into_iter().map(gated).collect();
        }
        let dependencies =
            ClientDependencies::new(self.cluster.clock(), Handle::current(), Arc::new(NoObserver), None);
        Client::start(nodes, settings, dependencies)
    }

    fn administrator(&self) -> Arc<Client> {
        self.administrator_behind(None)
    }

    fn fingerprint(&self) -> Fingerprint {
        fingerprint_of(&self.administrator().context)
    }

    async fn init(&self) {
        init_with(&self.administrator()).await.unwrap();
    }

    async fn move_to(&self, to: &Self) -> Result<(), AdminError> {
        reconfigure_with(&self.administrator(), &to.administrator(), to.name).await.map(drop)
    }

    async fn give_up_move_to(&self, to: &Self) -> Result<(), AdminError> {
        give_up_with(&self.administrator(), &to.administrator()).await
    }

    /// Returns the fingerprints in the metadata of the nodes.
    async fn fingerprints(&self) -> Vec<Option<String>> {
        let fingerprint = |answer: &Answer| match answer {
            Answer::Inspected(inspection) => inspection.fingerprint.as_ref().map(ToString::to_string),
            _ => None,
        };
        inspect_started(&self.administrator().context).await.unwrap().iter().map(fingerprint).collect()
    }

    /// Whether a majority of nodes belongs to this configuration, and may vote.
    async fn is_open(&self) -> bool {
        let ours = Some(self.fingerprint().to_string());
        let nodes = self.fingerprints().await;
        nodes.iter().filter(|node| **node == ours).count() > nodes.len() / 2
    }

    /// Registers the nodes, as the first client of new servers does. The nodes begin a quarantine.
    async fn register_new_nodes(&self) {
        let context = &self.administrator().context;
        let answers = ask_all_nodes(context, register(context)).await;
        let is_quarantined = |answer: &Answer| matches!(answer, Answer::Registered(registration) if registration.quarantine.is_some());
        assert!(answers.iter().all(is_quarantined), "{answers:?}");
    }

    fn client(&self) -> Quorum {
        self.builder().connect_in_memory(&self.cluster).unwrap()
    }

    /// Asserts that a client of this configuration can lock, after the end of quarantines.
    async fn assert_locks(&self) {
        let quorum = self.client();
        let lock = quorum.red_lock(self.name).try_lock_for(Duration::from_secs(90)).await.unwrap();
        drop(lock.expect("a quorum votes"));
    }

    /// Sets the fingerprint of a node, as an interrupted move leaves it.
    async fn set_fingerprint(&self, node: usize, fingerprint: &Fingerprint) {
        let change = Reconfigure { from: self.fingerprint(), to: fingerprint.clone(), record: None };
        let context = &self.administrator().context;
        let deadline = context.now() + Duration::from_secs(1);
        let answers = context.nodes[node].call(Request::one(Operation::Reconfigure(change), deadline)).await;
        assert!(matches!(answers[..], [Answer::Registered(_)]), "{answers:?}");
    }
}

/// A gate between clients and their nodes. The gate lets a number of requests pass, and keeps all later requests until
/// it is opened.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) state: Mutex<GateState>,
    pub(super) has_kept: Notify,
}

#[derive(Debug)]
pub(super) struct GateState {
    /// The number of requests that have reached the gate.
    pub(super) sent: usize,
    /// The number of requests that the gate lets pass.
    open_for: usize,
    kept: Vec<KeptRequest>,
}

/// A request to the node with this address.
#[derive(Debug)]
struct KeptRequest {
    address: Arc<str>,
    node: Arc<dyn Node>,
    request: Request,
    responder: Responder,
}

#[derive(Debug)]
pub(super) struct GatedNode {
    pub(super) node: Arc<dyn Node>,
    pub(super) address: Arc<str>,
    pub(super) gate: Arc<Gate>,
}

impl Gate {
    pub(super) fn new(open_for: usize) -> Arc<Self> {
        let state = GateState { sent: 0, open_for, kept: Vec::new() };
        Arc::new(Self { state: Mutex::new(state), has_kept: Notify::new() })
    }

    /// Whether the gate keeps a request to the node with this address.
    pub(super) fn keeps_request_to(&self, address: &str) -> bool {
        mutex::lock(&self.state).kept.iter().any(|kept| *kept.address == *address)
    }

    /// Lets the kept requests pass, in order, and all later requests.
    pub(super) async fn open(&self) {
        mutex::lock(&self.state).open_for = usize::MAX;
        self.pass_kept().await;
    }

    /// Lets the kept requests pass, in order.
    pub(super) async fn pass_kept(&self) {
        let kept = std::mem::take(&mut mutex::lock(&self.state).kept);
        for KeptRequest { node, request, responder, .. } in kept {
            responder.answer(node.call(request).await);
        }
    }
}

impl Node for GatedNode {
    fn address(&self) -> &Arc<str> {
        &self.address
    }

    fn call(&self, request: Request) -> Reply {
        let mut state = mutex::lock(&self.gate.state);
        state.sent += 1;
        if state.sent <= state.open_for {
            return self.node.call(request);
        }
        let (responder, reply) = Reply::channel(request.operations.len());
        let (address, node) = (Arc::clone(&self.address), Arc::clone(&self.node));
        state.kept.push(KeptRequest { address, node, request, responder });
        self.gate.has_kept.notify_one();
        reply
    }

    fn subscribe(&self, resource: &Resource, listener: Arc<dyn Listener>) -> Subscription {
        self.node.subscribe(resource, listener)
    }

    fn undelivered(&self) -> Vec<PendingUnlocks> {
        self.node.undelivered()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.node.close()
    }
}

/// The old and the new nodes of three moves: different nodes, more nodes, and the same nodes.
const MOVES: [[Range<usize>; 2]; 3] = [[0..3, 3..6], [0..3, 0..5], [0..3, 0..3]];

async fn old_and_new([old, new]: &[Range<usize>; 2]) -> [Configuration; 2] {
    let cluster = MemoryCluster::new(6);
    let old = Configuration::new("old", &cluster, old.clone());
    old.init().await;
    [old, Configuration::new("new", &cluster, new.clone())]
}

/// Returns the number of requests of an undisturbed move.
async fn requests_of_a_move(nodes: &[Range<usize>; 2]) -> usize {
    let [old, new] = old_and_new(nodes).await;
    let gate = Gate::new(usize::MAX);
    let (before, after) = (old.administrator_behind(Some(&gate)), new.administrator_behind(Some(&gate)));
    reconfigure_with(&before, &after, new.name).await.unwrap();
    new.assert_locks().await;
    mutex::lock(&gate.state).sent
}

/// Gives a move up while all requests of the move after the first `in_time` are late. Returns a text if both quorums
/// vote, or if the new quorum votes while a lease of the old one is valid.
async fn give_up_during_a_move(
    nodes: &[Range<usize>; 2],
    in_time: usize,
    is_closed_again: bool,
) -> Option<String> {
    let [old, new] = old_and_new(nodes).await;
    let gate = Gate::new(in_time);
    let (before, after) = (old.administrator_behind(Some(&gate)), new.administrator_behind(Some(&gate)));
    let giving_up = async {
        gate.has_kept.notified().await;
        let given_up = old.give_up_move_to(&new).await;
        let quorum = old.builder().connect_in_memory(&old.cluster).unwrap();
        let options = LockOptions::new().ttl(Duration::from_secs(50)).without_renewal();
        let lease = quorum.red_lock("r").options(options).try_lock().await.ok().flatten();
        assert!(
            given_up.is_err() || lease.is_some(),
            "the move is given up, and the old quorum does not vote"
        );
        if is_closed_again {
            // A second call of the same move is interrupted in its pause.
            drop(timeout(Duration::from_millis(1), old.move_to(&new)).await);
        }
        gate.open().await;
        lease.map(|lease| (lease, quorum))
    };
    let (moved, lease) = tokio::join!(reconfigure_with(&before, &after, new.name), giving_up);
    let context =
        format!("{nodes:?}, {in_time} requests in time, closed again: {is_closed_again}: {moved:?}");
    if new.is_open().await {
        if old.is_open().await {
            return Some(format!("both quorums vote: {context}"));
        }
        if lease.is_some_and(|(lease, _)| lease.is_valid()) {
            return Some(format!("the new quorum votes while an old lease is valid: {context}"));
        }
    }
    None
}

async fn first_violation() -> Option<String> {
    for nodes in &MOVES {
        for in_time in 0..requests_of_a_move(nodes).await {
            for is_closed_again in [false, true] {
                let violation = give_up_during_a_move(nodes, in_time, is_closed_again).await;
                if violation.is_some() {
                    return violation;
                }
            }
        }
    }
    None
}

#[tokio::test(start_paused = true)]
async fn a_move_and_its_give_up_never_let_both_quorums_vote() {
    assert_eq!(first_violation().await, None);
}

#[tokio::test(start_paused = true)]
async fn both_quorums_may_vote_if_one_rule_of_a_move_is_broken() {
    for rule in
        [Mutation::OpenBeforeClosedForGood, Mutation::CloseForGoodWithoutWait, Mutation::OpenClosedForGood]
    {
        let _broken = break_rule(Some(rule));
        assert!(first_violation().await.is_some(), "{rule:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_move_that_ends_at_any_request_can_be_continued_or_given_up() {
    for nodes in &MOVES {
        for in_time in 0..requests_of_a_move(nodes).await {
            for is_given_up in [false, true] {
                let [old, new] = old_and_new(nodes).await;
                let gate = Gate::new(in_time);
                let interrupted = async {
                    let [before, after] = [&old, &new].map(|side| side.administrator_behind(Some(&gate)));
                    tokio::select! {
                        _ = reconfigure_with(&before, &after, new.name) => {}
                        () = gate.has_kept.notified() => {}
                    }
                };
                interrupted.await;
                let context = format!("{nodes:?}, {in_time} requests, given up: {is_given_up}");
                if is_given_up {
                    match old.give_up_move_to(&new).await {
                        Ok(()) => {
                            old.assert_locks().await;
                            continue;
                        }
                        Err(AdminError::TooLate { .. }) => {}
                        Err(other) => panic!("{context}: {other}"),
                    }
                }
                let moved = old.move_to(&new).await;
                assert_eq!(moved, Ok(()), "{context}");
                new.assert_locks().await;
                assert!(!old.is_open().await, "{context}");
            }
        }
    }
}

/// The reason why a new node cannot take part in a move.
#[derive(Clone, Copy, Debug)]
enum Flaw {
    Hangs,
    Fails,
    IsOfAnotherQuorum,
    /// The quarantine that began with a client of another quorum is over, so the node may have voted for this client.
    WasInQuarantine,
    IsClosedForAnotherMove,
}

#[tokio::test(start_paused = true)]
async fn a_move_closes_no_node_unless_every_new_node_can_take_part() {
    for flaw in [
        Flaw::Hangs,
        Flaw::Fails,
        Flaw::IsOfAnotherQuorum,
        Flaw::WasInQuarantine,
        Flaw::IsClosedForAnotherMove,
    ] {
        let [old, new] = old_and_new(&[0..3, 1..6]).await;
        let other = Configuration::new("other", &new.cluster, 4..5);
        let server = &new.cluster.servers()[4];
        match flaw {
            Flaw::Hangs => server.behave(Behaviour::Hanging),
            Flaw::Fails => server.behave(Behaviour::Failing(NodeError::ReadOnly)),
            Flaw::IsOfAnotherQuorum => other.init().await,
            Flaw::WasInQuarantine => {
                other.register_new_nodes().await;
                tokio::time::sleep(QUARANTINE).await;
            }
            Flaw::IsClosedForAnotherMove => {
                other.init().await;
                other.set_fingerprint(0, &Fingerprint::new("closed for name=third")).await;
            }
        }
        let moved =
            timeout(BEFORE_THE_PAUSE, old.move_to(&new)).await.expect("the move ends without a pause");
        match (flaw, moved.unwrap_err()) {
            (Flaw::Hangs | Flaw::Fails, AdminError::Incomplete(replies)) => {
                let replies: Vec<&NodeReply> = replies.iter().map(|(_, reply)| reply).collect();
                assert!(matches!(replies[..], [.., NodeReply::Failed(_)]), "{replies:?}");
                assert!(replies[..4].iter().all(|reply| **reply == NodeReply::NotAsked), "{replies:?}");
            }
            (Flaw::IsOfAnotherQuorum | Flaw::WasInQuarantine, AdminError::OtherQuorum { node, metadata }) => {
                assert_eq!((&*node, &*metadata), ("memory:4", &*other.fingerprint().to_string()));
            }
            (Flaw::IsClosedForAnotherMove, AdminError::OtherQuorum { node, metadata }) => {
                assert_eq!((&*node, &*metadata), ("memory:4", "closed for name=third"));
            }
            (_, error) => panic!("{flaw:?}: {error:?}"),
        }
        assert!(old.fingerprints().await.iter().all(|node| *node == Some(old.fingerprint().to_string())));
        old.assert_locks().await;
    }
}

/// With the slow nodes as silent nodes, the move would fail, because most old nodes could not be closed.
#[tokio::test(start_paused = true)]
async fn a_move_waits_for_slow_nodes_beside_a_node_with_a_wrong_password() {
    let [old, new] = old_and_new(&MOVES[0]).await;
    let servers = old.cluster.servers();
    servers[0].behave(Behaviour::Failing(NodeError::NoAuth("WRONGPASS".into())));
    let slow = async {
        servers[1..].iter().for_each(|server| server.behave(Behaviour::Hanging));
        tokio::time::sleep(Duration::from_millis(900)).await;
        servers[1..].iter().for_each(|server| server.thaw());
    };
    let ((), moved) = tokio::join!(slow, old.move_to(&new));
    moved.unwrap();
    new.assert_locks().await;
}

#[tokio::test(start_paused = true)]
async fn a_move_can_be_given_up_if_a_new_node_fails_during_the_pause() {
    let [old, new] = old_and_new(&MOVES[0]).await;
    let fail = async {
        tokio::time::sleep(BEFORE_THE_PAUSE).await;
        new.cluster.servers()[2].behave(Behaviour::Hanging);
    };
    let (moved, ()) = tokio::join!(old.move_to(&new), fail);
    let again = timeout(BEFORE_THE_PAUSE, old.move_to(&new)).await.expect("the move ends without a pause");
    for outcome in [moved, again] {
        let Err(AdminError::Incomplete(replies)) = &outcome else { panic!("{outcome:?}") };
        // The silent new node has the address of the last old node.
        assert_eq!(replies.done(), 2, "the error names the closed nodes: {replies}");
    }
    assert!(!old.is_open().await);
    old.give_up_move_to(&new).await.unwrap();
    old.assert_locks().await;
}

#[tokio::test(start_paused = true)]
async fn a_move_between_equal_configurations_only_checks_every_node() {
    let [old, _] = old_and_new(&MOVES[0]).await;
    assert_eq!(old.move_to(&old).await, Ok(()));
    let other = Configuration::new("other", &old.cluster, 0..3);
    let refused = other.move_to(&other).await;
    let Err(AdminError::OtherQuorum { node, metadata }) = &refused else { panic!("{refused:?}") };
    assert_eq!((&**node, &**metadata), ("memory:0", &*old.fingerprint().to_string()));
    let refused = old.give_up_move_to(&old).await;
    assert!(
        matches!(refused, Err(AdminError::Config(ConfigError::OutOfRange { setting: "to", .. }))),
        "{refused:?}"
    );
    for server in old.cluster.servers() {
        server.behave(Behaviour::Hanging);
    }
    let refused = old.move_to(&old).await;
    assert!(matches!(refused, Err(AdminError::Incomplete(_))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn nodes_that_are_closed_for_two_moves_are_opened_by_both_give_ups() {
    for is_of_this_version in [true, false] {
        let [old, a] = old_and_new(&MOVES[2]).await;
        let b = Configuration::new("b", &old.cluster, 0..3);
        let closed = |to: &Configuration| match is_of_this_version {
            true => to.fingerprint().closed_by(&old.fingerprint(), "1"),
            false => to.fingerprint().closed_for(),
        };
        for (node, to) in [(0, &a), (1, &a), (2, &b)] {
            old.set_fingerprint(node, &closed(to)).await;
        }
        for to in [&a, &b] {
            let refused = timeout(BEFORE_THE_PAUSE, old.move_to(to)).await.unwrap();
            assert!(matches!(refused, Err(AdminError::OtherQuorum { .. })), "{refused:?}");
        }
        let incomplete = old.give_up_move_to(&a).await;
        let Err(AdminError::Incomplete(replies)) = &incomplete else { panic!("{incomplete:?}") };
        assert_eq!(replies.done(), 2, "{replies}");
        assert!(replies.to_string().contains("closed for name=b"), "{replies}");
        old.give_up_move_to(&b).await.unwrap();
        old.assert_locks().await;
        old.move_to(&b).await.unwrap();
        b.assert_locks().await;
    }
}

/// Each move has closed two of four nodes, and the remaining two are no quorum. Without the refusal, both moves could
/// succeed.
#[tokio::test(start_paused = true)]
async fn two_moves_to_different_nodes_refuse_each_other() {
    let cluster = MemoryCluster::new(10);
    let old = Configuration::new("old", &cluster, 0..4);
    old.init().await;
    let [a, b] = [("a", 4..7), ("b", 7..10)].map(|(name, nodes)| Configuration::new(name, &cluster, nodes));
    for (node, to) in [(0, &a), (1, &a), (2, &b), (3, &b)] {
        old.set_fingerprint(node, &to.fingerprint().closed_by(&old.fingerprint(), "1")).await;
    }
    for to in [&a, &b] {
        let refused = timeout(BEFORE_THE_PAUSE, old.move_to(to)).await.unwrap();
        assert!(matches!(refused, Err(AdminError::OtherQuorum { .. })), "{refused:?}");
        assert!(!to.is_open().await);
    }
}

#[tokio::test(start_paused = true)]
async fn two_concurrent_moves_leave_a_quorum_that_votes() {
    let [old, a] = old_and_new(&MOVES[2]).await;
    let b = Configuration::new("b", &old.cluster, 0..3);
    let (to_a, to_b) = tokio::join!(old.move_to(&a), old.move_to(&b));
    let voting = match (to_a, to_b) {
        (Ok(()), Err(_)) => a,
        (Err(_), Ok(())) => b,
        (Err(_), Err(_)) => old,
        both => panic!("{both:?}"),
    };
    voting.assert_locks().await;
}

/// If the give-up opened nodes for a wrong old configuration, clients of that configuration could lock resources that
/// are still leased under the real one.
#[tokio::test(start_paused = true)]
async fn a_give_up_with_another_old_configuration_opens_nothing() {
    let [old, new] = old_and_new(&MOVES[2]).await;
    let older = Configuration::new("older", &old.cluster, 0..3);
    drop(timeout(BEFORE_THE_PAUSE, old.move_to(&new)).await);
    let before = old.fingerprints().await;
    for (from, to) in [(&older, &new), (&new, &old)] {
        let refused = from.give_up_move_to(to).await;
        assert!(matches!(refused, Err(AdminError::Incomplete(_))), "{refused:?}");
    }
    assert_eq!(old.fingerprints().await, before);
    old.give_up_move_to(&new).await.unwrap();
    old.assert_locks().await;
}

#[tokio::test(start_paused = true)]
async fn a_move_refuses_a_node_that_an_earlier_move_has_dropped() {
    let [first, second] = old_and_new(&[0..3, 1..4]).await;
    first.move_to(&second).await.unwrap();
    let dropped = first.fingerprints().await[0].clone().unwrap();
    let refused = timeout(BEFORE_THE_PAUSE, second.move_to(&first)).await.unwrap();
    let Err(AdminError::OtherQuorum { node, metadata }) = &refused else { panic!("{refused:?}") };
    assert_eq!((&**node, &**metadata), ("memory:0", &*dropped));
    second.assert_locks().await;
}

#[tokio::test(start_paused = true)]
async fn a_move_includes_a_node_of_the_old_configuration_outside_of_the_old_list() {
    let [old, new] = old_and_new(&[0..3, 0..4]).await;
    let alone = Configuration::new("alone", &new.cluster, 3..4);
    alone.init().await;
    alone.set_fingerprint(0, &old.fingerprint()).await;
    old.move_to(&new).await.unwrap();
    assert!(new.fingerprints().await.iter().all(|node| *node == Some(new.fingerprint().to_string())));
}

/// The way in which fresh nodes join the new configuration before the end of the move.
#[derive(Clone, Copy, Debug)]
enum EarlyStart {
    Init,
    Client,
}

/// Interrupts a move to other nodes in its pause, and lets the new nodes join the new configuration without the move.
async fn interrupted_beside_new_nodes(early_start: EarlyStart) -> [Configuration; 2] {
    let [old, new] = old_and_new(&MOVES[0]).await;
    drop(timeout(BEFORE_THE_PAUSE, old.move_to(&new)).await);
    match early_start {
        EarlyStart::Init => new.init().await,
        EarlyStart::Client => new.register_new_nodes().await,
    }
    new.assert_locks().await;
    [old, new]
}

/// Gives a move up although new nodes vote. Returns a text if both quorums vote.
async fn give_up_beside_new_nodes(early_start: EarlyStart, silent: Range<usize>) -> Option<String> {
    let [old, new] = interrupted_beside_new_nodes(early_start).await;
    for server in &new.cluster.servers()[silent] {
        server.behave(Behaviour::Hanging);
    }
    let given_up = old.give_up_move_to(&new).await;
    for server in new.cluster.servers() {
        server.thaw();
    }
    if old.is_open().await && new.is_open().await {
        return Some(format!("both quorums vote: {early_start:?}: {given_up:?}"));
    }
    let Err(AdminError::TooLate { metadata, .. }) = &given_up else { panic!("{given_up:?}") };
    assert_eq!(**metadata, *new.fingerprint().to_string());
    None
}

#[tokio::test(start_paused = true)]
async fn a_give_up_opens_no_node_beside_a_quorum_of_new_nodes() {
    for early_start in [EarlyStart::Init, EarlyStart::Client] {
        for silent in [0..0, 0..1, 1..3] {
            assert_eq!(give_up_beside_new_nodes(early_start, silent).await, None);
        }
        let _broken = break_rule(Some(Mutation::GiveUpBesideNewQuorum));
        assert!(give_up_beside_new_nodes(early_start, 0..0).await.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_give_up_succeeds_beside_a_minority_of_new_nodes() {
    let [old, new] = old_and_new(&MOVES[0]).await;
    drop(timeout(BEFORE_THE_PAUSE, old.move_to(&new)).await);
    let alone = Configuration::new("alone", &new.cluster, 0..1);
    alone.init().await;
    alone.set_fingerprint(0, &new.fingerprint()).await;
    old.give_up_move_to(&new).await.unwrap();
    old.assert_locks().await;
}

#[tokio::test(start_paused = true)]
async fn a_move_is_complete_only_if_old_nodes_are_closed_for_good() {
    let [old, new] = interrupted_beside_new_nodes(EarlyStart::Init).await;
    assert_eq!(old.move_to(&new).await, Ok(()));
    for server in new.cluster.servers() {
        server.behave(Behaviour::Hanging);
    }
    let given_up = old.give_up_move_to(&new).await;
    assert!(matches!(given_up, Err(AdminError::TooLate { .. })), "{given_up:?}");
    assert!(!old.is_open().await);
    for server in new.cluster.servers() {
        server.thaw();
    }
    let again = timeout(BEFORE_THE_PAUSE, old.move_to(&new)).await.expect("nothing is left to do");
    assert_eq!(again, Ok(()));
    // If the old nodes do not answer, the call cannot show that they are closed for good.
    for server in old.cluster.servers() {
        server.behave(Behaviour::Hanging);
    }
    let again = old.move_to(&new).await;
    assert!(matches!(again, Err(AdminError::Incomplete(_))), "{again:?}");
}

/// Moves a quorum of the nodes 0 to 2 with a wrong list of old nodes. Returns a text if both quorums vote.
async fn move_from_wrong_nodes(listed: Range<usize>, failing: Range<usize>) -> Option<String> {
    let cluster = MemoryCluster::new(9);
    let [old, wrong] = [0..3, listed].map(|nodes| Configuration::new("old", &cluster, nodes));
    let new = Configuration::new("new", &cluster, 6..9);
    old.init().await;
    for server in &cluster.servers()[failing] {
        server.behave(Behaviour::Failing(NodeError::ReadOnly));
    }
    let moved = wrong.move_to(&new).await;
    for server in cluster.servers() {
        server.thaw();
    }
    if old.is_open().await && new.is_open().await {
        return Some(format!("both quorums vote: {moved:?}"));
    }
    let Err(AdminError::Incomplete(replies)) = &moved else { panic!("{moved:?}") };
    assert_eq!(replies.done(), 0, "{replies}");
    for fresh in [Configuration::new("fresh", &cluster, 3..6), new] {
        assert!(fresh.fingerprints().await.iter().all(Option::is_none), "a fresh node has metadata");
    }
    old.assert_locks().await;
    None
}

#[tokio::test(start_paused = true)]
async fn a_move_needs_enough_nodes_with_the_metadata_of_the_old_configuration() {
    // Two or all nodes of the list are fresh; or only one node is fresh, and a node of the quorum fails.
    for (listed, failing) in [(2..5, 0..0), (3..6, 0..0), (1..4, 1..2)] {
        assert_eq!(move_from_wrong_nodes(listed, failing).await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_give_up_with_a_list_of_fresh_old_nodes_is_incomplete() {
    let cluster = MemoryCluster::new(9);
    let [old, wrong] = [0..3, 6..9].map(|nodes| Configuration::new("old", &cluster, nodes));
    let new = Configuration::new("new", &cluster, 3..6);
    old.init().await;
    drop(timeout(BEFORE_THE_PAUSE, old.move_to(&new)).await);
    let given_up = wrong.give_up_move_to(&new).await;
    assert!(matches!(given_up, Err(AdminError::Incomplete(_))), "{given_up:?}");
    assert!(!old.is_open().await);
}

#[tokio::test(start_paused = true)]
async fn a_move_succeeds_beside_an_old_node_that_restarted_empty() {
    for nodes in &MOVES {
        for emptied_in_the_pause in [false, true] {
            let [old, new] = old_and_new(nodes).await;
            let forget = async {
                if emptied_in_the_pause {
                    tokio::time::sleep(BEFORE_THE_PAUSE).await;
                }
                old.cluster.servers()[1].forget();
            };
            let (moved, ()) = tokio::join!(
                async {
                    tokio::task::yield_now().await;
                    old.move_to(&new).await
                },
                forget
            );
            assert_eq!(moved, Ok(()), "{nodes:?}");
            new.assert_locks().await;
            assert!(!old.is_open().await, "{nodes:?}");
        }
    }
}

/// The first client of the nodes had a wrong configuration. The nodes have given no vote, so `init` takes them over.
#[tokio::test(start_paused = true)]
async fn nodes_in_their_first_quarantine_stay_new_after_a_move_that_failed_or_was_given_up() {
    for is_given_up in [false, true] {
        let cluster = MemoryCluster::new(6);
        let [wrong, right] = ["wrong", "right"].map(|name| Configuration::new(name, &cluster, 0..3));
        let new = Configuration::new("new", &cluster, 3..6);
        wrong.register_new_nodes().await;
        if is_given_up {
            drop(timeout(Duration::from_secs(1), wrong.move_to(&new)).await);
            let refused = init_with(&right.administrator()).await;
            assert!(matches!(refused, Err(AdminError::NotNew { .. })), "{refused:?}");
            wrong.give_up_move_to(&new).await.unwrap();
        } else {
            // The new nodes answer the inspection and the dry run, and no later request.
            let gate = Gate::new(6);
            let (before, after) = (wrong.administrator(), new.administrator_behind(Some(&gate)));
            let moved = reconfigure_with(&before, &after, new.name).await;
            assert!(matches!(moved, Err(AdminError::Incomplete(_))), "{moved:?}");
        }
        right.init().await;
        right.assert_locks().await;
    }
}

/// Returns a quorum of the nodes 0 to 2, a configuration of the nodes 1 to 3, and the configuration of the first client
/// of node 3, which was refused because the node is in quarantine.
async fn move_to_a_node_of_another_first_client() -> [Configuration; 3] {
    let [old, new] = old_and_new(&[0..3, 1..4]).await;
    let other = Configuration::new("other", &new.cluster, 2..3);
    other.register_new_nodes().await;
    [old, new, other]
}

#[tokio::test(start_paused = true)]
async fn a_move_takes_over_a_new_node_in_its_first_quarantine() {
    let [old, new, other] = move_to_a_node_of_another_first_client().await;
    // The quarantine ends during the pause. The node must not vote for its first client from then on.
    let moving = old.move_to(&new);
    let locking = async {
        tokio::time::sleep(BEFORE_THE_PAUSE).await;
        let quorum = other.builder().connect_in_memory(&other.cluster).unwrap();
        let locked = quorum.red_lock("r").try_lock_for(QUARANTINE).await;
        assert!(!matches!(locked, Ok(Some(_))), "{locked:?}");
    };
    let (moved, ()) = tokio::join!(moving, locking);
    assert_eq!(moved, Ok(()));
    // Without one of the other nodes, the node that was taken over has to vote.
    new.cluster.servers()[0].behave(Behaviour::Hanging);
    new.assert_locks().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_taken_over_returns_to_its_first_configuration_without_the_move() {
    for is_given_up in [false, true] {
        let [old, new, other] = move_to_a_node_of_another_first_client().await;
        if is_given_up {
            drop(timeout(Duration::from_secs(1), old.move_to(&new)).await);
            let closed = other.fingerprints().await[0].clone().unwrap();
            assert!(closed.starts_with("closed for name=new"), "{closed}");
            old.give_up_move_to(&new).await.unwrap();
        } else {
            // A majority of old nodes answers only the inspections and the dry run before the change.
            let gate = Gate::new(3);
            let before = old.administrator_behind(Some(&gate));
            let moved = reconfigure_with(&before, &new.administrator(), new.name).await;
            assert!(matches!(moved, Err(AdminError::Incomplete(_))), "{moved:?}");
        }
        assert_eq!(other.fingerprints().await, [Some(other.fingerprint().to_string())]);
        // The node has given no vote, and stays new.
        let last = Configuration::new("last", &other.cluster, 0..1);
        last.init().await;
        last.assert_locks().await;
        old.assert_locks().await;
    }
}

/// The list of old nodes is wrong: two of its nodes do not belong to the quorum.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_taken_over_counts_as_no_closed_old_node() {
    let cluster = MemoryCluster::new(6);
    let [old, wrong] = [0..3, 2..5].map(|nodes| Configuration::new("old", &cluster, nodes));
    let new = Configuration::new("new", &cluster, 3..6);
    let other = Configuration::new("other", &cluster, 3..5);
    old.init().await;
    other.register_new_nodes().await;
    let refused = timeout(BEFORE_THE_PAUSE, wrong.move_to(&new)).await.expect("no pause");
    assert!(matches!(refused, Err(AdminError::OtherQuorum { .. })), "{refused:?}");
    // An interrupted move from the right nodes takes the other nodes over.
    drop(timeout(Duration::from_secs(1), old.move_to(&new)).await);
    let closed = other.fingerprints().await;
    assert!(closed.iter().flatten().all(|node| node.contains("taken over")), "{closed:?}");
    let refused = timeout(BEFORE_THE_PAUSE, wrong.move_to(&new)).await.expect("no pause");
    assert!(matches!(refused, Err(AdminError::Incomplete(_))), "{refused:?}");
}

/// A call of an administrator.
#[derive(Clone, Copy, Debug)]
enum AdminCall {
    Init,
    InitIfNeeded,
    Move,
    GiveUp,
}

#[tokio::test(start_paused = true)]
async fn an_admin_call_ends_when_a_client_of_the_call_is_closed() {
    let calls = [AdminCall::Init, AdminCall::InitIfNeeded, AdminCall::Move, AdminCall::GiveUp];
    for (call, closed) in calls.into_iter().flat_map(|call| [(call, 0), (call, 1)]) {
        let [old, new] = old_and_new(&MOVES[0]).await;
        // A move waits in its pause, and the other calls wait for a silent node.
        if !matches!(call, AdminCall::Move) {
            old.cluster.servers()[0].behave(Behaviour::Hanging);
        }
        let clients = [old.administrator(), new.administrator()];
        let [before, after] = &clients;
        let calling = async {
            match call {
                AdminCall::Init => init_with(before).await,
                AdminCall::InitIfNeeded => init_if_needed_with(before).await.map(drop),
                AdminCall::Move => reconfigure_with(before, after, new.name).await.map(drop),
                AdminCall::GiveUp => give_up_with(before, after).await,
            }
        };
        let is_of_one_client = matches!(call, AdminCall::Init | AdminCall::InitIfNeeded);
        let close = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            clients[if is_of_one_client { 0 } else { closed }].context.close(ClosedReason::RuntimeEnded);
            Instant::now()
        };
        let (ended, closed_at) = tokio::join!(calling, close);
        assert_eq!(ended, Err(AdminError::Closed(ClosedReason::RuntimeEnded)), "{call:?}");
        assert_eq!(Instant::now(), closed_at, "{call:?}");
        // A later call ends at once, too.
        let again = timeout(Duration::ZERO, init_with(&clients[closed])).await;
        if !is_of_one_client || closed == 0 {
            assert_eq!(again, Ok(Err(AdminError::Closed(ClosedReason::RuntimeEnded))));
        }
    }
}

/// The lifetime of a ticket that waits in a queue for longer than a minute.
const LONG_TICKET: Duration = Duration::from_secs(600);

#[tokio::test(start_paused = true)]
async fn a_move_to_a_longer_max_ttl_admits_longer_tickets() {
    let cluster = MemoryCluster::new(3);
    let old = Configuration::new("old", &cluster, 0..3);
    let new = Configuration { max_ttl: LONG_TICKET, ..Configuration::new("new", &cluster, 0..3) };
    old.init().await;
    let client = old.client();
    let refused = client.red_lock("r").lock().await.unwrap().into_ticket(LONG_TICKET).await;
    assert!(matches!(refused, Err(Error::Config(ConfigError::OutOfRange { .. }))), "{refused:?}");
    let earlier = client.red_lock("r").lock().await.unwrap().into_ticket(old.max_ttl).await.unwrap();
    let held = client.red_lock("s").lock().await.unwrap();

    let begin = Instant::now();
    let moving = async {
        old.move_to(&new).await.unwrap();
        begin.elapsed()
    };
    let meanwhile = async {
        // The move has closed the old nodes, and the ticket lives.
        tokio::time::sleep(BEFORE_THE_PAUSE).await;
        for client in [&client, &new.client()] {
            assert!(client.red_lock("t").try_lock().await.is_err());
            assert!(client.redeem(&earlier, LockOptions::new()).await.is_err());
        }
        held.lost().await;
        assert!(held.into_ticket(old.max_ttl).await.is_err());
    };
    let (took, ()) = join(moving, meanwhile).await;
    let pause = LONG_TICKET.mul_f64(1.01) + Duration::from_millis(2);
    assert!(took >= pause && took < pause + Duration::from_secs(1), "{took:?}");

    let client = new.client();
    assert!(client.redeem(&earlier, LockOptions::new()).await.unwrap().is_none());
    let ticket = client.red_lock("r").lock().await.unwrap().into_ticket(LONG_TICKET).await.unwrap();
    tokio::time::sleep(LONG_TICKET - Duration::from_secs(10)).await;
    assert!(client.redeem(&ticket, LockOptions::new()).await.unwrap().is_some());
}
