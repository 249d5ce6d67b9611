//! The nodes and the fingerprint of a builder, without a connection.

use std::time::Duration;

use redquorum::{__command::connectors, Quorum, admin::fingerprint, error::ConfigError};

#[tokio::test]
async fn connectors_have_the_addresses_of_the_nodes_in_order_without_passwords() {
    let sentinels = "redis+sentinel://s-2,s-1/mymaster";
    let builder = Quorum::builder().nodes(["redis://me:secret@Node-2", "redis://node-1:7000/3", sentinels]);
    let connectors_of_builder = connectors(&builder).unwrap();
    let shown: Vec<_> = connectors_of_builder.iter().map(|node| (node.address(), node.host())).collect();
    let expected =
        [("node-2:6379", Some("Node-2")), ("node-1:7000", Some("node-1")), ("s-1:26379/mymaster", None)];
    assert_eq!(shown, expected);
    let Err(ConfigError::Url { url, .. }) = connectors(&builder.nodes(["redis://node-1:7000"])) else {
        panic!("the builder accepted a node twice")
    };
    assert_eq!(&*url, "node-1:7000");
}

#[test]
fn without_a_runtime_there_are_no_connectors() {
    let builder = Quorum::builder().nodes(["redis://node-1"]);
    assert!(matches!(connectors(&builder), Err(ConfigError::NoRuntime { .. })));
}

#[test]
fn a_fingerprint_has_the_settings_that_nodes_check() {
    let builder = || Quorum::builder().nodes(["redis://a", "redis://b", "redis://c"]);
    let quorum = fingerprint(&builder().name("main").max_ttl(Duration::from_secs(40))).unwrap();
    let expected = "name=main nodes=3 needed=2 max_ttl=40000ms attempt_timeout=5000ms drift=0.01 protocol=3";
    assert_eq!(quorum, expected);
    let wrong = fingerprint(&builder().votes_needed(1)).unwrap_err();
    assert_eq!(wrong.to_string(), "votes_needed is 1: expected 2 to 3: 2 of 3 nodes are a majority");
}
