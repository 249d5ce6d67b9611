//! `redquorum init`.

use super::redquorum::{code, json, output, plainly, stderr, stdout};
use crate::support::Cluster;

#[tokio::test]
async fn new_nodes_are_made_a_quorum_once_and_vote_at_once() {
    let cluster = Cluster::start(3).await;
    let made = output(plainly(&cluster, ["init"])).await;
    assert_eq!(code(&made), 0, "{}", stderr(&made));
    assert_eq!(stdout(&made).matches("new: it votes from now on").count(), 3);
    assert!(stdout(&made).contains("name=redquorum nodes=3 needed=2"), "{}", stdout(&made));
    let run = output(plainly(&cluster, ["run", "--wait", "0", "job", "--", "true"])).await;
    assert_eq!(code(&run), 0, "{}", stderr(&run));

    let again = output(plainly(&cluster, ["init"])).await;
    assert_eq!((code(&again), stdout(&again)), (78, String::new()));
    assert!(stderr(&again).contains("has a record already"), "{}", stderr(&again));
    assert!(stderr(&again).contains("no node was changed"), "{}", stderr(&again));
}

#[tokio::test]
async fn with_a_node_missing_no_other_is_changed_and_it_is_named() {
    let cluster = Cluster::start(3).await;
    cluster.server(1).kill().await;
    let failed = output(plainly(&cluster, ["init"])).await;
    assert_eq!(code(&failed), 69);
    let said = stderr(&failed);
    for words in [&*format!("127.0.0.1:{}", cluster.server(1).port()), "unreachable", "no node was changed"] {
        assert!(said.contains(words), "{words:?} is not in {said}");
    }
    for server in [cluster.server(0), cluster.server(2)] {
        assert!(server.keys().await.is_empty());
    }
}

#[tokio::test]
async fn as_json_the_nodes_are_named_without_their_passwords() {
    let options = crate::support::ServerOptions::default().password("secret");
    let cluster = Cluster::start_with(3, options).await;
    let made = output(plainly(&cluster, ["--json", "init"])).await;
    assert_eq!(code(&made), 0, "{}", stderr(&made));
    assert!(!stdout(&made).contains("secret"));
    let ports = cluster.servers().iter().map(|server| format!("127.0.0.1:{}", server.port()));
    let nodes: serde_json::Value = ports.collect::<Vec<String>>().into();
    assert_eq!(json(&made)[0]["nodes"], nodes);
}
