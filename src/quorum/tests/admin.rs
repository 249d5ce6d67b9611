//! `init` and `init_if_needed`, and the calls that a read-only client may not make.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use tokio::{runtime::Handle, time::Instant};

use crate::{
    MemoryCluster, Quorum, QuorumBuilder,
    admin::{self, InitOutcome},
    client::dependencies::ClientDependencies,
    error::AdminError,
    error::NodeReply,
    error::{ConfigError, Error, NodeError},
    lock::{client::Client, inspection::LockState, tests::server},
    node::{Listener, Node, Operation, PendingUnlocks, Reply, Request, Subscription, memory::Behaviour},
    observer::NoObserver,
    quorum::admin::{init_if_needed_with, init_with},
    values::Resource,
};

const CLOCK_OFF: NodeError = NodeError::ClockOff { gap: Duration::from_secs(7200), is_node_ahead: true };

/// A node with a wrong clock, or a node at which another client's `init` comes first.
#[derive(Debug)]
struct UnusualNode(Arc<dyn Node>, InitBehaviour);

#[derive(Debug)]
enum InitBehaviour {
    /// The clock of the node is two hours off.
    ClockOff,
    /// The node executes another client's `init` directly before each `init`.
    InitByOtherClient,
}

impl Node for UnusualNode {
    fn address(&self) -> &Arc<str> {
        self.0.address()
    }

    fn call(&self, request: Request) -> Reply {
        match (&self.1, &request.operations[..]) {
            (InitBehaviour::ClockOff, [Operation::Init(_)]) => {
                return Reply::error(1, &CLOCK_OFF);
            }
            (InitBehaviour::InitByOtherClient, [Operation::Init(init)]) if !init.is_dry_run => {
                drop(self.0.call(request.clone()));
            }
            _ => {}
        }
        self.0.call(request)
    }

    fn subscribe(&self, resource: &Resource, listener: Arc<dyn Listener>) -> Subscription {
        self.0.subscribe(resource, listener)
    }

    fn undelivered(&self) -> Vec<PendingUnlocks> {
        self.0.undelivered()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.close()
    }
}

/// The longest wait of an administrator for slower nodes after an error that lasts: a node timeout, and at least a
/// second.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Returns the client of an administrator of these nodes. The connection of the client writes no metadata, like that of
/// a read-only client. `behaviour` is that of the last node.
fn administrator(cluster: &MemoryCluster, behaviour: Option<InitBehaviour>) -> Arc<Client> {
    administrator_with(&Quorum::builder(), cluster, behaviour)
}

fn administrator_with(
    builder: &QuorumBuilder,
    cluster: &MemoryCluster,
    behaviour: Option<InitBehaviour>,
) -> Arc<Client> {
    let settings = builder.settings.check(cluster.nodes()).unwrap();
    let is_read_only = true;
    let mut nodes = cluster.connect(&settings.parameters, is_read_only);
    if let Some((last, behaviour)) = nodes.pop_if(|_| behaviour.is_some()).zip(behaviour) {
        nodes.push(Arc::new(UnusualNode(last, behaviour)));
    }
    let dependencies =
        ClientDependencies::new(cluster.clock(), Handle::current(), Arc::new(NoObserver), None);
    Client::start(nodes, settings, dependencies)
}

#[tokio::test(start_paused = true)]
async fn a_node_s_wrong_clock_is_reported_before_any_node_is_changed() {
    let cluster = MemoryCluster::new(3);
    let client = administrator(&cluster, Some(InitBehaviour::ClockOff));
    for outcome in [init_with(&client).await, init_if_needed_with(&client).await.map(drop)] {
        let Err(AdminError::Config(ConfigError::Server { node, reason })) = &outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!((&**node, reason), ("memory:2", &CLOCK_OFF));
    }
    init_with(&administrator(&cluster, None)).await.unwrap();
}

/// A report of a slow node as timed out would lead to the wrong remedy.
#[tokio::test(start_paused = true)]
async fn init_waits_for_slower_nodes_after_an_error_that_lasts() {
    let cluster = MemoryCluster::new(3);
    let refused = NodeError::NoAuth("WRONGPASS".into());
    server(&cluster, 0).behave(Behaviour::Failing(refused.clone()));
    server(&cluster, 1).behave(Behaviour::Hanging);
    let client = administrator(&cluster, None);
    let replies = |outcome: Result<(), AdminError>| match outcome {
        Err(AdminError::Incomplete(replies)) => replies.all().to_vec(),
        outcome => panic!("{outcome:?}"),
    };
    let start = Instant::now();
    let outcome = init_with(&client).await;
    assert!(start.elapsed() <= LONGEST_WAIT, "{:?}", start.elapsed());
    let failed = [NodeReply::Failed(refused), NodeReply::Failed(NodeError::TimedOut), NodeReply::NotAsked];
    assert_eq!(replies(outcome), failed);
    let slow = async {
        tokio::time::sleep(LONGEST_WAIT * 9 / 10).await;
        server(&cluster, 1).thaw();
    };
    let (outcome, ()) = tokio::join!(init_with(&client), slow);
    assert_eq!(replies(outcome), [failed[0].clone(), NodeReply::NotAsked, NodeReply::NotAsked]);
}

