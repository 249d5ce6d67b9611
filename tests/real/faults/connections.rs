//! Nodes that cannot be asked, do not answer, or say what means nothing.

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

use super::{ailing, cluster, eventually_both, reasons, recovers};
use crate::real::behaviours::{SOON, WITH_TTL, builder, client, in_order, replies_of};

#[tokio::test]
async fn a_refused_connection_is_told() {
    let cluster = cluster().await;
    let lock = client(&cluster).await.red_lock("r").options(WITH_TTL);
    for server in ailing(&cluster) {
        server.kill().await;
    }
    let is_unreachable = |node_error: &NodeError| matches!(node_error, NodeError::Unreachable(_));
    eventually_both(&lock, "the refused connections are told", is_unreachable).await;
    for server in ailing(&cluster) {
        server.restart_empty().await;
    }
    recovers(&cluster, &lock).await;
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_told_and_then_not_asked() {
    let cluster = cluster().await;
    let quorum = builder(&cluster).node_timeout(Duration::from_millis(300)).connect().await.unwrap();
    let lock = quorum.red_lock("r").options(WITH_TTL);
    for server in ailing(&cluster) {
        server.freeze().await;
    }
    assert_eq!(reasons(&lock).await, [NodeError::TimedOut, NodeError::TimedOut]);
    let is_unasked = |node_error: &NodeError| *node_error == NodeError::Unresponsive;
    eventually_both(&lock, "the nodes are known not to answer", is_unasked).await;
    for server in ailing(&cluster) {
        server.thaw().await;
    }
    recovers(&cluster, &lock).await;
}

/// More locks at once than may wait for a node. What was decided is not waited for, so two nodes
/// are enough to say so.
#[tokio::test]
async fn too_many_calls_at_once_are_told() {
    let cluster = cluster().await;
    let quorum = client(&cluster).await;
    let locks: Vec<_> =
        (0..4_200).map(|number| quorum.red_lock(format!("r{number}")).options(WITH_TTL)).collect();
    let mut attempts: FuturesUnordered<_> = locks.iter().map(RedLock::try_lock).collect();
    let Some(Err(error)) = attempts.next().await else { panic!("all of them fit") };
    let replies = in_order(&replies_of(error));
    let overloaded =
        replies.iter().filter(|reply| **reply == NodeReply::Failed(NodeError::Overloaded)).count();
    assert!(overloaded >= 2, "{replies:?}");
    drop(attempts);
    for server in cluster.servers() {
        let is_clean =
            async || !server.keys().await.iter().any(|key| key.starts_with('r') && !key.contains(':'));
        eventually(SOON, "no key is left", is_clean).await;
    }
}

#[tokio::test]
async fn nonsense_is_told_as_an_error_of_the_protocol() {
    let reason = reason_of_a_fool(RestartGuard::Off).await;
    assert!(matches!(reason, NodeError::Protocol(_)), "{reason:?}");
}

/// A connection that does not even register is not used.
#[tokio::test]
async fn nonsense_in_answer_to_the_registration_is_told_as_an_error_of_the_handshake() {
    let reason = reason_of_a_fool(RestartGuard::PerConnection).await;
    let NodeError::Handshake(cause) = &reason else { panic!("{reason:?}") };
    assert!(matches!(**cause, NodeError::Protocol(_)), "{cause:?}");
}

/// One real server, one dead, and one that speaks the protocol but answers every call with
/// nonsense: what is told of that.
async fn reason_of_a_fool(guard: RestartGuard) -> NodeError {
    let cluster = Cluster::start(2).await;
    let fake = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", fake.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((connection, _)) = fake.accept().await {
            tokio::spawn(talk_nonsense(connection));
        }
    });
    let nodes = cluster.urls().into_iter().chain([url]);
    let builder = Quorum::builder().admit_new_nodes().restart_guard(guard);
    let lock = builder.nodes(nodes).connect().await.unwrap().red_lock("r").options(WITH_TTL);
    cluster.server(1).kill().await;
    let is_lasting = |node_error: &NodeError| !matches!(node_error, NodeError::Disconnected);
    eventually_both(&lock, "the causes are told", is_lasting).await;
    let [dead, fool] = reasons(&lock).await;
    assert!(matches!(dead, NodeError::Unreachable(_)), "{dead:?}");
    fool
}

async fn talk_nonsense(connection: TcpStream) -> std::io::Result<()> {
    let mut connection = BufReader::new(connection);
    loop {
        let answer = match &*command(&mut connection).await? {
            "HELLO" => "%1\r\n+proto\r\n:3\r\n",
            "CLIENT" => "+OK\r\n",
            // The name of the script that was loaded.
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

/// Reads a line such as `*3` or `$11`.
async fn length(connection: &mut BufReader<TcpStream>) -> std::io::Result<usize> {
    let mut line = String::new();
    if connection.read_line(&mut line).await? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    line.trim_end()[1..].parse().map_err(|_| std::io::ErrorKind::InvalidData.into())
}
