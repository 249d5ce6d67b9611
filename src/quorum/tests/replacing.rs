//! Replacements: the checks before a change, interruptions after every request, and clients of both lists.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, LocalBoxFuture, Shared},
};
use tokio::{runtime::Handle, time::sleep};

use super::moving::{Gate, GatedNode};
use crate::{
    LockGuard, LockOptions, MemoryCluster, Quorum, QuorumBuilder, RestartGuard,
    client::dependencies::ClientDependencies,
    clock::Clock,
    error::{AdminError, ConfigError, NodeError, NodeReplies, NodeReply, Refusal},
    lock::client::Client,
    mutation::{Mutation, break_rule},
    mutex,
    node::{
        Answer, Listener, Node, Operation, PendingUnlocks, Reconfigure, RecordReplacements, RecordStep,
        Reply, Request, Subscription, memory::Behaviour,
    },
    observer::NoObserver,
    quorum::{
        admin::{ask_all_nodes, fingerprint_of, init_with, inspect_started, register},
        moving::{ask_each, reconfigure_with},
        replacing::{NodeLists, Replacement, abandon_with, replace_with},
    },
    values::{Fingerprint, Resource},
};

/// The servers of the old nodes.
const OLD_LIST: [usize; 3] = [0, 1, OLD];

/// The servers of the new nodes.
const NEW_LIST: [usize; 3] = [0, 1, NEW];

/// The server that is replaced.
const OLD: usize = 2;

/// The new server.
const NEW: usize = 3;

/// The index of both servers in their lists.
const REPLACED: usize = 2;

/// A time that is longer than a quarantine.
const QUARANTINE: Duration = Duration::from_secs(65);

/// Three nodes that are a quorum, and new servers.
struct Fixture {
    cluster: MemoryCluster,
    /// The seconds by which the clocks of servers are ahead, or behind if negative.
    ahead: Mutex<BTreeMap<usize, i64>>,
}

impl Fixture {
    async fn new() -> Self {
        Self::of(&OLD_LIST).await
    }

    fn new_servers(count: usize) -> Self {
        Self { cluster: MemoryCluster::new(count), ahead: Mutex::default() }
    }

    /// Returns servers of which these are a quorum.
    async fn of(list: &[usize]) -> Self {
        let fixture = Self::new_servers(6);
        init_with(&fixture.client(list)).await.unwrap();
        fixture
    }

    fn builder() -> QuorumBuilder {
        Quorum::builder().connect_timeout(Duration::from_secs(5))
    }

    fn client(&self, list: &[usize]) -> Arc<Client> {
        self.client_of(Self::builder(), list, &Gate::new(usize::MAX), None)
    }

    /// Returns a client of these servers, which does not register empty servers. The requests of the client pass the
    /// gate, and the client does not reach the server `cut_off`.
    fn client_of(
        &self,
        builder: QuorumBuilder,
        list: &[usize],
        gate: &Arc<Gate>,
        cut_off: Option<usize>,
    ) -> Arc<Client> {
        let cluster = self.cluster.select(list);
        let settings = builder.settings.check(list.len()).unwrap();
        let is_read_only = true;
        let nodes = cluster.connect(&settings.parameters, is_read_only).into_iter().zip(list);
        let gated = |(node, server): (Arc<dyn Node>, &usize)| {
            let gate = if cut_off == Some(*server) { Gate::new(0) } else { Arc::clone(gate) };
            let node = Arc::new(GatedNode { node, address: address(*server).into(), gate }) as Arc<dyn Node>;
            match mutex::lock(&self.ahead).get(server) {
                Some(ahead) => {
                    Arc::new(SkewedNode { node, clock: cluster.clock(), ahead: *ahead }) as Arc<dyn Node>
                }
                None => node,
            }
        };
        let dependencies =
            ClientDependencies::new(cluster.clock(), Handle::current(), Arc::new(NoObserver), None);
        Client::start(nodes.map(gated).collect(), settings, dependencies)
    }

    /// Returns a client that locks, and does not reach the server `cut_off`.
    fn quorum(&self, list: &[usize], cut_off: Option<usize>) -> Quorum {
        Quorum::new(self.client_of(Self::builder(), list, &Gate::new(usize::MAX), cut_off))
    }

    async fn replace(&self, is_old_gone: bool) -> Result<(), AdminError> {
        self.replace_behind(&Gate::new(usize::MAX), is_old_gone).await
    }

    async fn replace_behind(&self, gate: &Arc<Gate>, is_old_gone: bool) -> Result<(), AdminError> {
        let [before, after] =
            [OLD_LIST, NEW_LIST].map(|list| self.client_of(Self::builder(), &list, gate, None));
        replace_with(&before, &after, REPLACED, true, is_old_gone).await
    }

    /// Abandons the replacement of the old node by the new server.
    async fn abandon(&self, is_old_gone: bool) -> Result<NodeReplies, AdminError> {
        self.abandon_by(NEW, is_old_gone).await
    }

    /// Abandons the replacement of the old node by this server.
    async fn abandon_by(&self, new: usize, is_old_gone: bool) -> Result<NodeReplies, AdminError> {
        let (old, new) = (self.client(&OLD_LIST), self.client(&[0, 1, new]));
        abandon_with(&old, &new, REPLACED, is_old_gone).await.map(|abandoned| abandoned.replies)
    }

    /// Changes the record of a server of the old list, which has to be `from`.
    async fn set_record(&self, server: usize, from: &str, to: &str) {
        let client = self.client(&OLD_LIST);
        let change = Operation::RecordReplacements(RecordReplacements { from: from.into(), to: to.into() });
        let answers = ask_each(&client.context, |node| (node == server).then(|| change.clone())).await;
        assert_eq!(answers[server], Some(Answer::Recorded { text: to.into() }));
    }

    /// Returns the record of a server of the old list.
    async fn record_on(&self, server: usize) -> String {
        let read = Operation::RecordReplacements(RecordReplacements { from: "".into(), to: "".into() });
        let client = self.client(&OLD_LIST);
        let answers = ask_each(&client.context, |node| (node == server).then(|| read.clone())).await;
        match &answers[server] {
            Some(Answer::Recorded { text }) => text.to_string(),
            other => panic!("{other:?}"),
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        fingerprint_of(&self.client(&OLD_LIST).context)
    }

    /// Returns the fingerprint of a server; `None` if the server has no metadata.
    async fn fingerprint_on(&self, server: usize) -> Option<String> {
        let client = self.client_of(Self::builder().votes_needed(1), &[server], &Gate::new(usize::MAX), None);
        match &inspect_started(&client.context).await.unwrap()[..] {
            [Answer::Inspected(inspection)] => inspection.fingerprint.as_ref().map(ToString::to_string),
            other => panic!("{other:?}"),
        }
    }

    /// Changes the fingerprint of a server of the new list, in place of a call that was interrupted.
    async fn set_fingerprint(&self, list: &[usize], server: usize, to: Fingerprint) {
        let client = self.client(list);
        let index = list.iter().position(|other| *other == server).unwrap();
        let change = Operation::Reconfigure(Reconfigure { from: self.fingerprint(), to, record: None });
        let answers = ask_each(&client.context, |node| (node == index).then(|| change.clone())).await;
        assert!(matches!(answers[index], Some(Answer::Registered(_))), "{answers:?}");
    }

    /// Registers the new server, as a client with the new list does that connects too early.
    async fn register_new(&self) {
        let context = &self.client(&NEW_LIST).context;
        let answers = ask_all_nodes(context, register(context)).await;
        assert!(
            matches!(&answers[REPLACED], Answer::Registered(new) if new.quarantine.is_some()),
            "{answers:?}"
        );
    }
}

/// A node whose clock differs from that of the other nodes.
#[derive(Debug)]
struct SkewedNode {
    node: Arc<dyn Node>,
    clock: Arc<dyn Clock>,
    /// The seconds by which the clock is ahead, or behind if negative.
    ahead: i64,
}

impl Node for SkewedNode {
    fn address(&self) -> &Arc<str> {
        self.node.address()
    }

