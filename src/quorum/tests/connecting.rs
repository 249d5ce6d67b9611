//! How long a client waits for its nodes to begin with.

use std::time::Duration;

use tokio::time::Instant;

use crate::lock::tests::{all_behave, pass, server};
use crate::{
    MemoryCluster, Quorum, QuorumBuilder, RestartGuard,
    error::ConfigError,
    error::{Error, NodeError},
    node::memory::Behaviour,
    quorum::connecting::wait_for_quorum,
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// An eighth of the node timeout.
const LONGEST_GRACE: Duration = Duration::from_millis(125);

fn refused() -> Behaviour {
    Behaviour::Failing(NodeError::Unreachable("connection refused".into()))
}

async fn connected(builder: QuorumBuilder, cluster: &MemoryCluster) -> (Result<(), Error>, Duration) {
    let quorum = builder.connect_in_memory(cluster).unwrap();
    let start = Instant::now();
    (wait_for_quorum(&quorum.client().context).await, start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_delays_a_start_by_no_more_than_an_eighth_of_the_node_timeout() {
    let cluster = MemoryCluster::new(5);
    server(&cluster, 3).behave(Behaviour::Hanging);
    let (outcome, took) = connected(Quorum::builder(), &cluster).await;
    outcome.unwrap();
    assert!(took <= LONGEST_GRACE, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_as_quick_as_the_quorum_is_heard() {
    let cluster = MemoryCluster::new(3);
    server(&cluster, 2).behave(refused());
    let (outcome, took) = connected(Quorum::builder(), &cluster).await;
    outcome.unwrap();
    assert_eq!(took, Duration::ZERO, "all have answered or failed");
}

/// Nobody registers then, so nobody would look at it later.
#[tokio::test(start_paused = true)]
async fn without_a_restart_guard_every_node_is_waited_for() {
    let cluster = MemoryCluster::new(3);
    server(&cluster, 2).behave(Behaviour::Hanging);
    let (outcome, took) = connected(Quorum::builder().restart_guard(RestartGuard::Off), &cluster).await;
    outcome.unwrap();
    assert_eq!(took, CONNECT_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn nodes_that_are_about_to_start_are_waited_for_and_found_at_once() {
    let cluster = MemoryCluster::new(3);
    all_behave(&cluster, &refused());
    let starting = tokio::spawn({
        let cluster = cluster.clone();
        async move {
            pass(Duration::from_secs(2)).await;
            server(&cluster, 0).behave(Behaviour::Failing(NodeError::Loading));
            pass(Duration::from_secs(1)).await;
            all_behave(&cluster, &Behaviour::Granting);
        }
    });
    let (outcome, took) = connected(Quorum::builder(), &cluster).await;
    outcome.unwrap();
    assert!(took >= Duration::from_secs(3) && took <= Duration::from_millis(3100), "{took:?}");
    starting.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn nodes_that_do_not_come_are_given_up_after_the_connect_timeout() {
    let cluster = MemoryCluster::new(3);
    all_behave(&cluster, &refused());
    let (outcome, took) = connected(Quorum::builder(), &cluster).await;
    assert!(matches!(outcome, Err(Error::NoQuorum(_))), "{outcome:?}");
    assert_eq!(took, CONNECT_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_lasting_error_fails_the_connect_at_once_without_a_quorum() {
    let cluster = MemoryCluster::new(3);
    for error in [
        NodeError::NoAuth("WRONGPASS".into()),
        NodeError::NoPermission("evalsha".into()),
        NodeError::Tls("unknown CA".into()),
        NodeError::Handshake(std::sync::Arc::new(NodeError::Server("ERR DB index is out of range".into()))),
    ] {
        let lasting = Behaviour::Failing(error);
        all_behave(&cluster, &lasting);
        let (outcome, took) = connected(Quorum::builder(), &cluster).await;
        assert!(matches!(outcome, Err(Error::NoQuorum(_))), "{outcome:?}");
        assert_eq!(took, Duration::ZERO, "{outcome:?}");
        all_behave(&cluster, &refused());
        server(&cluster, 0).behave(lasting);
        let (_, took) = connected(Quorum::builder(), &cluster).await;
        assert_eq!(took, CONNECT_TIMEOUT, "two others may come");
    }
    all_behave(&cluster, &refused());
    let clock_off = NodeError::Handshake(std::sync::Arc::new(NodeError::ClockOff(Duration::from_secs(7200))));
    server(&cluster, 0).behave(Behaviour::Failing(clock_off));
    let (outcome, took) = connected(Quorum::builder(), &cluster).await;
    assert!(
        matches!(outcome, Err(Error::Config(ConfigError::Server { reason: NodeError::ClockOff(_), .. }))),
        "{outcome:?}"
    );
    assert_eq!(took, CONNECT_TIMEOUT, "two others may come, and then do without it");
}

#[tokio::test(start_paused = true)]
async fn the_first_node_in_the_order_given_is_named_of_those_that_answer_in_time() {
    let cluster = MemoryCluster::new(5);
    let forbidden = NodeError::Handshake(std::sync::Arc::new(NodeError::RunIdForbidden));
    for silent in 0..3 {
        all_behave(&cluster, &Behaviour::Failing(forbidden.clone()));
        (0..silent).for_each(|node| server(&cluster, node).behave(Behaviour::Hanging));
        let (outcome, took) = connected(Quorum::builder(), &cluster).await;
        let Err(Error::Config(ConfigError::Server { node, .. })) = outcome else { panic!("{outcome:?}") };
        assert_eq!(*node, *format!("memory:{silent}"));
        assert!(took <= LONGEST_GRACE, "{took:?}");
    }
}
