//! Tests of elections on in-memory nodes, in virtual time.

#![allow(clippy::disallowed_methods, reason = "these tests pass the virtual time")]

use std::time::Duration;

use crate::{
    MemoryCluster,
    election::Election,
    lock::tests::{NONE, all_behave, client, locked_nodes, pass, server, thaw_all, traces::Traces},
};

mod campaigning;
mod leading;
mod observing;
#[cfg(feature = "sim")]
mod simulated;

const TTL: Duration = Duration::from_secs(30);

/// Returns the election `e` of a new client.
fn election_of_new_client(cluster: &MemoryCluster) -> Election {
    client(cluster).election("e")
}

/// Returns the value of the present leader, if any.
async fn leader_value(election: &Election) -> Option<String> {
    election.leader().await.unwrap().map(|leader| leader.value_str().into_owned())
}
