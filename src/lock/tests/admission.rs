//! Who may make a quorum, and when nothing is made.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use tokio::runtime::Handle;

use crate::{
    AdmissionError, ConfigError, Election, Fault, LockError, MemoryCluster, Quorum,
    lock::{
        admission::{Initialized, init, init_if_needed},
        core::{Client, Surroundings},
        observer::Unobserved,
    },
    node::{Entry, Listener, Node, Owed, Reply, Request, Subscription},
    resource::Resource,
};

const OFF: Duration = Duration::from_secs(7200);

/// A node whose clock is hours away from the client's.
#[derive(Debug)]
struct Late(Arc<dyn Node>);

impl Node for Late {
    fn address(&self) -> &Arc<str> {
        self.0.address()
    }

    fn call(&self, request: Request) -> Reply {
        if request.entries.iter().any(|entry| matches!(entry, Entry::Init(_))) {
            return Reply::fault(request.entries.len(), &Fault::ClockOff(OFF));
        }
        self.0.call(request)
    }

    fn subscribe(&self, resource: &Resource, listener: Arc<dyn Listener>) -> Subscription {
        self.0.subscribe(resource, listener)
    }

    fn owed(&self) -> Vec<Owed> {
        self.0.owed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.close()
    }
}

/// Whoever makes a quorum of these nodes; the clock of the last may be off.
fn administrator(cluster: &MemoryCluster, is_last_late: bool) -> Arc<Client> {
    let settings = Quorum::builder().settings.check(cluster.nodes()).unwrap();
    let mut nodes = cluster.connect(&settings.terms, true);
    if let Some(last) = nodes.pop() {
        nodes.push(if is_last_late { Arc::new(Late(last)) } else { last });
    }
    let surroundings = Surroundings::new(cluster.clock(), Handle::current(), Arc::new(Unobserved));
    Client::start(nodes, settings, surroundings)
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_clock_is_off_is_named_before_any_is_changed() {
    let cluster = MemoryCluster::new(3);
    let late = administrator(&cluster, true);
    for outcome in [init(&late).await, init_if_needed(&late).await.map(drop)] {
        let Err(AdmissionError::ClockOff { node, by: OFF }) = &outcome else { panic!("{outcome:?}") };
        assert_eq!(&**node, "memory:2");
    }
    init(&administrator(&cluster, false)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn two_that_make_a_quorum_if_needed_at_the_same_time_have_both_made_it() {
    let cluster = MemoryCluster::new(3);
    let (one, other) = (administrator(&cluster, false), administrator(&cluster, false));
    let (one, other) = tokio::join!(init_if_needed(&one), init_if_needed(&other));
    for outcome in [one, other] {
        assert!(matches!(outcome, Ok(Initialized::Now | Initialized::Before { .. })), "{outcome:?}");
    }
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
    let election = Election::new(&looking, "e", "");
    is_refused(election.campaign().await.unwrap_err());
    is_refused(election.try_campaign().await.unwrap_err());
    assert!(!lock.inspect().await.unwrap().is_locked());
    assert_eq!(election.leader().await.unwrap(), None);
    drop(election.observe().unwrap());
    // Nobody has made a record.
    init(&administrator(&cluster, false)).await.unwrap();
    let builder = || Quorum::builder().nodes(["redis://a"]);
    let refused = AdmissionError::Config(ConfigError::ReadOnly);
    assert_eq!(builder().read_only().init().await.unwrap_err(), refused);
    assert_eq!(builder().read_only().init_if_needed().await.unwrap_err(), refused);
    assert_eq!(builder().read_only().reconfigure(builder()).await.unwrap_err(), refused);
}
