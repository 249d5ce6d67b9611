//! Who may make a quorum, and when nothing is made.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use tokio::runtime::Handle;

use crate::{
    MemoryCluster, Quorum, Vote,
    admin::AdmissionError,
    client::surroundings::Surroundings,
    error::{ConfigError, LockError, NodeError},
    lock::{client::Client, inspection::LockState},
    node::{Listener, Node, Operation, Reply, Request, Subscription, Undelivered},
    observer::Unobserved,
    quorum::admin::{Initialized, init, init_if_needed},
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
            (Strangeness::Overtaken, [Operation::Init(init)]) if !init.is_rehearsal => {
                drop(self.0.call(request.clone()));
            }
            _ => {}
        }
        self.0.call(request)
    }

    fn subscribe(&self, resource: &Resource, listener: Arc<dyn Listener>) -> Subscription {
        self.0.subscribe(resource, listener)
    }

    fn undelivered(&self) -> Vec<Undelivered> {
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
    let surroundings = Surroundings::new(cluster.clock(), Handle::current(), Arc::new(Unobserved), None);
    Client::start(nodes, settings, surroundings)
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_clock_is_off_is_named_before_any_is_changed() {
    let cluster = MemoryCluster::new(3);
    let late = administrator(&cluster, Some(Strangeness::Late));
    for outcome in [init(&late).await, init_if_needed(&late).await.map(drop)] {
        let Err(AdmissionError::ClockOff { node, by: OFF }) = &outcome else { panic!("{outcome:?}") };
        assert_eq!(&**node, "memory:2");
    }
    init(&administrator(&cluster, None)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn two_that_make_a_quorum_if_needed_at_the_same_time_have_both_made_it() {
    let cluster = MemoryCluster::new(3);
    let (one, other) = (administrator(&cluster, None), administrator(&cluster, None));
    let (one, other) = tokio::join!(init_if_needed(&one), init_if_needed(&other));
    for outcome in [one, other] {
        assert!(matches!(outcome, Ok(Initialized::Now | Initialized::Before { .. })), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_overtaken_while_it_makes_a_quorum_does_not_say_that_nothing_was_changed() {
    let overtaken = administrator(&MemoryCluster::new(3), Some(Strangeness::Overtaken));
    let refused = init(&overtaken).await.unwrap_err();
    let AdmissionError::Incomplete { votes } = &refused else { panic!("{refused:?}") };
    let said: Vec<&Vote> = votes.iter().map(|(_, vote)| vote).collect();
    assert!(matches!(said[..], [Vote::Granted, Vote::Granted, Vote::Refused(_)]), "{said:?}");
    let overtaken = administrator(&MemoryCluster::new(3), Some(Strangeness::Overtaken));
    assert_eq!(init_if_needed(&overtaken).await, Ok(Initialized::Now), "the other one has made the same");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_only_looks_changes_nothing() {
    let cluster = MemoryCluster::new(3);
    let looking = Quorum::builder().read_only().in_memory(&cluster).unwrap();
    let lock = looking.red_lock("r");
    let is_refused = |error: LockError| {
        assert_eq!(error, LockError::Config(ConfigError::ReadOnly));
        assert!(error.to_string().contains("`read_only`"), "{error}");
    };
    is_refused(lock.lock().await.unwrap_err());
    is_refused(lock.try_lock().await.unwrap_err());
    is_refused(lock.try_lock_for(Duration::from_secs(1)).await.unwrap_err());
    is_refused(lock.force_unlock().await.unwrap_err());
    is_refused(looking.multi_lock(["a", "b"]).lock().await.unwrap_err());
    let election = looking.election("e");
    is_refused(election.campaign().await.unwrap_err());
    is_refused(election.try_campaign().await.unwrap_err());
    assert_eq!(lock.inspect().await.unwrap().state(), LockState::Free);
    assert_eq!(election.leader().await.unwrap(), None);
    drop(election.observe().unwrap());
    // Nobody has written metadata.
    init(&administrator(&cluster, None)).await.unwrap();
    let builder = || Quorum::builder().nodes(["redis://a"]);
    let refused = AdmissionError::Config(ConfigError::ReadOnly);
    assert_eq!(builder().read_only().init().await.unwrap_err(), refused);
    assert_eq!(builder().read_only().init_if_needed().await.unwrap_err(), refused);
    assert_eq!(builder().read_only().reconfigure(builder()).await.unwrap_err(), refused);
}
