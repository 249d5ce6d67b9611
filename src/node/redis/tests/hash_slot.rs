//! A node in a Redis Cluster: migrations of the slot, and the sentry.

use super::*;
use crate::{node::operation::samples, values::NodeError};

/// Starts a server without slots that is a member of the cluster. Returns the server and its id.
fn other_server(server: &Server) -> (Server, String) {
    let other = Server::start_with(&["--cluster-enabled", "yes", "--cluster-node-timeout", "500"]);
    let id: String = other.ask(&["CLUSTER", "MYID"]);
    server.ask::<()>(&["CLUSTER", "MEET", "127.0.0.1", &other.port()]);
    let deadline = Instant::now() + Duration::from_secs(10);
    while !server.ask::<String>(&["CLUSTER", "NODES"]).lines().any(|line| line.starts_with(&id)) {
        assert!(Instant::now() < deadline, "the servers do not meet");
        std::thread::sleep(Duration::from_millis(20));
    }
    (other, id)
}

fn slot(server: &Server) -> String {
    server.ask::<u32>(&["CLUSTER", "KEYSLOT", "{redquorum}"]).to_string()
}

/// The metadata key is a declared key of each call, so that the server refuses the calls of a moving slot. As long as all
/// declared keys are there, the server executes the script, and refuses its commands for missing keys.
#[tokio::test(flavor = "multi_thread")]
async fn a_moving_slot_gives_no_vote_and_no_other_answer() {
    let server = Server::start_cluster();
    let fixture = Fixture::at(&server.cluster_url());
    let (held, free) = (resource("held"), resource("free"));
    vote(&fixture.lock(&held, 1).await);
    let (_other, id) = other_server(&server);
    for has_metadata in [false, true] {
        if has_metadata {
            server.ask::<()>(&["HSET", "{redquorum}redquorum:node", "unused", "1"]);
        }
        server.ask::<()>(&["CLUSTER", "SETSLOT", &slot(&server), "MIGRATING", &id]);
        for lock in [fixture.lock(&free, 2), fixture.lock(&held, 2), fixture.lock(&held, 1)] {
            assert_eq!(*lock.await, [Answer::Error(NodeError::SlotMigrating)], "{has_metadata}");
        }
        let inspected = fixture.call(samples::inspect("held")).await;
        assert_eq!(*inspected, [Answer::Error(NodeError::SlotMigrating)], "{has_metadata}");
        server.ask::<()>(&["CLUSTER", "SETSLOT", &slot(&server), "STABLE"]);
    }
    assert!(matches!(&*fixture.lock(&held, 2).await, [Answer::Held(_)]));
    vote(&fixture.lock(&free, 2).await);
}

/// The server takes the slot away from its connections (`sunsubscribe`) before the next answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_ends_when_its_server_loses_the_slot() {
    let server = Server::start_cluster();
    let fixture = Fixture::at(&server.cluster_url());
    let r = resource("r");
    let listener = Arc::new(RecordingListener::default());
    let _subscription = fixture.node.subscribe(&r, Arc::clone(&listener) as Arc<dyn Listener>);
    assert_notices(&listener, &[Notice::Subscribed]).await;
    server.ask::<()>(&["CLUSTER", "DELSLOTS", &slot(&server)]);
    assert_notices(&listener, &[Notice::Interrupted]).await;
    server.ask::<()>(&["CLUSTER", "ADDSLOTS", &slot(&server)]);
    assert_notices(&listener, &[Notice::Subscribed]).await;
    fixture.lock_eventually(&r, 1).await;
}
