//! The node contract, on a real server.

use std::{sync::Arc, time::Duration};

use futures::FutureExt;

use super::{Scene, Server};
use crate::node::conformance::{Subject, conforms};

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_node_conforms() {
    let server = Server::start();
    let Scene { clock, node } = Scene::at(&server.url());
    let wait = Box::new(|time: Duration| tokio::time::sleep(time).boxed());
    conforms(&Subject { node: Arc::new(node), clock, wait }).await;
}
