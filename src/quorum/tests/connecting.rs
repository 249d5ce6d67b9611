//! The wait of a new client for its nodes.

use std::time::Duration;

use tokio::time::Instant;

use crate::lock::tests::{all_behave, client, pass, server, traces::Traces};
use crate::{
    MemoryCluster, Quorum, QuorumBuilder, RestartGuard,
    error::ConfigError,
    error::{Error, NodeError, NodeReply},
    node::memory::Behaviour,
    quorum::connecting::wait_for_quorum,
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest wait after a quorum has connected: an eighth of the node timeout.
const LONGEST_GRACE: Duration = Duration::from_millis(125);

fn unreachable() -> Behaviour {
    Behaviour::Failing(NodeError::Unreachable("connection refused".into()))
}

/// Returns the outcome and the duration of a new client's wait for its nodes.
async fn wait_for_nodes(builder: QuorumBuilder, cluster: &MemoryCluster) -> (Result<(), Error>, Duration) {
    let quorum = builder.connect_in_memory(cluster).unwrap();
    let start = Instant::now();
    (wait_for_quorum(&quorum.client().context).await, start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_hanging_node_delays_a_new_client_by_at_most_an_eighth_of_the_node_timeout() {
    let cluster = MemoryCluster::new(5);
    server(&cluster, 3).behave(Behaviour::Hanging);
    let (outcome, took) = wait_for_nodes(Quorum::builder(), &cluster).await;
    outcome.unwrap();
    assert!(took <= LONGEST_GRACE, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_new_client_connects_at_once_if_all_nodes_answer_or_fail() {
    let cluster = MemoryCluster::new(3);
    server(&cluster, 2).behave(unreachable());
    let (outcome, took) = wait_for_nodes(Quorum::builder(), &cluster).await;
    outcome.unwrap();
    assert_eq!(took, Duration::ZERO, "all nodes have answered or failed");
}

/// Without a restart guard there are no registrations, so no later check would find a node of another quorum.
#[tokio::test(start_paused = true)]
async fn a_new_client_without_a_restart_guard_waits_for_all_nodes() {
    let cluster = MemoryCluster::new(3);
    server(&cluster, 2).behave(Behaviour::Hanging);
    let (outcome, took) = wait_for_nodes(Quorum::builder().restart_guard(RestartGuard::Off), &cluster).await;
    outcome.unwrap();
    assert_eq!(took, CONNECT_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_new_client_connects_as_soon_as_starting_nodes_answer() {
    let cluster = MemoryCluster::new(3);
    all_behave(&cluster, &unreachable());
    let starting = tokio::spawn({
        let cluster = cluster.clone();
        async move {
            pass(Duration::from_secs(2)).await;
            server(&cluster, 0).behave(Behaviour::Failing(NodeError::Loading));
            pass(Duration::from_secs(1)).await;
            all_behave(&cluster, &Behaviour::Granting);
        }
    });
    let (outcome, took) = wait_for_nodes(Quorum::builder(), &cluster).await;
    outcome.unwrap();
    assert!(took >= Duration::from_secs(3) && took <= Duration::from_millis(3100), "{took:?}");
    starting.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_new_client_fails_after_the_connect_timeout_without_a_quorum() {
    let cluster = MemoryCluster::new(3);
    all_behave(&cluster, &unreachable());
    let (outcome, took) = wait_for_nodes(Quorum::builder(), &cluster).await;
    assert!(matches!(outcome, Err(Error::NoQuorum(_))), "{outcome:?}");
    assert_eq!(took, CONNECT_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_new_client_fails_at_once_only_if_lasting_errors_exclude_a_quorum() {
    let cluster = MemoryCluster::new(3);
    for error in [
        NodeError::NoAuth("WRONGPASS".into()),
        NodeError::NoPermission("evalsha".into()),
        NodeError::Tls("unknown CA".into()),
        NodeError::Handshake(std::sync::Arc::new(NodeError::Server("ERR DB index is out of range".into()))),
    ] {
        let lasting = Behaviour::Failing(error);
        all_behave(&cluster, &lasting);
        let (outcome, took) = wait_for_nodes(Quorum::builder(), &cluster).await;
        assert!(matches!(outcome, Err(Error::NoQuorum(_))), "{outcome:?}");
        assert_eq!(took, Duration::ZERO, "{outcome:?}");
        all_behave(&cluster, &unreachable());
        server(&cluster, 0).behave(lasting);
        let (_, took) = wait_for_nodes(Quorum::builder(), &cluster).await;
        assert_eq!(took, CONNECT_TIMEOUT, "the two other nodes may still start");
    }
    all_behave(&cluster, &unreachable());
    let clock_off = NodeError::Handshake(std::sync::Arc::new(NodeError::ClockOff {
        gap: Duration::from_secs(7200),
        is_node_ahead: false,
    }));
    server(&cluster, 0).behave(Behaviour::Failing(clock_off));
    let (outcome, took) = wait_for_nodes(Quorum::builder(), &cluster).await;
    assert!(
        matches!(outcome, Err(Error::Config(ConfigError::Server { reason: NodeError::ClockOff { .. }, .. }))),
        "{outcome:?}"
    );
    assert_eq!(took, CONNECT_TIMEOUT, "the two other nodes may still start and be a quorum");
}

/// The advice for a node that timed out is to start the node, which is wrong for a node that is only slow.
#[tokio::test(start_paused = true)]
async fn a_node_times_out_only_after_a_wait_of_a_node_timeout() {
    let replies = |outcome: Result<(), Error>| match outcome {
        Err(Error::NoQuorum(error)) => error.node_replies().all().to_vec(),
        outcome => panic!("{outcome:?}"),
    };
    let cluster = MemoryCluster::new(3);
    let refused = NodeError::NoAuth("WRONGPASS".into());
    all_behave(&cluster, &Behaviour::Failing(refused.clone()));
    server(&cluster, 2).behave(Behaviour::Hanging);
    let (outcome, took) = wait_for_nodes(Quorum::builder(), &cluster).await;
    assert!(took <= LONGEST_GRACE, "{took:?}");
    let failed = || NodeReply::Failed(refused.clone());
    assert_eq!(replies(outcome), [failed(), failed(), NodeReply::Pending]);
    all_behave(&cluster, &Behaviour::Hanging);
    // The default node timeout is a second.
    for (connect_timeout, reply) in
        [(999, NodeReply::Pending), (1000, NodeReply::Failed(NodeError::TimedOut))]
    {
        let builder = Quorum::builder().connect_timeout(Duration::from_millis(connect_timeout));
        let (outcome, _) = wait_for_nodes(builder, &cluster).await;
        assert_eq!(replies(outcome), vec![reply; 3], "{connect_timeout} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_clock_differs_from_all_nodes_is_told_that_its_clock_is_wrong() {
    let off = |hours: u64, is_node_ahead| {
        let gap = Duration::from_secs(hours * 3600);
        Behaviour::Failing(NodeError::Handshake(std::sync::Arc::new(NodeError::ClockOff {
            gap,
            is_node_ahead,
        })))
    };
    let cluster = MemoryCluster::new(3);
    all_behave(&cluster, &off(3, true));
    server(&cluster, 1).behave(off(2, true));
    let (outcome, _) = wait_for_nodes(Quorum::builder(), &cluster).await;
    let expected = ConfigError::ClientClockOff { gap: Duration::from_secs(7200), is_client_ahead: false };
    assert_eq!(outcome, Err(Error::Config(expected.clone())));
    assert!(
        expected.to_string().starts_with("the clock of this client is 7200s behind the clocks of all nodes")
    );
    // One node that cannot be reached is no evidence. A node whose clock differs in the other direction is.
    server(&cluster, 2).behave(unreachable());
    let (outcome, _) = wait_for_nodes(Quorum::builder(), &cluster).await;
    assert!(matches!(outcome, Err(Error::Config(ConfigError::ClientClockOff { .. }))), "{outcome:?}");
    server(&cluster, 2).behave(off(2, false));
    let (outcome, _) = wait_for_nodes(Quorum::builder(), &cluster).await;
    assert!(matches!(outcome, Err(Error::Config(ConfigError::Server { .. }))), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn the_error_names_the_first_unfit_node_that_answers_in_time() {
    let cluster = MemoryCluster::new(5);
    let forbidden = NodeError::Handshake(std::sync::Arc::new(NodeError::RunIdForbidden));
    for hanging in 0..3 {
        all_behave(&cluster, &Behaviour::Failing(forbidden.clone()));
        (0..hanging).for_each(|node| server(&cluster, node).behave(Behaviour::Hanging));
        let (outcome, took) = wait_for_nodes(Quorum::builder(), &cluster).await;
        let Err(Error::Config(ConfigError::Server { node, .. })) = outcome else { panic!("{outcome:?}") };
        assert_eq!(*node, *format!("memory:{hanging}"));
        assert!(took <= LONGEST_GRACE, "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_client_logs_a_warning_at_once_if_no_quorum_votes() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let traces = Traces::begin();
    wait_for_quorum(&quorum.client().context).await.unwrap();
    assert!(traces.warnings().is_empty(), "{:?}", traces.warnings());
    server(&cluster, 0).forget();
    wait_for_quorum(&quorum.client().context).await.unwrap();
    assert!(traces.warnings().is_empty(), "two of three nodes vote");
    server(&cluster, 1).forget();
    wait_for_quorum(&quorum.client().context).await.unwrap();
    let warning = traces.only("connected, but no quorum votes: locks wait");
    for words in ["memory:0: abstains", "memory:2: answers", "`redquorum init`"] {
        assert!(warning.field("shortage").contains(words), "{warning:?}");
    }
    let read_only = Quorum::builder().read_only().connect_in_memory(&cluster).unwrap();
    wait_for_quorum(&read_only.client().context).await.unwrap();
    assert_eq!(traces.warnings().len(), 1, "a read-only client needs no votes");
}

#[tokio::test(start_paused = true)]
async fn a_new_client_logs_one_warning_after_a_second_without_a_quorum() {
    let cluster = MemoryCluster::new(3);
    all_behave(&cluster, &unreachable());
    let quorum = client(&cluster);
    let traces = Traces::begin();
    let context = std::sync::Arc::clone(&quorum.client().context);
    let connecting = tokio::spawn(async move { wait_for_quorum(&context).await });
    pass(Duration::from_millis(900)).await;
    assert!(traces.warnings().is_empty(), "{:?}", traces.warnings());
    pass(Duration::from_secs(3)).await;
    let warning = traces.only("connecting: no quorum answers yet");
    assert!(warning.field("nodes").contains("memory:2: unreachable: connection refused"), "{warning:?}");
    connecting.await.unwrap().unwrap_err();
    assert_eq!(traces.warnings().len(), 1);
}
