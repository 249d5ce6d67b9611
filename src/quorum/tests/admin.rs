//! Who may make a quorum, and when nothing is made.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use tokio::runtime::Handle;

use crate::{
    MemoryCluster, Quorum,
    admin::{self, InitOutcome},
    client::dependencies::ClientDependencies,
    error::AdminError,
    error::NodeReply,
    error::{ConfigError, Error, NodeError},
    lock::{client::Client, inspection::LockState},
    node::{Listener, Node, Operation, PendingUnlocks, Reply, Request, Subscription},
    observer::NoObserver,
    quorum::admin::{init_if_needed_with, init_with},
    values::Resource,
};

const OFF: Duration = Duration::from_secs(7200);

/// A node of which somebody who makes a quorum hears something special.
#[derive(Debug)]
struct Strange(Arc<dyn Node>, Strangeness);

#[derive(Debug)]
enum Strangeness {
    /// Its clock is hours away from the client's.
    Late,
    /// Somebody else makes it a node just before.
    Overtaken,
}

impl Node for Strange {
    fn address(&self) -> &Arc<str> {
        self.0.address()
    }

    fn call(&self, request: Request) -> Reply {
        match (&self.1, &request.operations[..]) {
            (Strangeness::Late, [Operation::Init(_)]) => return Reply::error(1, &NodeError::ClockOff(OFF)),
            (Strangeness::Overtaken, [Operation::Init(init)]) if !init.is_dry_run => {
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

/// A client that makes a quorum of these nodes, the last of which may be strange.
fn administrator(cluster: &MemoryCluster, strangeness: Option<Strangeness>) -> Arc<Client> {
    let settings = Quorum::builder().settings.check(cluster.nodes()).unwrap();
    let mut nodes = cluster.connect(&settings.parameters, true);
    if let Some((last, strangeness)) = nodes.pop_if(|_| strangeness.is_some()).zip(strangeness) {
        nodes.push(Arc::new(Strange(last, strangeness)));
    }
    let dependencies =
        ClientDependencies::new(cluster.clock(), Handle::current(), Arc::new(NoObserver), None);
    Client::start(nodes, settings, dependencies)
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_clock_is_off_is_named_before_any_is_changed() {
    let cluster = MemoryCluster::new(3);
    let late = administrator(&cluster, Some(Strangeness::Late));
    for outcome in [init_with(&late).await, init_if_needed_with(&late).await.map(drop)] {
        let Err(AdminError::Config(ConfigError::Server { node, reason: NodeError::ClockOff(OFF) })) =
            &outcome
        else {
            panic!("{outcome:?}")
        };
        assert_eq!(&**node, "memory:2");
    }
    init_with(&administrator(&cluster, None)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn two_that_make_a_quorum_if_needed_at_the_same_time_have_both_made_it() {
    let cluster = MemoryCluster::new(3);
    let (one, other) = (administrator(&cluster, None), administrator(&cluster, None));
    let (one, other) = tokio::join!(init_if_needed_with(&one), init_if_needed_with(&other));
    for outcome in [one, other] {
        assert!(matches!(outcome, Ok(InitOutcome::Created | InitOutcome::AlreadyDone(_))), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_init_that_is_overtaken_does_not_report_unchanged_nodes() {
    let overtaken = administrator(&MemoryCluster::new(3), Some(Strangeness::Overtaken));
    let refused = init_with(&overtaken).await.unwrap_err();
    let AdminError::Incomplete(replies) = &refused else { panic!("{refused:?}") };
    let said: Vec<&NodeReply> = replies.iter().map(|(_, reply)| reply).collect();
    assert!(matches!(said[..], [NodeReply::Done, NodeReply::Done, NodeReply::Refused(_)]), "{said:?}");
    let overtaken = administrator(&MemoryCluster::new(3), Some(Strangeness::Overtaken));
    assert_eq!(
        init_if_needed_with(&overtaken).await,
        Ok(InitOutcome::Created),
        "the other one has made the same"
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_only_looks_changes_nothing() {
    let cluster = MemoryCluster::new(3);
    let looking = Quorum::builder().read_only().connect_in_memory(&cluster).unwrap();
    let lock = looking.red_lock("r");
    let is_refused = |error: Error| {
        assert_eq!(error, Error::Config(ConfigError::ReadOnly));
        assert!(error.to_string().contains("`read_only`"), "{error}");
    };
    is_refused(lock.lock().await.unwrap_err());
    is_refused(lock.try_lock().await.unwrap_err());
    is_refused(lock.try_lock_for(Duration::from_secs(1)).await.unwrap_err());
    is_refused(admin::force_unlock(&looking, "r").await.unwrap_err());
    is_refused(looking.multi_lock(["a", "b"]).lock().await.unwrap_err());
    let election = looking.election("e");
    is_refused(election.campaign("v").await.unwrap_err());
    is_refused(election.try_campaign("v").await.unwrap_err());
    assert_eq!(looking.inspect("r").await.unwrap().state(), LockState::Free);
    assert_eq!(election.leader().await.unwrap(), None);
    drop(election.observe().unwrap());
    // Nobody has written metadata.
    init_with(&administrator(&cluster, None)).await.unwrap();
    let builder = || Quorum::builder().nodes(["redis://a"]);
    let refused = AdminError::Config(ConfigError::ReadOnly);
    assert_eq!(admin::init(&builder().read_only()).await.unwrap_err(), refused);
    assert_eq!(admin::init_if_needed(&builder().read_only()).await.unwrap_err(), refused);
    assert_eq!(admin::reconfigure(&builder(), &builder().read_only()).await.unwrap_err(), refused);
}
