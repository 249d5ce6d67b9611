//! The test of the contract of nodes (`node/conformance.rs`) with a real server.

use std::{sync::Arc, time::Duration};

use futures::FutureExt;

use super::{Fixture, Server};
use crate::node::conformance::{TestNode, conforms};

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_node_conforms_to_the_node_contract() {
    let server = Server::start();
    let Fixture { clock, node } = Fixture::at(&server.url());
    let wait = Box::new(|time: Duration| tokio::time::sleep(time).boxed());
    conforms(&TestNode { node: Arc::new(node), clock, wait }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_as_a_node_conforms_to_the_node_contract() {
    let server = Server::start_cluster();
    let Fixture { clock, node } = Fixture::at(&server.cluster_url());
    let wait = Box::new(|time: Duration| tokio::time::sleep(time).boxed());
    conforms(&TestNode { node: Arc::new(node), clock, wait }).await;
    let keys: Vec<String> = server.ask(&["KEYS", "*"]);
    assert!(!keys.is_empty() && keys.iter().all(|key| key.contains("{redquorum}")), "{keys:?}");
}
