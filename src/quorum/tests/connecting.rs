//! The wait of a new client for its nodes.

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

/// The longest wait after a quorum has connected: an eighth of the node timeout.
const LONGEST_GRACE: Duration = Duration::from_millis(125);

fn refused() -> Behaviour {
    Behaviour::Failing(NodeError::Unreachable("connection refused".into()))
}

/// Returns the outcome and the duration of a new client's wait for its nodes.
async fn connect(builder: QuorumBuilder, cluster: &MemoryCluster) -> (Result<(), Error>, Duration) {
    let quorum = builder.connect_in_memory(cluster).unwrap();
    let start = Instant::now();
    (wait_for_quorum(&quorum.client().context).await, start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_delays_the_start_by_at_most_an_eighth_of_the_node_timeout() {
    let cluster = MemoryCluster::new(5);
    server(&cluster, 3).behave(Behaviour::Hanging);
    let (outcome, took) = connect(Quorum::builder(), &cluster).await;
    outcome.unwrap();
    assert!(took <= LONGEST_GRACE, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn the_start_takes_no_time_if_all_nodes_have_answered_or_failed() {
    let cluster = MemoryCluster::new(3);
    server(&cluster, 2).behave(refused());
    let (outcome, took) = connect(Quorum::builder(), &cluster).await;
    outcome.unwrap();
    assert_eq!(took, Duration::ZERO, "all nodes have answered or failed");
}

/// Without registrations, no later check would find a node of another quorum.
#[tokio::test(start_paused = true)]
async fn without_a_restart_guard_the_client_waits_for_all_nodes() {
    let cluster = MemoryCluster::new(3);
    server(&cluster, 2).behave(Behaviour::Hanging);
    let (outcome, took) = connect(Quorum::builder().restart_guard(RestartGuard::Off), &cluster).await;
    outcome.unwrap();
    assert_eq!(took, CONNECT_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn the_client_waits_for_starting_nodes_and_connects_at_once() {
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
    let (outcome, took) = connect(Quorum::builder(), &cluster).await;
    outcome.unwrap();
    assert!(took >= Duration::from_secs(3) && took <= Duration::from_millis(3100), "{took:?}");
    starting.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_start_fails_after_the_connect_timeout_without_a_quorum() {
    let cluster = MemoryCluster::new(3);
    all_behave(&cluster, &refused());
    let (outcome, took) = connect(Quorum::builder(), &cluster).await;
    assert!(matches!(outcome, Err(Error::NoQuorum(_))), "{outcome:?}");
    assert_eq!(took, CONNECT_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn lasting_errors_of_all_nodes_fail_the_start_at_once() {
    let cluster = MemoryCluster::new(3);
    for error in [
        NodeError::NoAuth("WRONGPASS".into()),
        NodeError::NoPermission("evalsha".into()),
        NodeError::Tls("unknown CA".into()),
        NodeError::Handshake(std::sync::Arc::new(NodeError::Server("ERR DB index is out of range".into()))),
    ] {
        let lasting = Behaviour::Failing(error);
        all_behave(&cluster, &lasting);
        let (outcome, took) = connect(Quorum::builder(), &cluster).await;
        assert!(matches!(outcome, Err(Error::NoQuorum(_))), "{outcome:?}");
        assert_eq!(took, Duration::ZERO, "{outcome:?}");
        all_behave(&cluster, &refused());
        server(&cluster, 0).behave(lasting);
        let (_, took) = connect(Quorum::builder(), &cluster).await;
        assert_eq!(took, CONNECT_TIMEOUT, "the two other nodes may still start");
    }
    all_behave(&cluster, &refused());
    let clock_off = NodeError::Handshake(std::sync::Arc::new(NodeError::ClockOff(Duration::from_secs(7200))));
    server(&cluster, 0).behave(Behaviour::Failing(clock_off));
    let (outcome, took) = connect(Quorum::builder(), &cluster).await;
    assert!(
        matches!(outcome, Err(Error::Config(ConfigError::Server { reason: NodeError::ClockOff(_), .. }))),
        "{outcome:?}"
    );
    assert_eq!(took, CONNECT_TIMEOUT, "the two other nodes may still start and be a quorum");
}

#[tokio::test(start_paused = true)]
async fn the_error_names_the_first_node_of_the_nodes_that_answer_in_time() {
    let cluster = MemoryCluster::new(5);
    let forbidden = NodeError::Handshake(std::sync::Arc::new(NodeError::RunIdForbidden));
    for silent in 0..3 {
        all_behave(&cluster, &Behaviour::Failing(forbidden.clone()));
        (0..silent).for_each(|node| server(&cluster, node).behave(Behaviour::Hanging));
        let (outcome, took) = connect(Quorum::builder(), &cluster).await;
        let Err(Error::Config(ConfigError::Server { node, .. })) = outcome else { panic!("{outcome:?}") };
        assert_eq!(*node, *format!("memory:{silent}"));
        assert!(took <= LONGEST_GRACE, "{took:?}");
    }
}