/// The cluster stays the same, however long the call waits for another answer.
#[tokio::test(start_paused = true)]
async fn init_fails_at_once_if_two_nodes_are_one_cluster() {
    let cluster = MemoryCluster::new(3);
    let same = NodeError::SameCluster { other: "memory:0".into() };
    let refused = NodeError::Handshake(Arc::new(same.clone()));
    server(&cluster, 1).behave(Behaviour::Failing(refused));
    let client = administrator(&cluster, None);
    let start = Instant::now();
    for outcome in [init_with(&client).await, init_if_needed_with(&client).await.map(drop)] {
        let Err(AdminError::Config(ConfigError::Server { node, reason })) = &outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!((&**node, reason), ("memory:1", &same));
    }
    assert!(start.elapsed() <= LONGEST_WAIT, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_administrator_s_connect_timeout_below_the_node_timeout_times_no_node_out() {
    let cluster = MemoryCluster::new(3);
    server(&cluster, 1).behave(Behaviour::Hanging);
    let builder = Quorum::builder().connect_timeout(Duration::from_millis(999));
    let client = administrator_with(&builder, &cluster, None);
    let Err(AdminError::Incomplete(replies)) = init_with(&client).await else { panic!("a node hangs") };
    assert_eq!(replies.all(), [NodeReply::NotAsked, NodeReply::Pending, NodeReply::NotAsked]);
}

#[tokio::test(start_paused = true)]
async fn two_concurrent_calls_of_init_if_needed_both_succeed() {
    let cluster = MemoryCluster::new(3);
    let (first, second) = (administrator(&cluster, None), administrator(&cluster, None));
    let (first, second) = tokio::join!(init_if_needed_with(&first), init_if_needed_with(&second));
    for outcome in [first, second] {
        assert!(matches!(outcome, Ok(InitOutcome::Created | InitOutcome::AlreadyDone(_))), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn init_reports_the_changed_nodes_if_another_init_comes_first_at_a_node() {
    let client = administrator(&MemoryCluster::new(3), Some(InitBehaviour::InitByOtherClient));
    let refused = init_with(&client).await.unwrap_err();
    let AdminError::Incomplete(replies) = &refused else { panic!("{refused:?}") };
    let node_replies: Vec<&NodeReply> = replies.iter().map(|(_, reply)| reply).collect();
    assert!(
        matches!(node_replies[..], [NodeReply::Done, NodeReply::Done, NodeReply::Refused(_)]),
        "{node_replies:?}"
    );
    let client = administrator(&MemoryCluster::new(3), Some(InitBehaviour::InitByOtherClient));
    assert_eq!(
        init_if_needed_with(&client).await,
        Ok(InitOutcome::Created),
        "the other client admits the last node to the same quorum"
    );
}

#[tokio::test(start_paused = true)]
async fn a_read_only_client_is_refused_every_change() {
    let cluster = MemoryCluster::new(3);
    let read_only = Quorum::builder().read_only().connect_in_memory(&cluster).unwrap();
    let lock = read_only.red_lock("r");
    let assert_refused = |error: Error| {
        assert_eq!(error, Error::Config(ConfigError::ReadOnly));
        assert!(error.to_string().contains("`read_only`"), "{error}");
    };
    assert_refused(lock.lock().await.unwrap_err());
    assert_refused(lock.try_lock().await.unwrap_err());
    assert_refused(lock.try_lock_for(Duration::from_secs(1)).await.unwrap_err());
    assert_refused(admin::force_unlock(&read_only, "r").await.unwrap_err());
    assert_refused(read_only.multi_lock(["a", "b"]).lock().await.unwrap_err());
    let election = read_only.election("e");
    assert_refused(election.campaign("v").await.unwrap_err());
    assert_refused(election.try_campaign("v").await.unwrap_err());
    assert_eq!(read_only.inspect("r").await.unwrap().state(), LockState::Free);
    assert_eq!(election.leader().await.unwrap(), None);
    drop(election.observe().unwrap());
    // `init` succeeds only if the read-only client has written no metadata.
    init_with(&administrator(&cluster, None)).await.unwrap();
    let builder = || Quorum::builder().nodes(["redis://a"]);
    let refused = AdminError::Config(ConfigError::ReadOnly);
    assert_eq!(admin::init(&builder().read_only()).await.unwrap_err(), refused);
    assert_eq!(admin::init_if_needed(&builder().read_only()).await.unwrap_err(), refused);
    assert_eq!(admin::reconfigure(&builder(), &builder().read_only()).await.unwrap_err(), refused);
}
