//! Servers that cannot be nodes: members of a Redis Cluster, Sentinels, servers with another password, and
//! servers of another protocol.
//!
//! Promise: the error names the reason, and where possible the remedy. The client writes no key to a server of a Redis
//! Cluster.

use redquorum::{
    Error, Quorum, RestartGuard, admin,
    error::{ConfigError, NodeError},
};
use redquorum_tests::{Cluster, Kind, Sentinel, Server, ServerOptions, eventually};

use super::{SOON, assert_locks, refusal, replies_of};

/// Starts a server with the configuration of a Redis Cluster.
async fn server_of_a_redis_cluster() -> Cluster {
    Cluster::start_as(Kind::Processes, 1, ServerOptions::default().config("cluster-enabled", "yes")).await
}

fn address(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port())
}

/// The server is refused with each restart guard, before the client writes anything.
#[tokio::test]
async fn a_server_of_a_redis_cluster_is_refused_with_the_reason() {
    let cluster = server_of_a_redis_cluster().await;
    let server = cluster.server(0);
    for guard in [RestartGuard::PerConnection, RestartGuard::PerVote, RestartGuard::Off] {
        let builder = Quorum::builder().nodes([server.url()]).restart_guard(guard).admit_new_nodes();
        let error = builder.clone().connect().await.unwrap_err();
        let Error::Config(ConfigError::Server { node, reason, .. }) = &error else { panic!("{error:?}") };
        assert_eq!((&**node, reason), (&*address(server), &NodeError::ClusterMode));
        let from_init = admin::init(&builder).await.unwrap_err();
        for text in [error.to_string(), from_init.to_string()] {
            let remedy = "three small servers beside the cluster, or make the cluster one node";
            let hints = [&*address(server), "standalone", "cluster-enabled no", "redis+cluster://HOST:PORT"];
            for hint in hints.into_iter().chain(["Redis Cluster", remedy]) {
                assert!(text.contains(hint), "{text} does not name {hint}");
            }
        }
        assert!(server.keys().await.is_empty());
    }
}

#[tokio::test]
async fn a_quorum_of_other_nodes_works_beside_a_server_of_a_redis_cluster() {
    let (good, bad) = (Cluster::processes(2).await, server_of_a_redis_cluster().await);
    let urls = good.urls().into_iter().chain(bad.urls());
    let quorum = Quorum::builder().nodes(urls).admit_new_nodes().connect().await.unwrap();
    let guard = assert_locks(&quorum).await;
    eventually(SOON, "the third node's reply names the reason", async || {
        guard
            .node_replies()
            .iter()
            .last()
            .is_some_and(|(_, reply)| refusal(reply) == Some(&NodeError::ClusterMode))
    })
    .await;
    assert!(bad.server(0).keys().await.is_empty());
}

#[tokio::test]
async fn the_error_of_a_sentinel_as_a_node_shows_the_form_of_the_url() {
    let cluster = Cluster::processes(2).await;
    cluster.server(1).command(&["REPLICAOF", "127.0.0.1", &cluster.server(0).port().to_string()]).await;
    let sentinel = Sentinel::watching("mymaster", cluster.server(0)).await;
    let node = format!("127.0.0.1:{}", sentinel.port());
    // A Sentinel has no databases, so it would refuse `SELECT` in the second url for another reason.
    for url in [format!("redis://{node}"), format!("redis://{node}/3")] {
        let error = Quorum::builder().nodes([url]).connect().await.unwrap_err();
        let Error::Config(ConfigError::Server { node: address, reason, .. }) = &error else {
            panic!("{error:?}")
        };
        assert_eq!((&**address, reason), (&*node, &NodeError::SentinelMode));
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("{node}: ")) && text.contains("redis+sentinel://HOST:PORT/NAME"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn the_error_names_each_sentinel_that_cannot_name_the_master() {
    let cluster = Cluster::processes(2).await;
    cluster.server(1).command(&["REPLICAOF", "127.0.0.1", &cluster.server(0).port().to_string()]).await;
    let sentinel = Sentinel::watching("mymaster", cluster.server(0)).await;
    let url = format!(
        "redis+sentinel://127.0.0.1:{},127.0.0.1:{}/other",
        cluster.server(0).port(),
        sentinel.port()
    );
    let error = Quorum::builder().nodes([url]).connect().await.unwrap_err();
    let replies = replies_of(error.clone());
    let (_, reply) = replies.iter().next().unwrap();
    assert!(matches!(refusal(reply), Some(NodeError::NoMaster(_))), "{reply}");
    for hint in ["unknown command", "watches no master by the name of other"] {
        assert!(error.to_string().to_ascii_lowercase().contains(hint), "{error}");
    }
}

/// Returns the text of the error of a node that cannot be connected.
async fn connect_error(url: &str) -> String {
    let error = Quorum::builder().nodes([url]).connect().await.unwrap_err();
    assert!(matches!(error, Error::NoQuorum(_)), "{error}");
    error.to_string()
}

#[tokio::test]
async fn the_error_of_a_server_with_a_password_names_the_remedy() {
    let cluster = Cluster::start_as(Kind::Processes, 1, ServerOptions::default().password("word")).await;
    let node = address(cluster.server(0));
    let error = connect_error(&format!("redis://{node}")).await;
    assert_eq!(
        error,
        format!(
            "no quorum of nodes could be connected: 1 of 1 nodes needed; {node}: the connection cannot be used: \
             authentication failed: the server wants a password: write redis://:PASSWORD@HOST:PORT"
        )
    );
}

#[tokio::test]
async fn a_web_server_is_reported_as_not_speaking_the_protocol() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let page = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
            tokio::io::AsyncWriteExt::write_all(&mut client, page).await.unwrap();
        }
    });
    let error = connect_error(&format!("redis://{address}")).await;
    assert!(error.ends_with("the server speaks HTTP, not the protocol of Redis"), "{error}");
    server.abort();
}
