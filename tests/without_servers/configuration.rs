//! What a builder says of the quorum that it would connect.

use std::time::Duration;

use redquorum::{Quorum, error::ConfigError};

#[tokio::test]
async fn a_builder_tells_the_addresses_of_its_nodes_without_passwords_and_in_their_order() {
    let sentinels = "redis+sentinel://s-2,s-1/mymaster";
    let builder = Quorum::builder().nodes(["redis://me:secret@Node-2", "redis://node-1:7000/3", sentinels]);
    let connectors = builder.connectors().unwrap();
    let shown: Vec<_> = connectors.iter().map(|node| (node.address(), node.host())).collect();
    let expected =
        [("node-2:6379", Some("Node-2")), ("node-1:7000", Some("node-1")), ("s-1:26379/mymaster", None)];
    assert_eq!(shown, expected);
    let twice = builder.nodes(["redis://node-1:7000"]);
    assert!(matches!(twice.connectors(), Err(ConfigError::DuplicateNode { .. })));
}

#[test]
fn without_a_runtime_there_are_no_connections_to_be_made() {
    let builder = Quorum::builder().nodes(["redis://node-1"]);
    assert!(matches!(builder.connectors(), Err(ConfigError::NoRuntime)));
}

#[test]
fn a_builder_tells_the_fingerprint_of_its_settings() {
    let builder = || Quorum::builder().nodes(["redis://a", "redis://b", "redis://c"]);
    let fingerprint = builder().name("ours").max_ttl(Duration::from_secs(40)).fingerprint().unwrap();
    let expected = "name=ours nodes=3 needed=2 max_ttl=40000ms attempt_timeout=2000ms drift=0.01 protocol=1";
    assert_eq!(fingerprint.as_str(), expected);
    let wrong = builder().votes_needed(1).fingerprint();
    assert_eq!(wrong, Err(ConfigError::VotesNeeded { given: 1, nodes: 3, majority: 2 }));
}
