//! The metadata of a node about its quorum.

use std::time::Duration;

use redquorum::unstable_redis::redis::cmd;

use crate::{
    connect::{Disconnected, NodeConnection, Reply},
    doctor::facts::NodeMetadata,
};

pub(super) async fn query(
    connection: &mut NodeConnection,
) -> Result<Reply<Option<NodeMetadata>>, Disconnected> {
    let fields = cmd("HMGET").arg("redquorum:node").arg("incarnation").arg("fingerprint").to_owned();
    let reply: Reply<(Option<String>, Option<String>)> = connection.query(&fields).await?;
    Ok(reply.map(|(incarnation, fingerprint)| {
        let incarnation = incarnation.unwrap_or_default();
        fingerprint.map(|fingerprint| NodeMetadata { incarnation, fingerprint })
    }))
}

/// Returns the rest of the node's quarantine.
pub(super) async fn quarantine(
    connection: &mut NodeConnection,
) -> Result<Reply<Option<Duration>>, Disconnected> {
    let reply: Reply<i64> = connection.query(cmd("PTTL").arg("redquorum:quarantine")).await?;
    // A negative number stands for a missing key.
    Ok(reply.map(|rest| u64::try_from(rest).ok().map(Duration::from_millis)))
}