    fn call(&self, request: Request) -> Reply {
        if !matches!(request.operations[..], [Operation::ReadClock(_)]) {
            return self.node.call(request);
        }
        let (responder, reply) = Reply::channel(1);
        let by = Duration::from_secs(self.ahead.unsigned_abs());
        let now = self.clock.time_of_day();
        let time = if self.ahead < 0 { now - by } else { now + by };
        responder.answer(vec![Answer::Clock { time }]);
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

fn address(server: usize) -> String {
    format!("node-{server}:6379")
}

/// Polls a call until its gate has kept a request, or until the call ends. Returns the rest of the call.
async fn stalled<'c>(
    call: impl Future<Output = Result<(), AdminError>> + 'c,
    gate: &Gate,
) -> Shared<LocalBoxFuture<'c, Result<(), AdminError>>> {
    let call = call.boxed_local().shared();
    tokio::select! {
        _ = call.clone() => {}
        () = gate.has_kept.notified() => {}
    }
    call
}

async fn lock(quorum: &Quorum, resource: &str) -> Option<LockGuard> {
    let options = LockOptions::new().ttl(Duration::from_secs(50)).without_renewal();
    quorum.red_lock(resource).options(options).try_lock().await.ok().flatten()
}

/// Replaces a node by a call that is interrupted after its first requests, and by a second call. Returns a text if two
/// clients hold one resource: the first client has the old list and does not reach server 1, and the second client has
/// the new list and does not reach server 0.
async fn replace_beside_leases(in_time: usize, is_old_dead: bool, is_late: bool) -> Option<String> {
    let fixture = Fixture::new().await;
    let context = format!("{in_time} requests in time, old node dead: {is_old_dead}, late: {is_late}");
    let (old_client, new_client) = (fixture.quorum(&OLD_LIST, Some(1)), fixture.quorum(&NEW_LIST, Some(0)));
    let held = lock(&old_client, "held").await.expect("the first two nodes and the old node vote");
    if is_old_dead {
        fixture.cluster.servers()[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
    }
    let gate = Gate::new(in_time);
    tokio::select! {
        _ = fixture.replace_behind(&gate, is_old_dead) => {}
        () = gate.has_kept.notified() => {}
    }
    if !is_late {
        gate.open().await;
    }
    let is_held_twice = async || lock(&new_client, "held").await.is_some() && held.is_valid();
    let attacking = async {
        // No client has the new list before the new server is closed.
        while fixture.fingerprint_on(NEW).await.is_none() {
            sleep(Duration::from_millis(100)).await;
        }
        while !is_held_twice().await {
            sleep(Duration::from_secs(1)).await;
        }
    };
    let replaced = tokio::select! {
        replaced = fixture.replace(is_old_dead) => Some(replaced),
        () = attacking => None,
    };
    if replaced.is_none() || is_held_twice().await {
        return Some(format!("two clients hold one resource: {context}"));
    }
    assert_eq!(replaced, Some(Ok(())), "{context}");
    gate.open().await;
    let second = lock(&new_client, "second").await;
    assert!(is_late || second.is_some(), "the new server does not vote: {context}");
    if is_old_dead {
        return None;
    }
    let first = lock(&old_client, "second").await;
    if first.is_some() && second.is_some() {
        return Some(format!("the old node and the new server vote: {context}"));
    }
    let replaced = fixture.fingerprint().replaced_by(&address(NEW)).to_string();
    let of_old = fixture.fingerprint_on(OLD).await;
    (of_old != Some(replaced)).then(|| format!("the old node has {of_old:?}: {context}"))
}

async fn requests_of_a_replacement() -> usize {
    requests_of(false).await
}

/// Returns the number of requests of a replacement. A dead node is asked many times.
async fn requests_of(is_old_dead: bool) -> usize {
    let (fixture, gate) = (Fixture::new().await, Gate::new(usize::MAX));
    if is_old_dead {
        fixture.cluster.servers()[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
    }
    fixture.replace_behind(&gate, is_old_dead).await.unwrap();
    mutex::lock(&gate.state).sent
}

/// Returns the number of requests of a replacement until the new server is open.
async fn requests_until_open(is_old_dead: bool) -> usize {
    for in_time in 0.. {
        let (fixture, gate) = (Fixture::new().await, Gate::new(in_time));
        if is_old_dead {
            fixture.cluster.servers()[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
        }
        drop(stalled(fixture.replace_behind(&gate, is_old_dead), &gate).await);
        if open_of(&fixture, &[NEW]).await == [NEW] {
            return in_time;
        }
    }
    unreachable!("a replacement opens the new server after some requests")
}

async fn first_violation() -> Option<String> {
    for [is_old_dead, is_late] in [[false, false], [false, true], [true, false], [true, true]] {
        for in_time in 0..=requests_of(is_old_dead).await {
            let violation = replace_beside_leases(in_time, is_old_dead, is_late).await;
            if violation.is_some() {
                return violation;
            }
        }
    }
    None
}

#[tokio::test(start_paused = true)]
async fn no_two_clients_hold_one_resource_if_a_replacement_is_interrupted_and_repeated() {
    assert_eq!(first_violation().await, None);
}

#[tokio::test(start_paused = true)]
async fn two_clients_may_hold_one_resource_if_one_rule_of_a_replacement_is_broken() {
    for rule in [Mutation::JoinBesideOld, Mutation::JoinWithoutQuarantine] {
        let _broken = break_rule(Some(rule));
        assert!(first_violation().await.is_some(), "{rule:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_a_client_has_registered_too_early_is_refused_until_it_is_flushed() {
    let fixture = Fixture::new().await;
    fixture.register_new().await;
    let refused = AdminError::NotEmpty {
        node: address(NEW).into(),
        metadata: fixture.fingerprint().to_string().into(),
    };
    assert_eq!(fixture.replace(false).await, Err(refused));
    fixture.cluster.servers()[NEW].flush();
    assert_eq!(fixture.replace(false).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn an_ended_replacement_is_found_again_although_the_old_node_does_not_answer() {
    let fixture = Fixture::new().await;
    fixture.replace(false).await.unwrap();
    let before = tokio::time::Instant::now();
    fixture.replace(false).await.unwrap();
    assert_eq!(before.elapsed(), Duration::ZERO, "the old node shows the end of the replacement");
    fixture.cluster.servers()[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
    let silent = fixture.replace(false).await;
    assert!(matches!(silent, Err(AdminError::OldSilent { .. })), "{silent:?}");
    fixture.replace(true).await.unwrap();
    assert!(before.elapsed() < Duration::from_secs(15), "no second quarantine: {:?}", before.elapsed());
}

/// The new server may have voted beside the old node, because a flushed node votes again.
#[tokio::test(start_paused = true)]
async fn an_old_node_that_has_lost_its_mark_is_retired_again() {
    for votes_again in [false, true] {
        let fixture = Fixture::new().await;
        fixture.replace(false).await.unwrap();
        fixture.cluster.servers()[OLD].flush();
        if votes_again {
            let context = &fixture.client(&OLD_LIST).context;
            drop(ask_all_nodes(context, register(context)).await);
            sleep(QUARANTINE).await;
        }
        let before = tokio::time::Instant::now();
        fixture.replace(!votes_again).await.unwrap();
        assert!(before.elapsed() > Duration::from_secs(60), "{:?}", before.elapsed());
        let replaced = fixture.fingerprint().replaced_by(&address(NEW)).to_string();
        assert_eq!(fixture.fingerprint_on(OLD).await, Some(replaced));
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_gone_is_replaced_by_one_server_only() {
    let fixture = Fixture::new().await;
    fixture.cluster.servers()[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
    fixture.replace(true).await.unwrap();
    let replaced = AdminError::AlreadyReplaced { node: address(OLD).into(), by: address(NEW).into() };
    assert_eq!(replace_gone_by(&fixture, &OLD_LIST, &[0, 1, 4]).await, Err(replaced));
    replace_by(&fixture, &NEW_LIST, &[0, 1, 4]).await.unwrap();
    let replaced = AdminError::AlreadyReplaced { node: address(OLD).into(), by: address(4).into() };
    assert_eq!(replace_gone_by(&fixture, &OLD_LIST, &[0, 1, 5]).await, Err(replaced));
}

/// The settings of a quorum do not show which servers belong to the quorum.
#[tokio::test(start_paused = true)]
async fn a_voter_that_no_replacement_has_opened_stands_in_for_no_node() {
    let fixture = Fixture::new().await;
    fixture.register_new().await;
    sleep(QUARANTINE).await;
    fixture.cluster.servers()[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
    let ours = fixture.fingerprint().to_string();
    let refused = AdminError::NotEmpty { node: address(NEW).into(), metadata: ours.clone().into() };
    assert_eq!(fixture.replace(true).await, Err(refused));
    assert_eq!(fixture.fingerprint_on(NEW).await, Some(ours));
}

/// Replaces server 1 by server 4. The settings name the servers 0 and 2 beside server 1.
async fn replace_another(fixture: &Fixture, gate: &Arc<Gate>) -> Result<(), AdminError> {
    let [before, after] =
        [[0, OLD, 1], [0, OLD, 4]].map(|list| fixture.client_of(Fixture::builder(), &list, gate, None));
    replace_with(&before, &after, REPLACED, true, false).await
}

/// With two retired nodes, every lease would be lost.
#[tokio::test(start_paused = true)]
async fn of_two_replacements_of_different_nodes_at_the_same_time_one_is_refused() {
    let mut refused = 0;
    for in_time in 0..requests_of_a_replacement().await {
        let (fixture, gate) = (Fixture::new().await, Gate::new(in_time));
        let mut first = Box::pin(fixture.replace_behind(&gate, false));
        tokio::select! {
            _ = &mut first => {}
            () = gate.has_kept.notified() => {}
        }
        let second = replace_another(&fixture, &Gate::new(usize::MAX)).await;
        gate.open().await;
        let first = first.await;
        let ours = Some(fixture.fingerprint().to_string());
        let votes = [fixture.fingerprint_on(OLD).await == ours, fixture.fingerprint_on(1).await == ours];
        assert!(votes[0] || votes[1], "{in_time}: {first:?}, {second:?}");
        assert!(first.is_err() || second.is_err(), "{in_time}");
        if let Err(AdminError::UnfinishedReplacement { node, old }) = &second {
            assert_eq!((&**node, &**old), (&*address(NEW), &*address(OLD)));
            refused += 1;
        }
    }
    assert!(refused > 0);
}

#[tokio::test(start_paused = true)]
async fn a_replacement_waits_for_the_end_of_an_interrupted_one() {
    for in_time in 0..requests_of_a_replacement().await {
        let fixture = Fixture::new().await;
        replace_partly(&fixture, in_time).await;
        let second = replace_another(&fixture, &Gate::new(usize::MAX)).await;
        let of_old = fixture.fingerprint_on(OLD).await.unwrap();
        if second.is_ok() {
            assert_eq!(of_old, fixture.fingerprint().to_string(), "{in_time}: both nodes are retired");
            continue;
        }
        assert_eq!(fixture.replace(false).await, Ok(()), "{in_time}: {second:?}");
        let [before, after] = [[0, NEW, 1], [0, NEW, 4]];
        assert_eq!(replace_by(&fixture, &before, &after).await, Ok(()), "{in_time}");
    }
}

/// The server that was to stand in for a node is retired by no call, and no second server stands in for the node.
#[tokio::test(start_paused = true)]
async fn an_interrupted_replacement_by_another_server_is_refused_or_was_not_begun() {
    for is_old_dead in [false, true] {
        for in_time in 0..requests_of(is_old_dead).await {
            let fixture = Fixture::new().await;
            if is_old_dead {
                fixture.cluster.servers()[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
            }
            let gate = Gate::new(in_time);
            tokio::select! {
                _ = fixture.replace_behind(&gate, is_old_dead) => {}
                () = gate.has_kept.notified() => {}
            }
            let other = replace_gone_by(&fixture, &OLD_LIST, &[0, 1, 4]).await;
            let first = fixture.replace(is_old_dead).await;
            let ours = Some(fixture.fingerprint().to_string());
            let open = [fixture.fingerprint_on(NEW).await, fixture.fingerprint_on(4).await]
                .map(|of_new| of_new == ours);
            assert_eq!([first.is_ok(), other.is_ok()], open, "{in_time}: {first:?}, {other:?}");
            assert!(open[0] != open[1], "{in_time}: {first:?}, {other:?}");
        }
    }
}

/// The call continues after the replacement was abandoned, and another server stands in for the node that is gone.
#[tokio::test(start_paused = true)]
async fn a_call_that_continues_late_opens_no_second_server() {
    let mut has_opened_other = false;
    for in_time in 0..requests_of(true).await {
        let fixture = Fixture::new().await;
        fixture.cluster.servers()[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
        let gate = Gate::new(in_time);
        let mut first = Box::pin(fixture.replace_behind(&gate, true));
        tokio::select! {
            ended = &mut first => panic!("{in_time}: {ended:?}"),
            () = gate.has_kept.notified() => {}
        }
        if let Err(error) = fixture.abandon(true).await {
            let retired = AdminError::AlreadyReplaced { node: address(OLD).into(), by: address(NEW).into() };
            assert_eq!(error, retired, "{in_time}");
            break;
        }
        let other = replace_gone_by(&fixture, &OLD_LIST, &[0, 1, 4]).await;
        // The answer to the kept request arrives before the call looks at its deadline.
        gate.open().await;
        let first = first.await;
        let ours = Some(fixture.fingerprint().to_string());
        let open = [fixture.fingerprint_on(NEW).await == ours, fixture.fingerprint_on(4).await == ours];
        assert!(open != [true, true], "{in_time}: {first:?}, {other:?}");
        has_opened_other |= open[1];
    }
    assert!(has_opened_other);
}

/// The replacement that cannot be ended is abandoned.
#[tokio::test(start_paused = true)]
async fn a_dead_node_can_be_replaced_although_another_replacement_was_interrupted_before() {
    for in_time in 0..requests_of_a_replacement().await {
        let fixture = Fixture::new().await;
        replace_partly(&fixture, in_time).await;
        if fixture.fingerprint_on(OLD).await != Some(fixture.fingerprint().to_string()) {
            return;
        }
        fixture.cluster.servers()[1].behave(Behaviour::Failing(NodeError::TimedOut));
        let first = fixture.replace(false).await;
        assert!(matches!(first, Err(AdminError::OthersNeeded(_))), "{in_time}: {first:?}");
        fixture.abandon(false).await.unwrap();
        let second = replace_gone_by(&fixture, &[0, OLD, 1], &[0, OLD, 4]).await;
        assert_eq!(second, Ok(()), "{in_time}");
    }
    panic!("no call has retired the old node");
}

/// Returns those of these servers that belong to the quorum.
async fn open_of(fixture: &Fixture, servers: &[usize]) -> Vec<usize> {
    let ours = Some(fixture.fingerprint().to_string());
    let mut open = Vec::new();
    for server in servers {
        if fixture.fingerprint_on(*server).await == ours {
            open.push(*server);
        }
    }
    open
}

/// Stalls a replacement of one node, abandons it, stalls a replacement of another node, and continues the first one.
/// Returns a text if both nodes are retired, and no server votes in their place.
async fn retire_two_nodes() -> Option<String> {
    let requests = requests_until_open(false).await;
    // The first call has to stand still before one request, its retirement. The second call has several requests between
    // its retirement and the opening of its server.
    for first_in_time in 0..requests {
        for second_in_time in (0..requests).step_by(2) {
            let fixture = Fixture::new().await;
            let gates = [Gate::new(first_in_time), Gate::new(second_in_time)];
            let first = stalled(fixture.replace_behind(&gates[0], false), &gates[0]).await;
            let abandoned = fixture.abandon(false).await;
            let second = stalled(replace_another(&fixture, &gates[1]), &gates[1]).await;
            gates[0].open().await;
            tokio::select! {
                _ = first.clone() => {}
                () = sleep(Duration::from_secs(1)) => {}
            }
            let voting = open_of(&fixture, &[OLD, NEW, 1, 4]).await;
            if voting.is_empty() {
                return Some(format!("{first_in_time}, {second_in_time}: {abandoned:?}"));
            }
            gates[1].open().await;
            let outcomes = tokio::join!(first, second);
            if outcomes.0.is_ok() && outcomes.1.is_ok() {
                return Some(format!("{first_in_time}, {second_in_time}: both have ended"));
            }
        }
    }
    None
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_call_that_continues_late_retires_no_second_node() {
    assert_eq!(retire_two_nodes().await, None);
}

#[tokio::test(start_paused = true)]
async fn two_nodes_may_be_retired_if_a_retirement_compares_no_record() {
    let _broken = break_rule(Some(Mutation::RetireWithoutRecord));
    assert!(retire_two_nodes().await.is_some());
}

/// A call retires a living node and stalls. Then the node dies, and another server stands in for it.
async fn open_beside_a_late_retirement() -> Vec<Vec<usize>> {
    let mut open = Vec::new();
    for in_time in 0..requests_of_a_replacement().await {
        let fixture = Fixture::new().await;
        let gate = Gate::new(in_time);
        let late = stalled(fixture.replace_behind(&gate, false), &gate).await;
        let is_retired = fixture.fingerprint_on(OLD).await != Some(fixture.fingerprint().to_string());
        fixture.cluster.servers()[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
        drop(fixture.abandon(true).await);
        let other = replace_gone_by(&fixture, &OLD_LIST, &[0, 1, 4]).await;
        gate.open().await;
        let late = late.await;
        let both = open_of(&fixture, &[NEW, 4]).await;
        assert_eq!(other.is_ok(), both.contains(&4), "{in_time}: {late:?}, {other:?}");
        if is_retired {
            open.push(both);
        }
    }
    open
}

#[tokio::test(start_paused = true)]
async fn a_late_retirement_opens_no_server_beside_another_one() {
    let open = open_beside_a_late_retirement().await;
    assert!(
        open.contains(&vec![4]) && open.contains(&vec![NEW]) && !open.contains(&vec![NEW, 4]),
        "{open:?}"
    );
}

/// The call stalls before the address of its old node is used again.
#[tokio::test(start_paused = true)]
async fn a_call_that_continues_after_its_old_address_was_used_again_opens_no_server() {
    for in_time in 0..requests_of_a_replacement().await {
        let fixture = Fixture::new().await;
        let gate = Gate::new(in_time);
        let [before, after] =
            [&OLD_LIST, &[0, 1, 4]].map(|list| fixture.client_of(Fixture::builder(), list, &gate, None));
        let late = stalled(replace_with(&before, &after, REPLACED, true, false), &gate).await;
        if let Err(error) = fixture.abandon_by(4, false).await {
            let retired = AdminError::AlreadyReplaced { node: address(OLD).into(), by: address(4).into() };
            assert_eq!(error, retired, "{in_time}");
            assert!(in_time > 5, "{in_time}");
            return;
        }
        fixture.replace(false).await.unwrap();
        fixture.cluster.servers()[OLD].flush();
        replace_by(&fixture, &NEW_LIST, &OLD_LIST).await.unwrap();
        gate.open().await;
        let late = late.await;
        let open = open_of(&fixture, &[OLD, NEW, 4]).await;
        // A call that had begun nothing is like a new call.
        assert!(
            open == [OLD] && late.is_err() || open == [4] && late.is_ok(),
            "{in_time}: {open:?}, {late:?}"
        );
    }
    panic!("no call has retired the old node");
}

#[tokio::test(start_paused = true)]
async fn a_begin_or_an_end_of_an_earlier_call_is_no_statement_that_the_old_node_is_gone() {
    for of_earlier in ["begun x", "retired", "done"] {
        for broken in [None, Some(Mutation::AssumeGone)] {
            let _broken = break_rule(broken);
            let fixture = Fixture::new().await;
            let record = format!("{} by {} {of_earlier}", address(OLD), address(NEW));
            fixture.set_record(0, "", &record).await;
            fixture.cluster.servers()[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
            let replaced = fixture.replace(false).await;
            let is_silent = matches!(replaced, Err(AdminError::OldSilent { .. }));
            assert_eq!(is_silent, broken.is_none(), "{of_earlier}: {replaced:?}");
        }
    }
}

/// A server that closes the connection runs: an established one, or each new one.
#[tokio::test(start_paused = true)]
async fn a_node_that_closes_the_connection_is_not_gone() {
    for error in [NodeError::Disconnected, NodeError::NotExecuted("closed".into())] {
        let fixture = Fixture::new().await;
        fixture.cluster.servers()[OLD].behave(Behaviour::Failing(error.clone()));
        let refused = AdminError::OldRefuses { node: address(OLD).into(), error };
        assert_eq!(fixture.replace(true).await, Err(refused));
    }
}

/// The call reaches a node of another quorum, in which another server stands in for the node.
#[tokio::test(start_paused = true)]
async fn an_old_node_that_was_replaced_in_another_quorum_names_no_server_of_this_one() {
    let fixture = Fixture::new().await;
    let replaced = Fingerprint::new("name=b").replaced_by(&address(4));
    fixture.set_fingerprint(&OLD_LIST, OLD, replaced.clone()).await;
    let error = fixture.replace(false).await.unwrap_err();
    let other = AdminError::OtherQuorum { node: address(OLD).into(), metadata: replaced.to_string().into() };
    assert_eq!(error, other);
    assert!(error.to_string().contains("(closed for name=b replaced by node-4:6379)"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_voter_is_no_new_server_although_a_replacement_by_it_was_begun() {
    for broken in [None, Some(Mutation::AcceptAnyVoter)] {
        let _broken = break_rule(broken);
        let fixture = Fixture::new().await;
        fixture.register_new().await;
        sleep(QUARANTINE).await;
        fixture.set_record(0, "", &format!("{} by {} begun x", address(OLD), address(NEW))).await;
        let replaced = fixture.replace(false).await;
        assert_eq!(matches!(replaced, Err(AdminError::NotEmpty { .. })), broken.is_none(), "{replaced:?}");
    }
}

/// The call fails at the old node, which another replacement needs, after its begins on the other nodes.
#[tokio::test(start_paused = true)]
async fn a_call_that_fails_withdraws_its_own_begin_only() {
    for broken in [None, Some(Mutation::WithdrawAny)] {
        let _broken = break_rule(broken);
        let fixture = Fixture::new().await;
        let retired = format!("{} by {} retired", address(OLD), address(NEW));
        let begun = format!("{} by {} begun x", address(1), address(4));
        fixture.set_record(0, "", &retired).await;
        fixture.set_record(OLD, "", &begun).await;
        let unfinished =
            AdminError::UnfinishedReplacement { node: address(4).into(), old: address(1).into() };
        assert_eq!(fixture.replace(false).await, Err(unfinished));
        let records = [fixture.record_on(0).await, fixture.record_on(1).await, fixture.record_on(OLD).await];
        assert_eq!(records == [retired, String::new(), begun], broken.is_none(), "{records:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_replacement_whose_old_node_is_retired_is_not_abandoned() {
    let fixture = begun_replacement().await;
    let retired = AdminError::AlreadyReplaced { node: address(OLD).into(), by: address(NEW).into() };
    assert_eq!(fixture.abandon(false).await, Err(retired.clone()));
    fixture.replace(false).await.unwrap();
    assert_eq!(fixture.abandon(false).await, Err(retired.clone()));
    fixture.cluster.servers()[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
    assert_eq!(fixture.abandon(true).await, Err(retired));
}

/// The begin stays on the nodes that did not answer, until the next call.
#[tokio::test(start_paused = true)]
async fn an_abandoned_replacement_prevents_no_other_one() {
    let fixture = Fixture::new().await;
    for server in [0, 1, OLD] {
        fixture.set_record(server, "", &format!("{} by {} begun x", address(OLD), address(NEW))).await;
    }
    let unfinished =
        AdminError::UnfinishedReplacement { node: address(NEW).into(), old: address(OLD).into() };
    assert_eq!(replace_another(&fixture, &Gate::new(usize::MAX)).await, Err(unfinished.clone()));
    let servers = fixture.cluster.servers();
    servers[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
    assert!(matches!(fixture.abandon(false).await, Err(AdminError::OldSilent { .. })));
    servers[OLD].behave(Behaviour::Granting);
    servers[1].behave(Behaviour::Failing(NodeError::TimedOut));
    let replies = fixture.abandon(false).await.unwrap();
    assert_eq!(replies.all()[0], NodeReply::Done);
    assert!(matches!(replies.all()[1], NodeReply::Failed(_)), "{replies}");
    servers[1].behave(Behaviour::Granting);
    assert_eq!(replace_gone_by(&fixture, &OLD_LIST, &[0, 1, 4]).await, Err(unfinished));
    assert_eq!(fixture.abandon(false).await.unwrap().done(), 2);
    assert_eq!(replace_gone_by(&fixture, &OLD_LIST, &[0, 1, 4]).await, Ok(()));
}

/// A wrong address of a call that abandons leaves the begin of the replacement on the nodes.
#[tokio::test(start_paused = true)]
async fn an_abandon_names_the_replacement_that_was_begun_with_other_servers() {
    let fixture = Fixture::new().await;
    let abandon_by = async |new: usize| {
        let client = |list: &[usize]| fixture.client(list);
        let abandoned =
            abandon_with(&client(&OLD_LIST), &client(&[0, 1, new]), REPLACED, false).await.unwrap();
        (abandoned.was_begun, abandoned.unfinished.map(|pair| (pair.old, pair.new)))
    };
    assert_eq!(abandon_by(NEW).await, (false, None));
    fixture.set_record(1, "", &format!("{} by {} begun x", address(OLD), address(NEW))).await;
    let begun = Some((address(OLD), address(NEW)));
    assert_eq!(abandon_by(4).await, (false, begun));
    assert_eq!(abandon_by(NEW).await, (true, None));
    // Only the old node has the begin.
    fixture.set_record(OLD, "", &format!("{} by {} begun x", address(OLD), address(NEW))).await;
    assert_eq!(abandon_by(NEW).await, (true, None));
    assert_eq!(abandon_by(NEW).await, (false, None));
}

/// The old node loses the mark of its retirement and votes, while a call is about to open the new server. A second call has
/// found the old node. Returns whether the old node and the new server were open at the same time.
async fn open_late_beside_a_returned_node() -> bool {
    let requests = requests_until_open(false).await;
    let (mut has_stalled, mut are_both_open) = (false, false);
    for in_time in 0..requests {
        for second_in_time in 0..requests {
            let fixture = Fixture::new().await;
            let gates = [Gate::new(in_time), Gate::new(second_in_time)];
            let _late = stalled(fixture.replace_behind(&gates[0], false), &gates[0]).await;
            if !open_of(&fixture, &[OLD, NEW]).await.is_empty() {
                break;
            }
            fixture.cluster.servers()[OLD].flush();
            let context = &fixture.client(&OLD_LIST).context;
            drop(ask_all_nodes(context, register(context)).await);
            let _second = stalled(fixture.replace_behind(&gates[1], false), &gates[1]).await;
            let is_open = open_of(&fixture, &[OLD]).await == [OLD];
            if !is_open || !fixture.record_on(OLD).await.contains("begun") {
                continue;
            }
            has_stalled = true;
            gates[0].pass_kept().await;
            are_both_open |= open_of(&fixture, &[OLD, NEW]).await.len() > 1;
        }
    }
    assert!(has_stalled);
    are_both_open
}

#[tokio::test(start_paused = true)]
async fn a_server_that_another_call_has_closed_again_is_not_opened_late() {
    for broken in [None, Some(Mutation::KeepEarlierClose)] {
        let _broken = break_rule(broken);
        assert_eq!(open_late_beside_a_returned_node().await, broken.is_some());
    }
}

/// Returns the number of requests of a replacement before its last question to the old node, which is dead. After no answer
/// to this question, the call relies on the statement that the node is gone.
async fn requests_until_last_question() -> usize {
    for in_time in (0..requests_until_open(true).await).rev() {
        let (fixture, gate) = (Fixture::new().await, Gate::new(in_time));
        fixture.cluster.servers()[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
        drop(stalled(fixture.replace_behind(&gate, true), &gate).await);
        if gate.keeps_request_to(&address(OLD)) {
            return in_time;
        }
    }
    unreachable!("a replacement asks the old node")
}

/// The old node answers again after a call that was told that the node is gone has found no answer, and at the latest to the
/// last question of the call. `questions` is the number of requests before that question. Returns whether the old node and
/// the new server were open at the same time.
async fn open_beside_a_node_that_answers_again(questions: usize) -> bool {
    for in_time in 0..=questions {
        let fixture = Fixture::new().await;
        fixture.cluster.servers()[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
        let gate = Gate::new(in_time);
        let call = stalled(fixture.replace_behind(&gate, true), &gate).await;
        fixture.cluster.servers()[OLD].behave(Behaviour::Granting);
        for _ in 0..100 {
            gate.pass_kept().await;
            tokio::select! {
                _ = call.clone() => break,
                () = sleep(Duration::from_millis(1)) => {}
            }
            if open_of(&fixture, &[OLD, NEW]).await.len() > 1 {
                return true;
            }
        }
    }
    false
}

#[tokio::test(start_paused = true)]
async fn an_old_node_that_answers_after_the_begin_is_not_gone() {
    let questions = requests_until_last_question().await;
    for broken in [None, Some(Mutation::KeepFirstSilence)] {
        let _broken = break_rule(broken);
        assert_eq!(open_beside_a_node_that_answers_again(questions).await, broken.is_some());
    }
}

/// The begin of a call is removed from one node while the call is about to record that the old node is gone. Returns whether
/// the call opens the new server.
async fn opens_without_one_begin() -> bool {
    let (mut has_stalled, mut is_opened) = (false, false);
    for in_time in 0..requests_until_open(true).await {
        let fixture = Fixture::new().await;
        fixture.cluster.servers()[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
        let gate = Gate::new(in_time);
        let call = stalled(fixture.replace_behind(&gate, true), &gate).await;
        let record = fixture.record_on(1).await;
        if !record.contains("begun") {
            continue;
        }
        has_stalled = true;
        fixture.set_record(1, &record, "").await;
        gate.open().await;
        let superseded =
            AdminError::ReplacementSuperseded { node: address(NEW).into(), old: address(OLD).into() };
        is_opened |= call.await != Err(superseded);
        is_opened |= open_of(&fixture, &[NEW]).await == [NEW];
    }
    assert!(has_stalled);
    is_opened
}

#[tokio::test(start_paused = true)]
async fn the_server_of_a_gone_node_is_opened_only_after_a_record_on_every_other_node() {
    for broken in [None, Some(Mutation::RecordGoneOnOne)] {
        let _broken = break_rule(broken);
        assert_eq!(opens_without_one_begin().await, broken.is_some());
    }
}

/// A move that counted a retired node as closed would leave a quorum of the old configuration, with the server that is
/// opened late.
#[tokio::test(start_paused = true)]
async fn a_move_does_not_count_a_retired_node_as_closed() {
    for broken in [None, Some(Mutation::CountRetiredAsClosed)] {
        let fixture = begun_replacement().await;
        fixture.cluster.servers()[1].behave(Behaviour::Failing(NodeError::TimedOut));
        let after = fixture.client_of(Fixture::builder().name("new"), &[4, 5], &Gate::new(usize::MAX), None);
        let _broken = break_rule(broken);
        let moved = reconfigure_with(&fixture.client(&OLD_LIST), &after, "new").await;
        assert_eq!(moved.is_err(), broken.is_none(), "{moved:?}");
    }
}

/// Each call stands still after some requests, while the same call withdraws its record and another call goes on.
#[tokio::test(start_paused = true)]
async fn two_servers_that_two_stalled_calls_name_are_not_both_opened() {
    let requests = requests_until_open(true).await;
    let mut has_opened = [false, false];
    for first_in_time in (0..requests).step_by(3) {
        for second_in_time in (0..requests).step_by(3) {
            let fixture = Fixture::new().await;
            fixture.cluster.servers()[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
            let client = |list: &[usize], gate: &Arc<Gate>, cut_off| {
                fixture.client_of(Fixture::builder(), list, gate, cut_off)
            };
            let gates = [Gate::new(first_in_time), Gate::new(second_in_time)];
            let first = stalled(fixture.replace_behind(&gates[0], true), &gates[0]).await;
            drop(fixture.abandon(true).await);
            let [before, after] = [&OLD_LIST, &[0, 1, 4]].map(|list| client(list, &gates[1], None));
            let second = replace_with(&before, &after, REPLACED, true, true);
            let second = stalled(second, &gates[1]).await;
            // From a host that does not reach one node.
            let all = Gate::new(usize::MAX);
            let [cut_before, cut_after] = [&OLD_LIST, &[0, 1, 4]].map(|list| client(list, &all, Some(0)));
            drop(abandon_with(&cut_before, &cut_after, REPLACED, true).await);
            gates[0].open().await;
            gates[1].open().await;
            let ours = Some(fixture.fingerprint().to_string());
            let outcomes = tokio::join!(first, second);
            assert!(outcomes.0.is_err() || outcomes.1.is_err(), "{first_in_time}, {second_in_time}");
            let open = [fixture.fingerprint_on(NEW).await == ours, fixture.fingerprint_on(4).await == ours];
            assert!(open != [true, true], "{first_in_time}, {second_in_time}");
            has_opened = [has_opened[0] || open[0], has_opened[1] || open[1]];
        }
    }
    assert_eq!(has_opened, [true, true]);
}

/// A node that restarts during a replacement keeps a record that has not ended.
#[tokio::test(start_paused = true)]
async fn a_begin_that_stays_on_one_node_is_ended_by_the_same_call() {
    let fixture = Fixture::new().await;
    fixture.replace(false).await.unwrap();
    let done = format!("{} by {} done", address(OLD), address(NEW));
    let begun = format!("{} by {} begun x", address(OLD), address(NEW));
    fixture.set_record(1, &done, &begun).await;
    let unfinished =
        AdminError::UnfinishedReplacement { node: address(NEW).into(), old: address(OLD).into() };
    assert_eq!(replace_by(&fixture, &[0, NEW, 1], &[0, NEW, 4]).await, Err(unfinished));
    fixture.replace(false).await.unwrap();
    assert_eq!(replace_by(&fixture, &[0, NEW, 1], &[0, NEW, 4]).await, Ok(()));
}

/// A record that was not read by the call that retires a node, such as one of a replacement of another node.
#[tokio::test(start_paused = true)]
async fn an_old_node_that_is_needed_for_another_replacement_is_not_retired() {
    let fixture = Fixture::new().await;
    let client = fixture.client(&OLD_LIST);
    let begun: Arc<str> = format!("{} by {} begun x", address(1), address(4)).into();
    let change = RecordReplacements { from: "".into(), to: Arc::clone(&begun) };
    let retire = Reconfigure {
        from: fixture.fingerprint(),
        to: fixture.fingerprint().replaced_by(&address(NEW)),
        record: Some(RecordStep::Requires("".into())),
    };
    for operation in [Operation::RecordReplacements(change), Operation::Reconfigure(retire)] {
        let answers = ask_each(&client.context, |node| (node == REPLACED).then(|| operation.clone())).await;
        assert_eq!(answers[REPLACED], Some(Answer::Recorded { text: Arc::clone(&begun) }));
    }
    let unfinished = AdminError::UnfinishedReplacement { node: address(4).into(), old: address(1).into() };
    assert_eq!(fixture.replace(false).await, Err(unfinished));
    assert_eq!(fixture.fingerprint_on(OLD).await, Some(fixture.fingerprint().to_string()));
}

#[tokio::test(start_paused = true)]
async fn a_new_server_that_dies_after_the_retirement_is_replaced_in_turn() {
    let fixture = begun_replacement().await;
    fixture.cluster.servers()[NEW].behave(Behaviour::Failing(NodeError::TimedOut));
    let unfinished =
        AdminError::UnfinishedReplacement { node: address(NEW).into(), old: address(OLD).into() };
    assert_eq!(replace_gone_by(&fixture, &NEW_LIST, &[0, 1, 4]).await, Err(unfinished));
    let needed = fixture.replace(false).await;
    let Err(AdminError::NewNeeded { node, old, .. }) = &needed else { panic!("{needed:?}") };
    assert_eq!((&**node, &**old), (&*address(NEW), &*address(OLD)));
    fixture.cluster.servers()[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
    let replaced = AdminError::AlreadyReplaced { node: address(OLD).into(), by: address(NEW).into() };
    assert_eq!(replace_gone_by(&fixture, &OLD_LIST, &[0, 1, 4]).await, Err(replaced));
    assert_eq!(replace_gone_by(&fixture, &NEW_LIST, &[0, 1, 4]).await, Ok(()));
}

/// The call completes the records on the other nodes before it asks for the replacement of the new server.
#[tokio::test(start_paused = true)]
async fn a_new_server_that_dies_after_the_end_of_a_gone_node_is_replaced_in_turn() {
    let mut has_recorded_one = false;
    for in_time in (0..requests_until_open(true).await).rev() {
        let fixture = Fixture::new().await;
        fixture.cluster.servers()[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
        let gate = Gate::new(in_time);
        drop(stalled(fixture.replace_behind(&gate, true), &gate).await);
        let records = [fixture.record_on(0).await, fixture.record_on(1).await];
        if !records[0].contains("retired") {
            break;
        }
        has_recorded_one |= records[1].contains("begun");
        fixture.cluster.servers()[NEW].behave(Behaviour::Failing(NodeError::TimedOut));
        let needed = fixture.replace(true).await;
        assert!(matches!(needed, Err(AdminError::NewNeeded { .. })), "{needed:?}");
        assert_eq!(replace_gone_by(&fixture, &NEW_LIST, &[0, 1, 4]).await, Ok(()));
    }
    assert!(has_recorded_one);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_the_settings_do_not_name_is_not_gone() {
    let fixture = Fixture::new().await;
    fixture.cluster.servers()[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
    let [before, after] = [OLD_LIST, NEW_LIST].map(|list| fixture.client(&list));
    let refused = replace_with(&before, &after, REPLACED, false, true).await;
    assert!(matches!(refused, Err(AdminError::Config(ConfigError::OutOfRange { .. }))), "{refused:?}");
    fixture.replace(true).await.unwrap();
    assert_eq!(replace_with(&before, &after, REPLACED, false, true).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_running_client_keeps_its_locks_and_shows_the_new_address() {
    let fixture = Fixture::new().await;
    let quorum = fixture.quorum(&OLD_LIST, None);
    let guard = quorum.red_lock("held").lock().await.unwrap();
    let using = async {
        for _ in 0..100 {
            drop(quorum.red_lock("other").try_lock().await.unwrap().expect("the other nodes are a quorum"));
            sleep(Duration::from_secs(1)).await;
        }
    };
    let (replaced, ()) = tokio::join!(fixture.replace(false), using);
    assert_eq!(replaced, Ok(()));
    assert!(guard.is_valid());
    let health = quorum.health().await;
    assert!(health.has_quorum() && health.voting() == 2, "{health}");
    let replaced = health.nodes().find_map(|node| node.holder().err()?.replaced_by().map(str::to_owned));
    assert_eq!(replaced, Some(address(NEW)));
    let text = format!("{}: the node was replaced by {}", address(OLD), address(NEW));
    assert!(health.to_string().contains(&text), "{health}");
    assert!(fixture.quorum(&NEW_LIST, None).health().await.voting() == 3);
}

#[tokio::test(start_paused = true)]
async fn a_new_server_without_votes_can_be_replaced_in_turn() {
    let fixture = Fixture::new().await;
    let gate = Gate::new(usize::MAX);
    tokio::select! {
        _ = fixture.replace_behind(&gate, false) => panic!("the quarantine is over"),
        () = sleep(Duration::from_secs(1)) => {}
    }
    let Err(AdminError::AlreadyReplaced { node, by }) = replace_by(&fixture, &OLD_LIST, &[0, 1, 4]).await
    else {
        panic!("a second server stands in for the node")
    };
    assert_eq!((&*node, &*by), (&*address(OLD), &*address(NEW)));
    replace_by(&fixture, &NEW_LIST, &[0, 1, 4]).await.unwrap();
    assert!(lock(&fixture.quorum(&[0, 1, 4], Some(0)), "a").await.is_some());
}

/// Replaces the last server of the first list by the last server of the second list.
async fn replace_by(fixture: &Fixture, before: &[usize], after: &[usize]) -> Result<(), AdminError> {
    replace_with(&fixture.client(before), &fixture.client(after), REPLACED, true, false).await
}

/// Replaces a server as [`replace_by`], with the statement that it is gone for good.
async fn replace_gone_by(fixture: &Fixture, before: &[usize], after: &[usize]) -> Result<(), AdminError> {
    replace_with(&fixture.client(before), &fixture.client(after), REPLACED, true, true).await
}

/// Replaces the node by an interrupted call with this number of requests.
async fn replace_partly(fixture: &Fixture, in_time: usize) {
    let gate = Gate::new(in_time);
    tokio::select! {
        _ = fixture.replace_behind(&gate, false) => {}
        () = gate.has_kept.notified() => {}
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_replacement_is_continued_after_any_time() {
    for in_time in 0..requests_of_a_replacement().await {
        let fixture = Fixture::new().await;
        replace_partly(&fixture, in_time).await;
        let ours = Some(fixture.fingerprint().to_string());
        let of_both = [fixture.fingerprint_on(OLD).await, fixture.fingerprint_on(NEW).await];
        assert_ne!(of_both, [ours.clone(), ours], "{in_time}: both servers may vote");
        sleep(QUARANTINE).await;
        assert_eq!(fixture.replace(false).await, Ok(()), "{in_time} requests in time");
        assert!(lock(&fixture.quorum(&NEW_LIST, Some(0)), "a").await.is_some());
    }
}

/// Returns three nodes, of which the old one is retired, and a new server that is closed.
async fn begun_replacement() -> Fixture {
    for in_time in 0.. {
        let fixture = Fixture::new().await;
        replace_partly(&fixture, in_time).await;
        let [of_old, of_new] = [fixture.fingerprint_on(OLD).await, fixture.fingerprint_on(NEW).await];
        if of_old.is_some_and(|text| text.contains(" replaced by ")) {
            assert!(of_new.unwrap().contains(" in place of "));
            return fixture;
        }
    }
    unreachable!("a replacement ends after some requests")
}

#[tokio::test(start_paused = true)]
async fn a_replacement_is_ended_although_another_node_has_died_after_its_begin() {
    let fixture = begun_replacement().await;
    fixture.cluster.servers()[1].behave(Behaviour::Failing(NodeError::TimedOut));
    assert_eq!(fixture.replace(false).await, Ok(()));
    assert!(lock(&fixture.quorum(&NEW_LIST, Some(1)), "a").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_server_of_an_interrupted_replacement_cannot_be_replaced_while_its_old_node_votes() {
    let fixture = Fixture::new().await;
    fixture.register_new().await;
    let joining = fixture.fingerprint().joining_by(&address(OLD), "1");
    fixture.set_fingerprint(&NEW_LIST, NEW, joining).await;
    let unfinished =
        AdminError::UnfinishedReplacement { node: address(NEW).into(), old: address(OLD).into() };
    assert_eq!(replace_by(&fixture, &NEW_LIST, &[0, 1, 4]).await, Err(unfinished));
    // Nor can the server stand in for another node.
    let metadata = fixture.fingerprint_on(NEW).await.unwrap().into();
    let refused = AdminError::NotEmpty { node: address(NEW).into(), metadata };
    assert_eq!(replace_by(&fixture, &[0, OLD, 1], &[0, OLD, NEW]).await, Err(refused));
    assert_eq!(fixture.replace(false).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn an_old_node_without_metadata_is_replaced_only_if_it_is_said_to_be_gone() {
    let fixture = Fixture::of(&[0, 1, 4]).await;
    let empty = AdminError::OldEmpty { node: address(OLD).into() };
    assert_eq!(fixture.replace(false).await, Err(empty));
    assert_eq!([fixture.fingerprint_on(OLD).await, fixture.fingerprint_on(NEW).await], [None, None]);
    assert_eq!(fixture.replace(true).await, Ok(()));
    let replaced = fixture.fingerprint().replaced_by(&address(NEW)).to_string();
    assert_eq!(fixture.fingerprint_on(OLD).await, Some(replaced));
}

/// A server that answers with an error may vote for other clients, such as those with the right password.
#[tokio::test(start_paused = true)]
async fn a_node_that_answers_with_an_error_is_not_gone() {
    let fixture = Fixture::new().await;
    let error = NodeError::ReadOnly;
    fixture.cluster.servers()[OLD].behave(Behaviour::Failing(error.clone()));
    let refused = AdminError::OldRefuses { node: address(OLD).into(), error };
    assert_eq!(fixture.replace(true).await, Err(refused));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_the_settings_do_not_name_is_retired_by_no_call() {
    let fixture = Fixture::new().await;
    let [before, after] = [OLD_LIST, NEW_LIST].map(|list| fixture.client(&list));
    let refused = replace_with(&before, &after, REPLACED, false, false).await;
    let Err(AdminError::Config(ConfigError::OutOfRange { setting, .. })) = &refused else {
        panic!("{refused:?}")
    };
    assert_eq!(*setting, "old");
    fixture.replace(false).await.unwrap();
    assert_eq!(replace_with(&before, &after, REPLACED, false, false).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn an_old_node_that_returns_during_the_wait_is_retired_and_begins_the_wait_again() {
    let fixture = Fixture::new().await;
    let old_server = Arc::clone(&fixture.cluster.servers()[OLD]);
    old_server.behave(Behaviour::Failing(NodeError::TimedOut));
    let begin = tokio::time::Instant::now();
    let returning = async {
        sleep(Duration::from_secs(30)).await;
        old_server.behave(Behaviour::Granting);
    };
    let (replaced, ()) = tokio::join!(fixture.replace(true), returning);
    assert_eq!(replaced, Ok(()));
    assert!(begin.elapsed() > Duration::from_secs(90), "{:?}", begin.elapsed());
    let replaced = fixture.fingerprint().replaced_by(&address(NEW)).to_string();
    assert_eq!(fixture.fingerprint_on(OLD).await, Some(replaced));
}

/// The server restarts with the data from before its opening.
#[tokio::test(start_paused = true)]
async fn a_new_server_that_is_set_back_during_its_quarantine_begins_it_again() {
    let in_time = requests_until_open(false).await - 1;
    let (fixture, gate) = (Fixture::new().await, Gate::new(in_time));
    let call = stalled(fixture.replace_behind(&gate, false), &gate).await;
    let joining = fixture.fingerprint_on(NEW).await.unwrap();
    assert!(joining.contains(" in place of "), "{joining}");
    gate.open().await;
    let begin = tokio::time::Instant::now();
    let setting_back = async {
        sleep(Duration::from_secs(30)).await;
        fixture.set_fingerprint(&NEW_LIST, NEW, Fingerprint::new(&joining)).await;
    };
    let (replaced, ()) = tokio::join!(call, setting_back);
    assert_eq!(replaced, Ok(()));
    assert!(begin.elapsed() > Duration::from_secs(90), "{:?}", begin.elapsed());
}

/// The same call has ended the replacement while this one stood still.
#[tokio::test(start_paused = true)]
async fn a_call_that_the_same_call_overtakes_names_no_other_server() {
    let mut superseded = 0;
    for in_time in 0..requests_until_open(false).await {
        let (fixture, gate) = (Fixture::new().await, Gate::new(in_time));
        let first = stalled(fixture.replace_behind(&gate, false), &gate).await;
        assert_eq!(fixture.replace(false).await, Ok(()), "{in_time}");
        gate.open().await;
        let first = first.await;
        assert!(!matches!(first, Err(AdminError::AlreadyReplaced { .. })), "{in_time}: {first:?}");
        superseded += usize::from(matches!(first, Err(AdminError::ReplacementSuperseded { .. })));
    }
    assert!(superseded > 0);
}

/// The new server is open already when the request to open it arrives, for example because it lost its data and was
/// registered by a client.
#[tokio::test(start_paused = true)]
async fn a_new_server_whose_quarantine_began_too_early_begins_it_again() {
    let requests = requests_of_a_replacement().await;
    let mut has_opened = false;
    for in_time in 0..requests {
        let (fixture, gate) = (Fixture::new().await, Gate::new(in_time));
        let mut replacing = Box::pin(fixture.replace_behind(&gate, false));
        tokio::select! {
            _ = &mut replacing => {}
            () = gate.has_kept.notified() => {}
        }
        let is_retired = fixture.fingerprint_on(OLD).await.is_some_and(|text| text.contains(" replaced by "));
        let of_new = fixture.fingerprint_on(NEW).await.filter(|text| text.contains(" in place of "));
        let Some(joining) = of_new.filter(|_| is_retired) else { continue };
        let client = fixture.client(&NEW_LIST);
        let open = Reconfigure { from: Fingerprint::new(&joining), to: fixture.fingerprint(), record: None };
        let open = Operation::Reconfigure(open);
        ask_each(&client.context, |node| (node == REPLACED).then(|| open.clone())).await;
        sleep(Duration::from_secs(3)).await;
        let begin = tokio::time::Instant::now();
        let (replaced, ()) = tokio::join!(replacing, gate.open());
        assert_eq!(replaced, Ok(()));
        assert!(begin.elapsed() > Duration::from_secs(60), "{:?}", begin.elapsed());
        has_opened = true;
        break;
    }
    assert!(has_opened);
}

/// Returns the number of requests of a replacement until it has closed the new server, and has begun on no node.
async fn requests_until_begin() -> usize {
    for in_time in 0.. {
        let (fixture, gate) = (Fixture::new().await, Gate::new(in_time));
        drop(stalled(fixture.replace_behind(&gate, false), &gate).await);
        if fixture.fingerprint_on(NEW).await.is_some_and(|text| text.contains(" in place of ")) {
            assert_eq!(fixture.record_on(0).await, "");
            return in_time;
        }
    }
    unreachable!("a replacement closes the new server")
}

fn superseded() -> AdminError {
    AdminError::ReplacementSuperseded { node: address(NEW).into(), old: address(OLD).into() }
}

/// Two nodes in quarantine, or one in quarantine and a retired one, are no quorum for the running clients.
#[tokio::test(start_paused = true)]
async fn an_old_node_is_not_retired_if_another_node_does_not_vote_any_more() {
    let (fixture, gate) = (Fixture::new().await, Gate::new(requests_until_begin().await));
    let call = stalled(fixture.replace_behind(&gate, false), &gate).await;
    fixture.cluster.servers()[1].flush();
    let context = &fixture.client(&OLD_LIST).context;
    drop(ask_all_nodes(context, register(context)).await);
    gate.open().await;
    let replaced = call.await;
    assert!(matches!(replaced, Err(AdminError::OthersNeeded(_))), "{replaced:?}");
    assert_eq!(open_of(&fixture, &[OLD, NEW]).await, [OLD]);
    assert_eq!([fixture.record_on(0).await, fixture.record_on(OLD).await], ["", ""], "withdrawn");
}

/// The new server is flushed after the close, for example because the replacement was abandoned, and belongs to another
/// quorum.
#[tokio::test(start_paused = true)]
async fn an_old_node_is_not_retired_for_a_server_that_is_not_closed_any_more() {
    let (fixture, gate) = (Fixture::new().await, Gate::new(requests_until_begin().await));
    let call = stalled(fixture.replace_behind(&gate, false), &gate).await;
    fixture.cluster.servers()[NEW].flush();
    gate.open().await;
    assert_eq!(call.await, Err(superseded()));
    assert_eq!(open_of(&fixture, &[OLD, NEW]).await, [OLD]);
}

/// The nodes have no begin that the abandon removes.
#[tokio::test(start_paused = true)]
async fn an_abandoned_call_that_begins_late_retires_no_node() {
    let (fixture, gate) = (Fixture::new().await, Gate::new(requests_until_begin().await));
    let call = stalled(fixture.replace_behind(&gate, false), &gate).await;
    assert_eq!(fixture.abandon(false).await.unwrap().done(), 2);
    gate.open().await;
    assert_eq!(call.await, Err(superseded()));
    assert_eq!(open_of(&fixture, &[OLD, NEW]).await, [OLD]);
}

/// The node answers the check of a call that was told that the node is gone.
#[tokio::test(start_paused = true)]
async fn an_old_node_that_has_answered_is_not_gone_later_in_the_same_call() {
    for in_time in 0.. {
        let (fixture, gate) = (Fixture::new().await, Gate::new(in_time));
        let call = stalled(fixture.replace_behind(&gate, true), &gate).await;
        if !fixture.record_on(OLD).await.contains("begun") {
            continue;
        }
        fixture.cluster.servers()[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
        gate.open().await;
        let replaced = call.await;
        assert!(matches!(replaced, Err(AdminError::OldSilent { .. })), "{replaced:?}");
        assert_eq!(open_of(&fixture, &[NEW]).await, [0; 0]);
        return;
    }
}

/// A node that was said to be gone answers during the wait, by its data or by an error, and the next attempt fails.
#[tokio::test(start_paused = true)]
async fn a_new_server_does_not_vote_beside_a_node_that_answers_during_the_wait() {
    for of_old in [Behaviour::Granting, Behaviour::Failing(NodeError::Loading)] {
        let fixture = Fixture::new().await;
        let servers = fixture.cluster.servers().to_vec();
        servers[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
        let returning = async {
            sleep(Duration::from_secs(30)).await;
            servers[OLD].behave(of_old.clone());
            if matches!(of_old, Behaviour::Granting) {
                servers[1].behave(Behaviour::Failing(NodeError::TimedOut));
            }
        };
        let (replaced, ()) = tokio::join!(fixture.replace(true), returning);
        match of_old {
            Behaviour::Granting => {
                assert!(matches!(replaced, Err(AdminError::OthersNeeded(_))), "{replaced:?}")
            }
            _ => {
                let error = NodeError::Loading;
                assert_eq!(replaced, Err(AdminError::OldRefuses { node: address(OLD).into(), error }));
            }
        }
        sleep(QUARANTINE).await;
        assert_eq!(open_of(&fixture, &[NEW]).await, [0; 0]);
    }
}

/// A node that was said to be gone answers during the wait, and is silent again when the next attempt asks it.
#[tokio::test(start_paused = true)]
async fn an_old_node_that_has_answered_is_not_gone_in_the_next_attempt() {
    let fixture = Fixture::new().await;
    let servers = fixture.cluster.servers().to_vec();
    servers[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
    let returning = async {
        sleep(Duration::from_secs(30)).await;
        servers[OLD].behave(Behaviour::Granting);
        // The next attempt begins with the other nodes, and waits for this one.
        servers[1].behave(Behaviour::Hanging);
        sleep(Duration::from_millis(1500)).await;
        assert_eq!(open_of(&fixture, &[NEW]).await, [0; 0]);
        servers[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
        servers[1].thaw();
    };
    let (replaced, ()) = tokio::join!(fixture.replace(true), returning);
    assert!(matches!(replaced, Err(AdminError::OldSilent { .. })), "{replaced:?}");
    sleep(QUARANTINE).await;
    assert_eq!(open_of(&fixture, &[NEW]).await, [0; 0]);
}

/// The node has lost its data, and the call was told that it does not come back with them.
#[tokio::test(start_paused = true)]
async fn an_empty_old_node_is_not_gone_if_it_is_silent_later_in_the_same_call() {
    for in_time in 0.. {
        let (fixture, gate) = (Fixture::new().await, Gate::new(in_time));
        fixture.cluster.servers()[OLD].flush();
        let call = stalled(fixture.replace_behind(&gate, true), &gate).await;
        if !fixture.record_on(1).await.contains("begun") {
            continue;
        }
        fixture.cluster.servers()[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
        gate.open().await;
        let replaced = call.await;
        assert!(matches!(replaced, Err(AdminError::OldSilent { .. })), "{replaced:?}");
        assert_eq!(open_of(&fixture, &[NEW]).await, [0; 0]);
        return;
    }
}

/// The call registers the server again, whose record is empty then.
#[tokio::test(start_paused = true)]
async fn a_new_server_that_loses_its_data_during_the_wait_is_closed_and_opened_again() {
    for does_old_return in [false, true] {
        let fixture = Fixture::new().await;
        let servers = fixture.cluster.servers().to_vec();
        let begin = tokio::time::Instant::now();
        let losing = async {
            sleep(Duration::from_secs(30)).await;
            servers[NEW].flush();
            if does_old_return {
                servers[OLD].flush();
            }
        };
        let (replaced, ()) = tokio::join!(fixture.replace(does_old_return), losing);
        assert_eq!(replaced, Ok(()));
        assert!(begin.elapsed() > Duration::from_secs(90), "{:?}", begin.elapsed());
        let text = record_of_new(&fixture).await;
        assert_eq!(text, format!("{} by {} retired", address(OLD), address(NEW)));
    }
}

/// Returns the record of the new server.
async fn record_of_new(fixture: &Fixture) -> String {
    let read = Operation::RecordReplacements(RecordReplacements { from: "".into(), to: "".into() });
    let client = fixture.client(&NEW_LIST);
    let answers = ask_each(&client.context, |node| (node == REPLACED).then(|| read.clone())).await;
    match &answers[REPLACED] {
        Some(Answer::Recorded { text }) => text.to_string(),
        other => panic!("{other:?}"),
    }
}

/// The server votes for a quorum that has another retired node.
#[tokio::test(start_paused = true)]
async fn a_new_server_that_another_replacement_needs_is_not_closed() {
    let fixture = Fixture::new().await;
    fixture.replace(false).await.unwrap();
    let from: Arc<str> = record_of_new(&fixture).await.into();
    let to = format!("{from}, {} by {} begun x", address(1), address(4)).into();
    let change = Operation::RecordReplacements(RecordReplacements { from, to });
    let client = fixture.client(&NEW_LIST);
    ask_each(&client.context, |node| (node == REPLACED).then(|| change.clone())).await;
    fixture.cluster.servers()[OLD].flush();
    let unfinished = AdminError::UnfinishedReplacement { node: address(4).into(), old: address(1).into() };
    assert_eq!(fixture.replace(true).await, Err(unfinished));
    assert_eq!(open_of(&fixture, &[NEW]).await, [NEW]);
}

/// The other nodes have lost the end of the replacement, or did not answer when it was recorded.
#[tokio::test(start_paused = true)]
async fn a_replacement_whose_new_server_was_opened_is_not_abandoned() {
    let fixture = Fixture::new().await;
    fixture.replace(false).await.unwrap();
    let [done, begun] =
        ["done", "begun x"].map(|progress| format!("{} by {} {progress}", address(OLD), address(NEW)));
    fixture.set_record(0, &done, "").await;
    fixture.set_record(1, &done, &begun).await;
    fixture.cluster.servers()[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
    let retired = AdminError::AlreadyReplaced { node: address(OLD).into(), by: address(NEW).into() };
    assert_eq!(fixture.abandon(true).await, Err(retired));
    assert_eq!(fixture.record_on(1).await, begun);
}

/// A server that is started without its data at the address of a retired node votes beside the new server.
#[tokio::test(start_paused = true)]
async fn an_old_node_that_may_be_retired_is_not_to_be_started() {
    let fixture = Fixture::new().await;
    let silence = async || {
        fixture.cluster.servers()[OLD].behave(Behaviour::Failing(NodeError::TimedOut));
        let error = fixture.replace(false).await.unwrap_err();
        fixture.cluster.servers()[OLD].behave(Behaviour::Granting);
        let AdminError::OldSilent { may_be_retired, .. } = &error else { panic!("{error:?}") };
        (*may_be_retired, error.to_string())
    };
    let (may_be_retired, text) = silence().await;
    assert!(
        !may_be_retired && text.contains("was not retired") && text.ends_with("start it, and try again"),
        "{text}"
    );
    fixture.replace(false).await.unwrap();
    // In the second run, only the new server shows the end of the replacement.
    for _ in 0..2 {
        let (may_be_retired, text) = silence().await;
        assert!(
            may_be_retired
                && text.contains("may be retired already")
                && text.contains("do not start it again"),
            "{text}"
        );
        for other in [0, 1] {
            let record = fixture.record_on(other).await;
            fixture.set_record(other, &record, "").await;
        }
    }
}

/// Another call of the same replacement opens the new server while this one is about to register and close it.
#[tokio::test(start_paused = true)]
async fn a_new_server_that_another_call_has_opened_is_not_closed_late() {
    let (fixture, gate) = (Fixture::new().await, Gate::new(requests_until_begin().await - 1));
    let late = stalled(fixture.replace_behind(&gate, false), &gate).await;
    assert_eq!(fixture.fingerprint_on(NEW).await, None);
    fixture.replace(false).await.unwrap();
    gate.open().await;
    assert_eq!(late.await, Err(superseded()));
    assert_eq!(open_of(&fixture, &[NEW]).await, [NEW]);
}

/// The other replacement begins at any time before the close of the new server, which was opened before. The old node has
/// lost the mark of its retirement.
#[tokio::test(start_paused = true)]
async fn a_new_server_that_another_replacement_needs_since_the_check_is_not_closed() {
    let mut begun_late = 0;
    for in_time in 0..requests_of_a_replacement().await {
        let fixture = Fixture::new().await;
        fixture.replace(false).await.unwrap();
        fixture.cluster.servers()[OLD].flush();
        let gate = Gate::new(in_time);
        let call = stalled(fixture.replace_behind(&gate, true), &gate).await;
        if open_of(&fixture, &[NEW]).await != [NEW] {
            break;
        }
        let from: Arc<str> = record_of_new(&fixture).await.into();
        let to = format!("{from}, {} by {} begun x", address(1), address(4)).into();
        let change = Operation::RecordReplacements(RecordReplacements { from, to });
        let client = fixture.client(&NEW_LIST);
        ask_each(&client.context, |node| (node == REPLACED).then(|| change.clone())).await;
        begun_late += 1;
        gate.open().await;
        assert!(call.await.is_err(), "{in_time}");
        assert_eq!(open_of(&fixture, &[NEW]).await, [NEW], "{in_time}");
    }
    assert!(begun_late > 0);
}

/// The other nodes have lost the record of the first replacement, and the new server was flushed.
#[tokio::test(start_paused = true)]
async fn a_new_server_that_was_replaced_in_turn_does_not_stand_in_for_the_old_node_again() {
    let fixture = Fixture::new().await;
    fixture.replace(false).await.unwrap();
    replace_by(&fixture, &NEW_LIST, &[0, 1, 4]).await.unwrap();
    let in_turn = format!("{} by {} done", address(NEW), address(4));
    for (server, to) in [(0, ""), (1, &*in_turn)] {
        let from = fixture.record_on(server).await;
        fixture.set_record(server, &from, to).await;
    }
    fixture.cluster.servers()[NEW].flush();
    let replaced = AdminError::AlreadyReplaced { node: address(NEW).into(), by: address(4).into() };
    assert_eq!(fixture.replace(false).await, Err(replaced));
    assert_eq!(open_of(&fixture, &[NEW, 4]).await, [4]);
}

/// A list with two addresses of one server would retire this server as the old node and need its vote.
#[tokio::test(start_paused = true)]
async fn an_old_node_whose_address_leads_to_another_node_is_not_retired() {
    let fixture = Fixture::new().await;
    let refused = replace_by(&fixture, &[0, 1, 1], &[0, 1, NEW]).await;
    let Err(AdminError::Config(ConfigError::Server { reason: NodeError::SameServer { .. }, .. })) = &refused
    else {
        panic!("{refused:?}")
    };
    assert_eq!(open_of(&fixture, &[1]).await, [1]);
}

/// Tokens begin at the clocks of nodes.
#[tokio::test(start_paused = true)]
async fn a_new_server_whose_clock_differs_from_the_latest_clock_of_the_other_nodes_is_refused() {
    for (ahead, other, gap, is_node_ahead) in [
        (&[(NEW, 2)][..], OLD, 2, true),
        (&[(NEW, -2)], OLD, 2, false),
        (&[(0, 2)], 0, 2, false),
        (&[(OLD, 3)], OLD, 3, false),
    ] {
        let fixture = Fixture::new().await;
        *mutex::lock(&fixture.ahead) = ahead.iter().copied().collect();
        let (node, other) = (address(NEW).into(), address(other).into());
        let gap = Duration::from_secs(gap);
        let differs = AdminError::ClockDiffers { node, other, gap, is_node_ahead };
        assert_eq!(fixture.replace(false).await, Err(differs), "{ahead:?}");
        assert_eq!(fixture.fingerprint_on(NEW).await, None);
        assert_eq!(replace_another(&fixture, &Gate::new(usize::MAX)).await.is_ok(), ahead[0].0 == NEW);
    }
    for ahead in [&[(NEW, 1)][..], &[(NEW, -1)], &[(0, -9), (1, -7)]] {
        let fixture = Fixture::new().await;
        *mutex::lock(&fixture.ahead) = ahead.iter().copied().collect();
        assert_eq!(fixture.replace(false).await, Ok(()), "{ahead:?}");
    }
}

/// A list with another address of the node that is gone would let a second server stand in for the node.
#[tokio::test(start_paused = true)]
async fn a_list_without_a_server_that_stands_in_for_a_node_replaces_no_node_that_is_gone() {
    let fixture = Fixture::new().await;
    for gone in [OLD, 5] {
        fixture.cluster.servers()[gone].behave(Behaviour::Failing(NodeError::TimedOut));
    }
    fixture.replace(true).await.unwrap();
    let unlisted = AdminError::NotListed { node: address(OLD).into(), by: address(NEW).into() };
    assert_eq!(replace_gone_by(&fixture, &[0, 1, 5], &[0, 1, 4]).await, Err(unlisted));
    assert_eq!(fixture.fingerprint_on(4).await, None);
    replace_by(&fixture, &NEW_LIST, &[0, 1, 4]).await.unwrap();
}

/// The reason why a node cannot be replaced.
#[derive(Clone, Copy, Debug)]
enum Flaw {
    OtherFails,
    OtherIsInQuarantine,
    OtherIsEmpty,
    OldFails,
    OldIsClosedForAMove,
    NewFails,
    NewIsOfAnotherQuorum,
    NewIsMember,
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_cannot_succeed_changes_no_node() {
    for flaw in [
        Flaw::OtherFails,
        Flaw::OtherIsInQuarantine,
        Flaw::OtherIsEmpty,
        Flaw::OldFails,
        Flaw::OldIsClosedForAMove,
        Flaw::NewFails,
        Flaw::NewIsOfAnotherQuorum,
        Flaw::NewIsMember,
    ] {
        let fixture = match flaw {
            Flaw::OtherIsInQuarantine | Flaw::OtherIsEmpty => Fixture::of(&[0, 4, OLD]).await,
            _ => Fixture::new().await,
        };
        let servers = fixture.cluster.servers();
        let closed = Fingerprint::new("name=b").closed_by(&fixture.fingerprint(), "1");
        let failing = || Behaviour::Failing(NodeError::ReadOnly);
        match flaw {
            Flaw::OtherFails => servers[1].behave(failing()),
            Flaw::OtherIsInQuarantine => {
                let context = &fixture.client(&OLD_LIST).context;
                drop(ask_all_nodes(context, register(context)).await);
            }
            Flaw::OtherIsEmpty => {}
            Flaw::OldFails => servers[OLD].behave(failing()),
            Flaw::OldIsClosedForAMove => fixture.set_fingerprint(&OLD_LIST, OLD, closed.clone()).await,
            Flaw::NewFails => servers[NEW].behave(failing()),
            Flaw::NewIsOfAnotherQuorum => {
                let builder = Fixture::builder().name("other");
                init_with(&fixture.client_of(builder, &[NEW], &Gate::new(usize::MAX), None)).await.unwrap();
            }
            Flaw::NewIsMember => {
                fixture.register_new().await;
                sleep(QUARANTINE).await;
            }
        }
        let error = fixture.replace(false).await.unwrap_err();
        let replies_of = |replies: &NodeReplies| replies.all().to_vec();
        let failed = NodeReply::Failed(NodeError::ReadOnly);
        let is_quarantined =
            |reply: &NodeReply| matches!(reply, NodeReply::Refused(Refusal::Quarantined { .. }));
        let is_expected = match (flaw, &error) {
            (Flaw::OtherFails, AdminError::OthersNeeded(replies)) => replies_of(replies)[1] == failed,
            (Flaw::OtherIsInQuarantine | Flaw::OtherIsEmpty, AdminError::OthersNeeded(replies)) => {
                is_quarantined(&replies_of(replies)[1]) && replies_of(replies)[0] == NodeReply::NotAsked
            }
            (Flaw::OldFails, AdminError::OldRefuses { node, error }) => {
                **node == *address(OLD) && *error == NodeError::ReadOnly
            }
            (Flaw::OldIsClosedForAMove, AdminError::OtherQuorum { node, metadata }) => {
                **node == *address(OLD) && **metadata == *closed.to_string()
            }
            (Flaw::NewFails, AdminError::Incomplete(replies)) => replies_of(replies)[REPLACED] == failed,
            (Flaw::NewIsOfAnotherQuorum | Flaw::NewIsMember, AdminError::NotEmpty { node, .. }) => {
                **node == *address(NEW)
            }
            _ => false,
        };
        assert!(is_expected, "{flaw:?}: {error:?}");
        servers.iter().for_each(|server| server.behave(Behaviour::Granting));
        if !matches!(flaw, Flaw::OldIsClosedForAMove) {
            assert_eq!(
                fixture.fingerprint_on(OLD).await,
                Some(fixture.fingerprint().to_string()),
                "{flaw:?}"
            );
        }
        if !matches!(flaw, Flaw::NewIsOfAnotherQuorum | Flaw::NewIsMember) {
            assert_eq!(fixture.fingerprint_on(NEW).await, None, "{flaw:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_quorum_that_cannot_spare_a_node_and_a_quorum_without_a_guard_are_refused() {
    let fixture = Fixture::new_servers(4);
    let gate = Gate::new(usize::MAX);
    for (builder, before, after, setting) in [
        (Fixture::builder(), &[0][..], &[3][..], "nodes"),
        (Fixture::builder(), &[0, 1], &[0, 3], "nodes"),
        (Fixture::builder().votes_needed(3), &OLD_LIST, &NEW_LIST, "nodes"),
        (Fixture::builder().restart_guard(RestartGuard::Off), &OLD_LIST, &NEW_LIST, "restart_guard"),
    ] {
        let [old, new] = [before, after].map(|list| fixture.client_of(builder.clone(), list, &gate, None));
        let refused = replace_with(&old, &new, before.len() - 1, true, false).await;
        let Err(AdminError::Config(ConfigError::OutOfRange { setting: named, .. })) = &refused else {
            panic!("{refused:?}")
        };
        assert_eq!(*named, setting);
    }
    assert_eq!(mutex::lock(&gate.state).sent, 0);
}

#[test]
fn the_servers_of_a_replacement_are_found_in_the_list_of_nodes() {
    let nodes = ["redis://u:p@a:1/2?protocol=resp3", "redis://b/", "redis://c"];
    let lists = |old: &str, new: &str| {
        let replacing = Quorum::builder().nodes(nodes).replacing(&Replacement::new(old, new));
        let shown = |lists: NodeLists| {
            (lists.before.shown_nodes().unwrap(), lists.after.shown_nodes().unwrap(), lists.node)
        };
        replacing.map(shown).map_err(|error| error.to_string())
    };
    let list = |nodes: [&str; 3]| nodes.map(str::to_owned).to_vec();
    let [before, after] = [
        ["redis://***@a:1/2?protocol=resp3", "redis://b:6379", "redis://c:6379"],
        ["rediss://***@d:6379", "redis://b:6379", "redis://c:6379"],
    ];
    // The user and the password of the old node are those of the list.
    assert_eq!(lists("redis://a:1", "rediss://:p@d"), Ok((list(before), list(after), 0)));
    // The list has the new server already.
    let (before, after) = (["redis://***@a:1/2?protocol=resp3", "redis://e:6379", "redis://c:6379"], before);
    assert_eq!(lists("redis://e", "redis://b"), Ok((list(before), list(after), 1)));
    // The other nodes may be behind Sentinels, and any node may have a Unix socket.
    let nodes = [
        "redis+sentinel://u:p@s,t:1/m?sentinel_pass=p&db=1",
        "unix:///run/a.sock?user=u&pass=p",
        "redis://c",
    ];
    let lists_of = |new: &str| {
        let replacing = Quorum::builder().nodes(nodes).replacing(&Replacement::new("redis://c", new));
        replacing.unwrap().after.shown_nodes().unwrap()
    };
    let shown = ["redis+sentinel://***@s,t:1/m?***&db=1", "unix:///run/a.sock?***&***", "unix:///run/b.sock"];
    assert_eq!(lists_of("unix:///run/b.sock"), shown);
    for (old, new, words) in [
        ("redis://b", "redis://c", "new is c:6379: expected an empty server beside the nodes"),
        ("redis://x", "redis://y", "old is x:6379: expected one of the nodes of the settings: a:1, b:6379"),
        (
            "redis://b",
            "redis+sentinel://s/m",
            "may lose the mark of a replaced node: let the failover promote",
        ),
        ("redis://b", "redis+cluster://s/tag", "neither Sentinels nor a Redis Cluster name"),
        ("redis://b", "redis://b:6379", "new, b:6379: the node is named twice"),
        ("redis://b", "redis://u:p@d:port", "new, redis://***: its port is no number"),
        ("b", "redis://d", "old, ***: no `scheme://` begins it"),
    ] {
        let error = lists(old, new).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}
