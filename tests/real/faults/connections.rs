//! Faults of connections: refused connections, hung servers, too many calls, and answers without a meaning.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use redquorum::{
    Quorum, RedLock, RestartGuard,
    error::{NodeError, NodeReply},
};
use redquorum_tests::{Cluster, eventually};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::{assert_recovers, cluster, faulty_servers, reasons, wait_until_both_fail_with};
use crate::real::behaviours::{SOON, WITH_TTL, builder, client, in_order, replies_of};

#[tokio::test]
async fn a_refused_connection_is_reported() {
    let cluster = cluster().await;
    let lock = client(&cluster).await.red_lock("r").options(WITH_TTL);
    for server in faulty_servers(&cluster) {
        server.kill().await;
    }
    let is_unreachable = |node_error: &NodeError| matches!(node_error, NodeError::Unreachable(_));
    wait_until_both_fail_with(&lock, "both nodes are reported as unreachable", is_unreachable).await;
    for server in faulty_servers(&cluster) {
        server.restart_empty().await;
    }
    assert_recovers(&cluster, &lock).await;
}

#[tokio::test]
async fn a_hung_server_is_reported_and_then_not_asked() {
    let cluster = cluster().await;
    let quorum = builder(&cluster).node_timeout(Duration::from_millis(300)).connect().await.unwrap();
    let lock = quorum.red_lock("r").options(WITH_TTL);
    for server in faulty_servers(&cluster) {
        server.freeze().await;
    }
    assert_eq!(reasons(&lock).await, [NodeError::TimedOut, NodeError::TimedOut]);
    let is_unasked = |node_error: &NodeError| *node_error == NodeError::Unresponsive;
    wait_until_both_fail_with(&lock, "both nodes are reported as unresponsive", is_unasked).await;
    for server in faulty_servers(&cluster) {
        server.thaw().await;
    }
    assert_recovers(&cluster, &lock).await;
}

/// The test makes more lock calls at once than the send queue of a node accepts. Two overloaded nodes decide the call,
/// which then does not wait for the third node.
#[tokio::test]
async fn too_many_calls_at_once_are_reported() {
    let cluster = cluster().await;
    let quorum = client(&cluster).await;
    let locks: Vec<_> =
        (0..4_200).map(|number| quorum.red_lock(format!("r{number}")).options(WITH_TTL)).collect();
    let mut attempts: FuturesUnordered<_> = locks.iter().map(RedLock::try_lock).collect();
    let Some(Err(error)) = attempts.next().await else { panic!("the first call was not refused") };
    let replies = in_order(&replies_of(error));
    let overloaded =
        replies.iter().filter(|reply| **reply == NodeReply::Failed(NodeError::Overloaded)).count();
    assert!(overloaded >= 2, "{replies:?}");
    drop(attempts);
    for server in cluster.servers() {
        let is_clean =
            async || !server.keys().await.iter().any(|key| key.starts_with('r') && !key.contains(':'));
        eventually(SOON, "no key of the locks remains", is_clean).await;
    }
}

/// The answer ends the connection. A call before the next connection gets the error as the reason of a failed dial.
#[tokio::test]
async fn a_meaningless_answer_is_reported_as_a_protocol_error() {
    let reason = error_of_meaningless_node(RestartGuard::Off).await;
    let cause = if let NodeError::Handshake(cause) = &reason { cause } else { &reason };
    assert!(matches!(cause, NodeError::Protocol(_)), "{reason:?}");
}

/// A connection whose registration fails is not used.
#[tokio::test]
async fn a_meaningless_answer_to_the_registration_is_a_handshake_error() {
    let reason = error_of_meaningless_node(RestartGuard::PerConnection).await;
    let NodeError::Handshake(cause) = &reason else { panic!("{reason:?}") };
    assert!(matches!(**cause, NodeError::Protocol(_)), "{cause:?}");
}

/// Returns the error of a node that speaks RESP but gives meaningless answers. The quorum also has a working server and
/// a dead server.
async fn error_of_meaningless_node(guard: RestartGuard) -> NodeError {
    let cluster = Cluster::start(2).await;
    let fake = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", fake.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((connection, _)) = fake.accept().await {
            tokio::spawn(answer_without_meaning(connection));
        }
    });
    let nodes = cluster.urls().into_iter().chain([url]);
    let builder = Quorum::builder().admit_new_nodes().restart_guard(guard);
    let lock = builder.nodes(nodes).connect().await.unwrap().red_lock("r").options(WITH_TTL);
    cluster.server(1).kill().await;
    let is_lasting = |node_error: &NodeError| !matches!(node_error, NodeError::Disconnected);
    wait_until_both_fail_with(&lock, "both nodes report a lasting error", is_lasting).await;
    let [dead, nonsense] = reasons(&lock).await;
    assert!(matches!(dead, NodeError::Unreachable(_)), "{dead:?}");
    nonsense
}

/// Speaks RESP, and answers each call of a script with a meaningless word.
async fn answer_without_meaning(connection: TcpStream) -> std::io::Result<()> {
    let mut connection = BufReader::new(connection);
    loop {
        let answer = match &*command(&mut connection).await? {
            "HELLO" => "%1\r\n+proto\r\n:3\r\n",
            "CLIENT" => "+OK\r\n",
            // The SHA1 of the loaded script.
            "SCRIPT" => "$40\r\n0123456789012345678901234567890123456789\r\n",
            _ => "+nonsense\r\n",
        };
        connection.write_all(answer.as_bytes()).await?;
    }
}

/// Reads a command, and returns its first word.
async fn command(connection: &mut BufReader<TcpStream>) -> std::io::Result<String> {
    let words = length(connection).await?;
    let mut first = None;
    for _ in 0..words {
        let length = length(connection).await?;
        let mut word = vec![0; length + 2];
        connection.read_exact(&mut word).await?;
        first.get_or_insert_with(|| String::from_utf8_lossy(&word[..length]).to_ascii_uppercase());
    }
    Ok(first.unwrap_or_default())
}

/// Reads the number of a line such as `*3` or `$11`.
async fn length(connection: &mut BufReader<TcpStream>) -> std::io::Result<usize> {
    let mut line = String::new();
    if connection.read_line(&mut line).await? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    line.trim_end()[1..].parse().map_err(|_| std::io::ErrorKind::InvalidData.into())
}
