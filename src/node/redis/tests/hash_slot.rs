//! A node in a Redis Cluster: migrations of the slot, and the sentry.

use super::*;
use crate::{
    node::{
        names::HashTag,
        operation::samples,
        redis::script::{Script, ScriptReference},
    },
    values::NodeError,
};

/// Starts a server without slots that is a member of the cluster. Returns the server and its id.
fn other_server(server: &Server) -> (Server, String) {
    let (other, bus_port) = Server::start_without_slots();
    let id: String = other.ask(&["CLUSTER", "MYID"]);
    server.ask::<()>(&["CLUSTER", "MEET", "127.0.0.1", &other.port(), &bus_port]);
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

/// A replaced master may vote for a moment after a forced failover, and its clients may renew by it.
#[tokio::test]
async fn the_quarantine_in_a_cluster_is_longer_and_no_renewal_counts_in_it() {
    let config = config(&Arc::new(TokioClock::new()));
    let quarantine = |url| RedisTransport::new(route(url), parameters(), &config).parameters.quarantine;
    let (usual, in_cluster) = (quarantine("redis://127.0.0.1:1"), quarantine("redis+cluster://127.0.0.1:1"));
    assert_eq!(in_cluster.lasts, usual.lasts + Duration::from_secs(1));
    assert_eq!(in_cluster.renewals_after, in_cluster.lasts);
    assert!(usual.renewals_after < usual.lasts);
}

#[test]
fn the_metadata_key_is_the_last_key_of_each_call_in_a_cluster() {
    let keys = |script: &Script| {
        let command = script.command(ScriptReference::Name, &parameters(), &[samples::inspect("r")]);
        let arguments = command.args_iter().skip(2).map(|argument| match argument {
            redis::Arg::Simple(text) => String::from_utf8_lossy(text).into_owned(),
            other => panic!("{other:?}"),
        });
        let arguments: Vec<String> = arguments.collect();
        arguments[1..=arguments[0].parse::<usize>().unwrap()].to_vec()
    };
    assert_eq!(keys(&Script::standalone()), ["r"]);
    assert_eq!(keys(&Script::with_tag(HashTag::new("tag"))), ["{tag}r", "{tag}redquorum:node"]);
}

/// `PUBLISH` sends a notice to every server of a cluster.
#[tokio::test(flavor = "multi_thread")]
async fn a_notice_in_a_cluster_is_published_only_to_listeners() {
    let server = Server::start_cluster();
    let fixture = Fixture::at(&server.cluster_url());
    let (r, listener) = (resource("r"), Arc::new(RecordingListener::default()));
    let publications = || server.ask::<String>(&["INFO", "commandstats"]).contains("cmdstat_publish:");
    vote(&fixture.lock(&r, 1).await);
    fixture.unlock(&r, 1, true).await;
    assert!(!publications());
    let _subscription = fixture.node.subscribe(&r, Arc::clone(&listener) as Arc<dyn Listener>);
    assert_notices(&listener, &[Notice::Subscribed]).await;
    vote(&fixture.lock(&r, 2).await);
    fixture.unlock(&r, 2, true).await;
    assert_notices(&listener, &[Notice::Released]).await;
    assert!(publications());
}

/// Returns the number of scripts that the server has executed. Calls that the server refused before the script began do not
/// count.
fn executed_scripts(server: &Server) -> u64 {
    let stats: String = server.ask(&["INFO", "commandstats"]);
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    calls.and_then(|calls| calls.split(',').next()).map_or(0, |calls| calls.parse().unwrap())
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
        let executed_before = executed_scripts(&server);
        for lock in [fixture.lock(&free, 2), fixture.lock(&held, 2), fixture.lock(&held, 1)] {
            assert_eq!(*lock.await, [Answer::Error(NodeError::SlotMigrating)], "{has_metadata}");
        }
        let inspected = fixture.call(samples::inspect("held")).await;
        assert_eq!(*inspected, [Answer::Error(NodeError::SlotMigrating)], "{has_metadata}");
        if !has_metadata {
            assert_eq!(executed_scripts(&server), executed_before, "a script began without the metadata");
        }
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
